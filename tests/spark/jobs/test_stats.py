"""Figures of topics, beside figures that are worked out here from the same messages."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import Message, MessageView
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import IllegalArgument, NotFound
from skyrocketmq.model.names import TRACE_TOPIC
from skyrocketmq.spark.jobs import Control, archive
from skyrocketmq.spark.jobs.stats import StatsResult, TopValue, Traffic, add_arguments, run, stats
from skyrocketmq.spark.jobs.stats_report import stats_page
from skyrocketmq.testing import LocalCluster
from skyrocketmq.wire.trace import SubBefore, encode_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 200
HOSTILE = "<b>'tag'</b>"


@dataclass(frozen=True)
class Looked:
    """What the job said, and the messages themselves."""

    result: StatsResult
    messages: dict[str, list[MessageView]]
    namesrv: str
    store: Path
    place: Path


@pytest.fixture(scope="module")
def looked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looked]:
    place = tmp_path_factory.mktemp("stats")
    with LocalCluster(directory=place / "cluster") as running, Producer("fill", namesrv=running.namesrv) as producer:
        for topic in ("Orders", "Bills", TRACE_TOPIC):
            running.create_topic(topic, queues=2)
        for number in range(COUNT):
            topic = "Bills" if number % 5 == 0 else "Orders"
            tags = (None, "new", "new", HOSTILE)[number % 4]
            body = b"x" * (number * 7 % 901 + 1)
            producer.send(Message(topic, body, tags=tags, keys=["all", f"k{number % 20}"]))
        messages = {topic: running.messages(topic) for topic in ("Orders", "Bills")}
        _trace(producer, messages["Orders"])
        result = stats(
            spark,
            namesrv=running.namesrv,
            topics=["Orders", "Bills"],
            window="50ms",
            top=3,
            trace_topic=TRACE_TOPIC,
            parquet=place / "tables",
            report=place / "page.html",
        )
        yield Looked(result, messages, running.namesrv, place / "cluster" / "broker-a", place)


def _trace(producer: Producer, messages: list[MessageView]) -> None:
    """A handler was called with each message 40 ms after its birth, and again later."""
    records = [
        SubBefore(
            start_ms=message.born_timestamp + wait_ms,
            group="billing",
            request_id=f"{number}-{wait_ms}",
            msg_id=message.msg_id,
        )
        for number, message in enumerate(messages)
        for wait_ms in (40, 900)
    ]
    producer.send(Message(TRACE_TOPIC, encode_trace(records)))


def percentile(values: list[int], share: float) -> int:
    return sorted(values)[math.ceil(share * len(values)) - 1]


def check(row: Traffic, messages: list[MessageView]) -> None:
    sizes = [len(message.body) for message in messages]
    latencies = [message.store_timestamp - message.born_timestamp for message in messages]
    assert (row.messages, row.bytes, row.size_max) == (len(sizes), sum(sizes), max(sizes))
    assert [row.size_p50, row.size_p95, row.size_p99] == [percentile(sizes, share) for share in (0.5, 0.95, 0.99)]
    found = [row.latency_p50_ms, row.latency_p95_ms, row.latency_p99_ms, row.latency_max_ms]
    assert found == [percentile(latencies, share) for share in (0.5, 0.95, 0.99, 1)]
    times = [message.store_timestamp for message in messages]
    assert (row.first_ms, row.last_ms) == (min(times), max(times))


@pytest.mark.system
@pytest.mark.timeout(300)
def test_totals_and_topics_are_those_of_the_messages(looked: Looked) -> None:
    result = looked.result
    assert result.total is not None
    check(result.total, [message for some in looked.messages.values() for message in some])
    assert [row.topic for row in result.topics] == ["Bills", "Orders"]
    for row in result.topics:
        check(row, looked.messages[str(row.topic)])


@pytest.mark.system
def test_windows_are_those_of_the_store_times(looked: Looked) -> None:
    result = looked.result
    expected = Counter(
        (topic, message.store_timestamp // 50 * 50) for topic, some in looked.messages.items() for message in some
    )
    assert {(row.topic, row.begin_ms): row.messages for row in result.windows_by_topic} == expected
    first = result.windows_by_topic[0]
    assert first.messages_per_s == pytest.approx(first.messages / 0.05)
    assert sum(row.messages for row in result.windows) == COUNT


@pytest.mark.system
def test_tags_and_keys_that_most_messages_have_are_listed(looked: Looked) -> None:
    tags = Counter(message.tags or None for message in looked.messages["Orders"])
    assert {one.value: one.messages for one in looked.result.tags if one.topic == "Orders"} == tags
    keys = [one for one in looked.result.keys if one.topic == "Bills"]
    assert (keys[0].value, keys[0].messages, len(keys)) == ("all", COUNT // 5, 3)
    sizes = Counter(len(message.body).bit_length() for some in looked.messages.values() for message in some)
    found = {one.high.bit_length() - 1: one.messages for one in looked.result.histogram if one.what == "size"}
    assert found == sizes


@pytest.mark.system
def test_traces_tell_how_long_messages_took_to_their_consumers(looked: Looked) -> None:
    [group] = [row for row in looked.result.deliveries if row.begin_ms is None and row.group is not None]
    count = len(looked.messages["Orders"])
    assert (group.group, group.messages, group.calls) == ("billing", count, 2 * count)
    assert (group.wait_p50_ms, group.wait_max_ms) == (40, 40)


@pytest.mark.system
def test_the_page_and_the_tables_have_the_same_figures(looked: Looked, spark: SparkSession) -> None:
    page = (looked.place / "page.html").read_text()
    assert page == stats_page(looked.result)
    assert HOSTILE not in page
    assert "&lt;b&gt;" in page
    rows = spark.read.parquet(str(looked.place / "tables" / "topics")).collect()
    assert {row.topic: row.messages for row in rows} == {row.topic: row.messages for row in looked.result.topics}


@pytest.mark.system
@pytest.mark.timeout(300)
def test_a_store_and_an_archive_give_the_same_totals(looked: Looked, spark: SparkSession) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = [
        "--store",
        str(looked.store),
        "--window",
        "1h",
        "--since",
        "2020-01-01",
        "--until",
        "2099-01-01T00:00+01:00",
    ]
    shared = {"namesrv": "localhost:9876", "connection": {}, "control": Control()}
    result = run(spark, argparse.Namespace(**vars(parser.parse_args(words)), **shared))
    assert [(row.topic, row.messages) for row in result.topics] == [
        (row.topic, row.messages) for row in looked.result.topics
    ], "the system's own topics are left out"
    assert f"{COUNT} messages" in result.text()
    path = str(looked.place / "archive")
    archive(spark, namesrv=looked.namesrv, topics=["Bills"], path=path)
    again = stats(spark, archive=path, topics=["Bills"])
    assert again.total is not None
    check(again.total, looked.messages["Bills"])
    with pytest.raises(NotFound, match=r"there is no archive at .*: the job archive writes one"):
        stats(spark, archive=looked.place / "tables" / "topics")
    later = stats(spark, archive=path, since_ms=4_000_000_000_000)
    assert later.total is None
    assert later.text().endswith("no messages")
    assert "0" in stats_page(later)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "none is given"),
        ({"namesrv": "a:1", "store": "b"}, "namesrv and store is given"),
        ({"store": "b", "window": "1"}, "write a number and ms, s, m, h or d"),
        ({"store": "b", "window": "0s"}, "write a number"),
        ({"store": "b", "top": 0}, "from 1 on"),
        ({"store": "b", "report": "/nothing/at/all.html"}, "is no directory"),
        ({"store": "b", "since_ms": 5, "until_ms": 5}, "the time range is empty"),
    ],
)
def test_what_cannot_be_is_told(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(IllegalArgument, match=said):
        stats(None, **wrong)  # type: ignore[arg-type]


def test_the_busiest_topics_have_their_own_line_and_the_others_share_one() -> None:
    def row(topic: str | None, begin_ms: int | None) -> Traffic:
        numbers = dict.fromkeys((one for one in Traffic.__dataclass_fields__ if one not in ("topic", "begin_ms")), 7)
        return Traffic(topic=topic, begin_ms=begin_ms, **numbers)

    topics = [f"T{number}" for number in range(8)]
    times = [0, 60_000, 180_000]
    page = stats_page(
        StatsResult(
            place="here",
            window_ms=60_000,
            total=row(None, None),
            topics=tuple(row(topic, None) for topic in topics),
            windows=tuple(row(None, time) for time in times),
            windows_by_topic=tuple(row(topic, time) for topic in topics for time in times),
            tags=(TopValue(topic="T0", kind="tag", value=None, messages=7, bytes=7, rank=1),),
            keys=(),
            histogram=(),
            deliveries=(),
        )
    )
    assert "3 other topics" in page
    assert "1970-01-01 00:02:00: 0/s" in page, "a window without messages is drawn as 0"
    assert "were stored before they were born" in page
    assert "(none)" in page
