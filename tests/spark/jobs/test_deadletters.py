"""Dead letters of real consumers: told by cause, exported, and sent again once."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import ConsumeResult, Message, MessageView
from skyrocketmq.blocking import Producer, PushConsumer
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import TRACE_TOPIC
from skyrocketmq.spark.jobs import Control
from skyrocketmq.spark.jobs.deadletters import DeadLettersResult, add_arguments, deadletters, run
from skyrocketmq.spark.jobs.deadletters_sending import LETTER_ID, again_of
from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.spark.jobs.house import send_empty

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Shop:
    """A cluster with a group that gives up every message until it is well."""

    cluster: BlockingCluster
    is_well: bool = False
    taken: list[MessageView] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def handle(self, message: MessageView) -> ConsumeResult:
        with self.changed:
            self.taken.append(message)
            self.changed.notify_all()
        return ConsumeResult.SUCCESS if self.is_well else ConsumeResult.retry(delay_level=-1)

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= count, 20)


@pytest.fixture(scope="module")
def shop(spark: SparkSession) -> Iterator[Shop]:
    with LocalCluster() as running, Producer("fill", namesrv=running.namesrv) as producer:
        for topic in ("Orders", "Bills", "Elsewhere", TRACE_TOPIC):
            running.create_topic(topic, queues=1)
        shop = Shop(running)
        consumer = PushConsumer("billing", namesrv=running.namesrv, consume_from="first", trace=True)
        consumer.subscribe("Orders", "*", shop.handle)
        consumer.subscribe("Bills", "*", shop.handle)
        with consumer:
            for number in range(4):
                producer.send(Message("Orders", b"order %d" % number, tags="new", keys=[f"o{number}"]))
            producer.send(Message("Bills", b"bill", tags="paid", properties={"colour": "red"}))
            running.messages("%DLQ%billing", count=5)
        shop.taken.clear()
        yield shop


def do(spark: SparkSession, shop: Shop, *words: str) -> DeadLettersResult:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    shared = {"namesrv": shop.cluster.namesrv, "connection": {}, "control": Control()}
    return run(spark, argparse.Namespace(**vars(parser.parse_args(words)), **shared))


@pytest.mark.system
@pytest.mark.timeout(300)
def test_dead_letters_are_told_by_cause_and_exported(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    result = deadletters(
        spark, namesrv=shop.cluster.namesrv, groups=["billing"], trace_topic=TRACE_TOPIC, parquet=tmp_path / "tables"
    )
    assert result.letters == 5
    found = [(one.group, one.origin_topic, one.tags, one.cause, one.attempts, one.messages) for one in result.causes]
    assert found == [
        ("billing", "Orders", "new", "given up at the first attempt", 1, 4),
        ("billing", "Bills", "paid", "given up at the first attempt", 1, 1),
    ]
    assert {one.last_outcome for one in result.causes} == {"failed"}, "by the traces of the consumer"
    rows = spark.read.parquet(str(tmp_path / "tables" / "letters")).where("origin_topic = 'Bills'").collect()
    assert [(bytes(row.body), row.properties["colour"]) for row in rows] == [(b"bill", "red")]
    assert "given up at the first attempt" in result.text()
    assert result.redrive is None


@pytest.mark.system
@pytest.mark.timeout(300)
def test_a_redrive_sends_once_and_only_when_told_to(spark: SparkSession, shop: Shop) -> None:
    before = {message.keys: message for message in shop.cluster.messages("%DLQ%billing")}
    chosen = ["--redrive", "retry", "--where", "tags = 'new' and keys[0] <> 'o3'", "--rate", "1000"]
    dry = do(spark, shop, *chosen)
    assert dry.redrive is not None
    assert (dry.redrive.to_send, dry.redrive.sent, dry.redrive.is_done) == (3, 0, False)
    assert "3 messages would be, with --yes" in dry.text()
    done = do(spark, shop, *chosen, "--yes")
    assert done.redrive is not None
    assert (done.redrive.targets, done.redrive.sent, done.redrive.already) == (("%RETRY%billing",), 3, 0)
    again = do(spark, shop, "--redrive", "retry", "--where", "tags = 'new'", "--yes")
    assert again.redrive is not None
    assert (again.redrive.chosen, again.redrive.already, again.redrive.sent) == (4, 3, 1)

    shop.is_well = True
    consumer = PushConsumer("billing", namesrv=shop.cluster.namesrv)
    consumer.subscribe("Orders", "*", shop.handle)
    with consumer:
        shop.wait_for(4)
    assert sorted(message.body for message in shop.taken) == [b"order %d" % number for number in range(4)]
    for message in shop.taken:
        letter = before[message.keys]
        assert (message.topic, message.tags, message.reconsume_times) == ("Orders", "new", 0)
        assert message.properties[names.ORIGIN_MESSAGE_ID] == letter.properties[names.ORIGIN_MESSAGE_ID]
        assert message.properties[LETTER_ID] == letter.offset_msg_id


@pytest.mark.system
@pytest.mark.timeout(300)
def test_dead_letters_go_to_their_topic_or_to_another_one(spark: SparkSession, shop: Shop) -> None:
    count = len(shop.cluster.messages("Bills"))
    options: dict[str, Any] = {"namesrv": shop.cluster.namesrv, "where": "origin_topic = 'Bills'", "yes": True}
    done = deadletters(spark, redrive="origin", **options)
    assert done.redrive is not None
    assert (done.redrive.targets, done.redrive.sent) == (("Bills",), 1)
    copy = shop.cluster.messages("Bills", count=count + 1)[-1]
    assert (copy.body, copy.tags, copy.properties["colour"]) == (b"bill", "paid", "red")
    assert names.RETRY_TOPIC not in copy.properties
    deadletters(spark, redrive="topic", to="Elsewhere", **options)
    assert [message.body for message in shop.cluster.messages("Elsewhere")] == [b"bill"]
    shop.cluster.create_topic("%DLQ%silent", queues=1)
    send_empty(shop.cluster, "%DLQ%silent")
    empty = deadletters(spark, redrive="topic", to="Elsewhere", **options | {"where": "group = 'silent'"})
    assert empty.redrive is not None
    assert (empty.redrive.chosen, empty.redrive.without_body, empty.redrive.sent) == (1, 1, 0)
    assert "1 without a body, 0 sent now" in empty.text()
    with pytest.raises(IllegalArgument, match="cannot go to Nowhere, which is not there: create it"):
        deadletters(spark, redrive="topic", to="Nowhere", **options)
    with pytest.raises(IllegalArgument, match=r"the condition 'colour = 3' cannot be used: .* Columns are .*attempts"):
        deadletters(spark, **(options | {"where": "colour = 3", "yes": False}))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"redrive": "home"}, "it can be retry, origin, topic"),
        ({"redrive": "topic"}, "a topic is named with redrive=topic, and only then"),
        ({"redrive": "retry", "to": "T"}, "a topic is named with redrive=topic, and only then"),
        ({"redrive": "retry", "rate": 0}, "messages a second, above 0"),
        ({"redrive": "topic", "to": "SCHEDULE_TOPIC_XXXX"}, "written by the broker only"),
        ({"yes": True}, "to, rate and yes belong to redrive"),
        ({"namesrv": "", "store": "x", "redrive": "retry"}, "only dead letters of a cluster can be sent again"),
    ],
)
def test_what_cannot_be_sent_again_is_told(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(IllegalArgument, match=said):
        deadletters(None, **({"namesrv": "localhost:1"} | wrong))  # type: ignore[arg-type]


def test_a_copy_has_what_is_the_users_and_where_it_comes_from() -> None:
    row = {
        "letter_id": "ABC",
        "target": "%RETRY%g",
        "origin_topic": "Orders",
        "origin_msg_id": "DEF",
        "tags": "new",
        "keys": ["a", "b"],
        "properties": {"colour": "red", "CLUSTER": "c", "RECONSUME_TIME": "3", LETTER_ID: "older", "DELAY": "0"}
        | {"blank": " ", "empty": ""},
        "body": bytearray(b"x"),
    }
    message = again_of(row, is_for_retry=True)
    assert message.properties == {"colour": "red", LETTER_ID: "ABC"}
    assert message.system_properties == {"RETRY_TOPIC": "Orders", "ORIGIN_MESSAGE_ID": "DEF"}
    assert again_of(row, is_for_retry=False).system_properties == {"ORIGIN_MESSAGE_ID": "DEF"}
