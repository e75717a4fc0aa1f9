"""Reading by key: through the index of a real broker, completely, and nothing that only looks like it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import IllegalArgument, NetError
from skyrocketmq.spark import keyed
from skyrocketmq.spark.cluster import Cluster, Indexed
from skyrocketmq.spark.keyed import KeyLookup, NoIndex, plan_lookups, read_lookup
from skyrocketmq.spark.link import LinkSettings
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.spark.pulling import QueueRange
from skyrocketmq.spark.source import RocketMQDataSource, RocketMQReader
from skyrocketmq.testing import BlockingCluster, LocalCluster
from skyrocketmq.testing.clock import ManualClock

SECONDS = 5
MANY = 150  # messages with one key within a second: more than two answers hold


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    """Two brokers; in each of some seconds there are many messages with key `busy`, and one with a key of its own."""
    with LocalCluster(brokers=2, clock=ManualClock()) as running:
        running.create_topic("Orders", queues=2)
        running.create_topic("Bills", queues=1)
        with Producer("fill", namesrv=running.namesrv) as producer:
            for second in range(SECONDS):
                many = MANY if second in (1, 3) else 20
                batch = [
                    Message("Orders", b"%d %d" % (second, number), keys=["busy"], tags="odd" if number % 2 else "even")
                    for number in range(many)
                ]
                for queue_id in range(2):
                    some = batch[queue_id::2]
                    producer.send_batch(some, queue=MessageQueue("Orders", "broker-a", queue_id))
                producer.send(Message("Orders", b"rare %d" % second, keys=[f"rare-{second}", "busier"]))
                running.advance(seconds=0.7)
            # "Aa" and "BB" have the same hash, so has every text that begins with one of them.
            for key in ("Aa-1", "BB-1"):
                producer.send(Message("Orders", key.encode(), keys=[key], tags="even"))
            producer.send(Message("Orders", b"both", keys=["Aa-1", "BB-1", "Aa-1"]))
            producer.send(Message("Bills", b"a bill", keys=["busy", "Aa-1"]))
        yield running


def reader(cluster: BlockingCluster, keys: str, **options: str) -> RocketMQReader:
    source = RocketMQDataSource({"namesrv": cluster.namesrv, "subscribe": "Orders", "keys": keys} | options)
    made = source.reader(source.schema())
    assert isinstance(made, RocketMQReader)
    return made


def rows(reading: RocketMQReader) -> list[dict[str, Any]]:
    copy = pickle.loads(pickle.dumps(reading))
    parts = [pickle.loads(pickle.dumps(part)) for part in reading.partitions()]
    return [row for part in parts for batch in copy.read(part) for row in batch.to_pylist()]


def bodies(reading: RocketMQReader) -> list[bytes]:
    return sorted(row["body"] for row in rows(reading))


def busy(*, seconds: range = range(SECONDS)) -> list[bytes]:
    return sorted(
        b"%d %d" % (second, number) for second in seconds for number in range(MANY if second in (1, 3) else 20)
    )


def test_messages_with_a_key_are_found_on_every_broker_with_all_their_columns(cluster: BlockingCluster) -> None:
    found = rows(reader(cluster, "rare-0, rare-4 nobody"))
    assert sorted(row["body"] for row in found) == [b"rare 0", b"rare 4"]
    assert {tuple(row["keys"]) for row in found} == {("rare-0", "busier"), ("rare-4", "busier")}
    assert {row["topic"] for row in found} == {"Orders"}
    assert all(row["broker"] in ("broker-a", "broker-b") for row in found)
    bills = reader(cluster, "busy", subscribe="Bills")
    assert [row["body"] for row in rows(bills)] == [b"a bill"]


def test_more_messages_than_an_answer_or_a_second_of_the_index_holds_are_all_found_once(
    cluster: BlockingCluster,
) -> None:
    assert bodies(reader(cluster, "busy")) == busy()
    columns = reader(cluster, "busy")
    columns._columns = ("queue_offset",)
    assert {tuple(row) for row in rows(columns)} == {("queue_offset",)}


def test_keys_of_the_same_hash_are_told_apart_and_a_message_with_two_keys_is_one_row(cluster: BlockingCluster) -> None:
    assert bodies(reader(cluster, "Aa-1")) == [b"Aa-1", b"both"]
    assert bodies(reader(cluster, "BB-1")) == [b"BB-1", b"both"]
    assert bodies(reader(cluster, "BB-1,Aa-1")) == [b"Aa-1", b"BB-1", b"both"]
    shared = reader(cluster, "BB-1,Aa-1,rare-1", minPartitions="5")
    assert len(shared.partitions()) >= 3
    assert bodies(shared) == [b"Aa-1", b"BB-1", b"both", b"rare 1"]


def test_times_offsets_tags_and_filters_narrow_a_lookup(cluster: BlockingCluster) -> None:
    stored = {row["body"]: row["store_timestamp"] for row in rows(reader(cluster, "busy"))}
    moment = stored[b"2 0"]
    moment_ms = str(round(moment.timestamp() * 1000))
    assert bodies(reader(cluster, "busy", startingTimestamp=moment_ms)) == busy(seconds=range(2, SECONDS))
    assert bodies(reader(cluster, "busy", endingTimestamp=moment_ms)) == busy(seconds=range(2))
    assert bodies(reader(cluster, "Aa-1", tags="even")) == [b"Aa-1"]
    pushed = reader(cluster, "busy")
    pushed.pushFilters([GreaterThanOrEqual(("store_timestamp",), moment), EqualTo(("queue_id",), 1)])
    assert {row["queue_id"] for row in rows(pushed)} == {1}
    assert set(bodies(pushed)) < set(busy(seconds=range(2, SECONDS)))
    assigned = reader(cluster, "busy", subscribe="", assign='{"Orders": ["broker-a:0"]}', endingOffsets="latest")
    assert {row["queue_id"] for row in rows(assigned)} == {0}


def test_a_smaller_limit_of_the_broker_is_no_loss(cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed, "ANSWER_COUNT_MAX", keyed.FULL_COUNT)
    assert bodies(reader(cluster, "busy")) == busy()


def test_what_an_index_cannot_do_is_refused(cluster: BlockingCluster) -> None:
    options = {"namesrv": cluster.namesrv, "subscribe": "Orders", "keys": "k"}
    with pytest.raises(IllegalArgument, match=r"keys cannot be used here.*array_contains\(keys"):
        SourceOptions.parse(options, is_stream=True)
    with pytest.raises(IllegalArgument, match="give keys or sql, not both"):
        SourceOptions.parse(options | {"sql": "a > 1"}, is_stream=False)
    with pytest.raises(IllegalArgument, match=r'keys is .*: a list of texts such as \["a", "b"\]'):
        SourceOptions.parse(options | {"keys": "[1]"}, is_stream=False)
    with pytest.raises(IllegalArgument, match="keys are texts without blanks"):
        SourceOptions.parse(options | {"keys": '["a b"]'}, is_stream=False)
    assert SourceOptions.parse(options | {"keys": '["a,b", "c"]'}, is_stream=False).keys == ("a,b", "c")


def test_a_broker_without_an_index_is_named() -> None:
    with LocalCluster(settings={"messageIndexEnable": "false"}) as blind:
        blind.create_topic("Orders", queues=1)
        with Producer("fill", namesrv=blind.namesrv) as producer:
            producer.send(Message("Orders", b"x", keys=["k"]))
        with pytest.raises(NoIndex, match=r"broker broker-a has no index of Orders.*messageIndexEnable=true"):
            rows(reader(blind, "k"))


def test_a_broker_that_tells_nothing_of_its_index_is_asked_for_a_message_that_must_be_there(
    cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache's, when it finds nothing."""
    indexed = Cluster.indexed

    def tell_nothing(*arguments: Any, **options: Any) -> Indexed:
        return Indexed(indexed(*arguments, **options).records, False)

    monkeypatch.setattr(Cluster, "indexed", tell_nothing)
    assert bodies(reader(cluster, "nobody")) == []
    assert bodies(reader(cluster, "busy,nobody")) == busy()


def test_a_broker_that_is_away_is_waited_for_and_then_given_up(cluster: BlockingCluster) -> None:
    pauses: list[float] = []
    options = SourceOptions.parse(
        {"namesrv": cluster.namesrv, "subscribe": "Orders", "keys": "rare-1", "retries": "2"}, is_stream=False
    )
    ranges = tuple(QueueRange("Orders", broker, 0, 0, 10**6) for broker in ("broker-a",))

    def wait(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            cluster.start_broker("broker-a")

    cluster.stop_broker("broker-a")
    with Cluster(options.name_servers, LinkSettings(timeout_s=5)) as asked:
        list(read_lookup(asked, KeyLookup("Orders", "broker-a", ("rare-1",), ranges), options, ("body",), sleep=wait))
    assert len(pauses) == 2
    cluster.stop_broker("broker-a")
    try:
        gone = KeyLookup("Orders", "broker-a", ("rare-1",), ranges)
        with (
            Cluster(options.name_servers, LinkSettings(timeout_s=5)) as asked,
            pytest.raises(NetError, match=r"keys of Orders .* broker broker-a: 3 attempts failed: "),
        ):
            list(read_lookup(asked, gone, options, ("body",), sleep=lambda _: None))
    finally:
        cluster.start_broker("broker-a")


def test_lookups_share_topics_brokers_and_then_keys() -> None:
    ranges = [QueueRange(topic, broker, queue, 0, 9) for topic in "TU" for broker in "ab" for queue in (0, 1)]
    plan = plan_lookups(ranges, ("k", "l", "m"), None, end_ms=7)
    assert [(one.topic, one.broker, one.keys, len(one.ranges)) for one in plan] == [
        (topic, broker, ("k", "l", "m"), 2) for topic in "TU" for broker in "ab"
    ]
    assert {(one.begin_ms, one.end_ms) for one in plan} == {(0, 7)}
    more = plan_lookups(ranges, ("k", "l", "m"), 6)
    assert len(more) == 8
    assert {one.keys for one in more} == {("k", "m"), ("l",)}
    assert len(plan_lookups(ranges, ("k",), 100)) == 4
    assert plan_lookups([], ("k",), 3) == []


def test_large_bodies_of_a_key_come_in_several_batches(
    cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("Large", queues=1)
    with Producer("fill", namesrv=cluster.namesrv) as producer:
        for number in range(4):
            producer.send(Message("Large", b"%d" % number * 10_000, keys=["k"]))
    monkeypatch.setattr("skyrocketmq.spark.columns.INFLATED_BYTES", 25_000)
    reading = reader(cluster, "k", subscribe="Large")
    sizes = [batch.num_rows for part in reading.partitions() for batch in reading.read(part)]
    assert (sum(sizes), max(sizes)) == (4, 2)
