"""Traces as journeys: artificial ones whose every time is known, and those of a real producer and consumer."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import ConsumeResult, Message, MessageView
from skyrocketmq.blocking import Producer, PushConsumer
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.names import TRACE_TOPIC
from skyrocketmq.spark.jobs import Control
from skyrocketmq.spark.jobs.trace import add_arguments, run, trace
from skyrocketmq.spark.jobs.trace_records import UNREADABLE, rows_of
from skyrocketmq.spark.jobs.trace_report import trace_page
from skyrocketmq.spark.jobs.trace_values import Delivery, Journey, Skew, TraceResult
from skyrocketmq.testing import BlockingCluster, LocalCluster
from skyrocketmq.wire.trace import ConsumeOutcome, TraceMessageType, TraceRecord, encode_trace
from tests.spark.jobs.seen_traces import START_MS, handled, sent, transaction_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED, RAISED = ConsumeOutcome.FAILED, ConsumeOutcome.EXCEPTION
HALF = TraceMessageType.TRANSACTION_HALF

TRACES: list[list[TraceRecord]] = [
    [sent("good"), *handled("good", 100), *handled("good", 130, group="stock")],
    [sent("bad"), *handled("bad", 100, outcome=RAISED), *handled("bad", 10_100, outcome=FAILED, retry=1)],
    [*handled("bad", 90, group="stock")],  # another group has no trouble with it
    [sent("late"), *handled("late", 100, outcome=FAILED), *handled("late", 10_100, retry=1)],
    [sent("lost"), sent("refused", is_success=False), sent("one,two", 7)],
    [sent("back", kind=HALF), transaction_ended("back", 40, "ROLLBACK_MESSAGE"), sent("half", kind=HALF)],
    [sent("whole", kind=HALF), transaction_ended("whole", 40, "COMMIT_MESSAGE"), *handled("whole", 60)],
    [sent("now"), *handled("now", 100, outcome=None)],
    [*handled("stranger", 100)],
    [sent("early", 500, topic="Skewed"), *handled("early", 200)],  # 300 ms before it was sent
]


@pytest.fixture(scope="module")
def traced(spark: SparkSession) -> Iterator[BlockingCluster]:
    """The artificial traces, some of them twice, a message that is none, and two real journeys in topic Real."""
    with LocalCluster() as running, Producer("traces", namesrv=running.namesrv) as producer:
        running.create_topic(TRACE_TOPIC, queues=1)
        running.create_topic("Real", queues=1)
        for records in [*TRACES, TRACES[0]]:
            producer.send(Message(TRACE_TOPIC, encode_trace(records)))
        producer.send(Message(TRACE_TOPIC, b"Pub\x01not a number\x02"))
        _make_real_ones(running)
        yield running


def _make_real_ones(running: BlockingCluster) -> None:
    done = threading.Event()
    consumer = PushConsumer("readers", namesrv=running.namesrv, consume_from="first", trace=True)

    @consumer.subscribe("Real")
    def read(message: MessageView) -> ConsumeResult:
        if message.body == b"refused":
            return ConsumeResult.retry(delay_level=-1)
        done.set()
        return ConsumeResult.SUCCESS

    with consumer, Producer("senders", namesrv=running.namesrv, trace=True) as producer:
        producer.send(Message("Real", b"refused", keys=["no"]))
        producer.send(Message("Real", b"taken", keys=["yes"]))
        assert done.wait(10)
        running.wait_consumed("readers", "Real")


@pytest.fixture(scope="module")
def result(spark: SparkSession, traced: BlockingCluster, tmp_path_factory: pytest.TempPathFactory) -> TraceResult:
    place = tmp_path_factory.mktemp("traces")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["--topics", "Real", "--parquet", str(place / "tables"), "--report", str(place / "page.html")]
    shared = {"namesrv": traced.namesrv, "connection": {}, "control": Control()}
    made = run(spark, argparse.Namespace(**vars(parser.parse_args(words)), **shared))
    rows = spark.read.parquet(str(place / "tables" / "journeys")).where("state = 'failed'").collect()
    assert {row.msg_id for row in rows} >= {"bad"}
    assert (place / "page.html").read_text() == trace_page(made)
    return made


def journey(result: TraceResult, msg_id: str) -> Journey:
    return next(one for one in result.examples if one.msg_id == msg_id)


@pytest.mark.system
@pytest.mark.timeout(300)
def test_every_message_has_its_state(result: TraceResult) -> None:
    states = {one.msg_id: one.state for one in result.examples if one.topic != "Real"}
    assert states == {
        "good": "consumed",
        "bad": "failed",
        "late": "consumed",
        "lost": "not consumed",
        "refused": "send failed",
        "one": "not consumed",
        "two": "not consumed",
        "back": "rolled back",
        "half": "undecided",
        "whole": "consumed",
        "now": "under way",
        "stranger": "consumed",
        "early": "consumed",
    }
    assert result.messages == len(states) + 2
    assert result.unreadable == 1


@pytest.mark.system
def test_a_journey_has_each_delivery_with_its_group_and_outcome(result: TraceResult) -> None:
    bad = journey(result, "bad")
    assert [(one.group, one.outcome, one.retry_times) for one in bad.deliveries] == [
        ("stock", "success", 0),
        ("billing", "raised", 0),
        ("billing", "failed", 1),
    ]
    assert (bad.sent_ms, bad.send_cost_ms, bad.wait_ms) == (START_MS, 5, 90)
    assert bad.deliveries[1].ended_ms == START_MS + 120
    assert journey(result, "good").deliveries[0].begun_ms == START_MS + 100, "traces that came twice count once"
    assert journey(result, "back").transaction_state == "ROLLBACK_MESSAGE"
    billing = next(one for one in result.groups if (one.topic, one.group) == ("Journeys", "billing"))
    assert (billing.messages, billing.attempts, billing.failures, billing.without_success) == (5, 7, 3, 2)
    assert (billing.wait_p50_ms, billing.wait_max_ms, billing.call_p50_ms) == (100, 100, 20)


@pytest.mark.system
def test_clocks_that_differ_are_named(result: TraceResult) -> None:
    assert ("10.0.0.1", 300) in {(one.ahead, one.ahead_ms) for one in result.skews}
    assert "is ahead of that of" in result.text()
    assert "Clocks differ" in trace_page(result)


@pytest.mark.system
def test_real_journeys_know_when_they_were_stored(result: TraceResult, traced: BlockingCluster) -> None:
    real = {one.keys: one for one in result.examples if one.topic == "Real"}
    stored = {message.keys[0]: message.store_timestamp for message in traced.messages("Real")}
    assert {keys: one.stored_ms for keys, one in real.items()} == stored
    assert (real["yes"].state, real["no"].state) == ("consumed", "failed")
    assert real["no"].deliveries[0].outcome == "failed"


def test_what_cannot_be_read_is_counted_and_ids_of_a_batch_are_told_apart() -> None:
    assert rows_of(b"Pub\x01x\x02", "10.0.0.1:80") == [{"kind": UNREADABLE, "client": "10.0.0.1"}]
    rows = rows_of(encode_trace([sent("a,b")]), "10.0.0.2:80")
    assert [(row["msg_id"], row["client"]) for row in rows] == [("a", "10.0.0.1"), ("b", "10.0.0.1")]
    assert rows_of(b"", None) == []


def test_what_traces_say_is_text_in_the_report() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    call = Delivery(group=hostile, client=hostile, begun_ms=5, ended_ms=None, outcome=hostile, retry_times=None)
    texts = dict.fromkeys(("msg_id", "topic", "tags", "keys", "state", "kind", "producer", "store_host"), hostile)
    times = dict.fromkeys(("sent_ms", "send_cost_ms", "stored_ms", "transaction_ms", "wait_ms", "done_ms"), 7)
    values: dict[str, Any] = {**texts, **times, "transaction_state": hostile, "deliveries": (call,)}
    one = Journey(**values)
    page = trace_page(
        TraceResult(
            place=hostile,
            trace_topic=hostile,
            messages=1,
            states={hostile: 1},
            unreadable=1,
            topics=(),
            groups=(),
            skews=(Skew(ahead=hostile, behind=hostile, ahead_ms=1, times=1),),
            waits={0: 1, 3: 2},
            examples=(one,),
        )
    )
    assert "<img" not in page
    assert page.count("&lt;img") > 10


def test_places_that_cannot_be_are_refused(tmp_path: Path) -> None:
    nothing: SparkSession = None  # type: ignore[assignment]
    with pytest.raises(IllegalArgument, match="one of namesrv, store and archive: none is given"):
        trace(nothing)
    with pytest.raises(IllegalArgument, match="is there already"):
        trace(nothing, store=tmp_path, parquet=tmp_path)
