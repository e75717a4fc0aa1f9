"""Streams from a real broker, without a JVM: the calls that Spark makes batch after batch are made here."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StructType

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.spark.pulling import DataLost
from skyrocketmq.spark.source import RocketMQDataSource
from skyrocketmq.spark.stream import RocketMQStreamReader
from skyrocketmq.testing import BlockingCluster, LocalCluster

Offset = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="module")
def producer(cluster: BlockingCluster) -> Iterator[Producer]:
    with Producer("fill", namesrv=cluster.namesrv) as made:
        yield made


@pytest.fixture
def topic(cluster: BlockingCluster, request: pytest.FixtureRequest) -> str:
    name = f"topic-{abs(hash(request.node.name))}"
    cluster.create_topic(name, queues=2)
    return name


def fill(producer: Producer, topic: str, *counts: int, size: int = 10) -> None:
    for queue_id, count in enumerate(counts):
        for _ in range(count):
            producer.send(Message(topic, b"x" * size), queue=MessageQueue(topic, "broker-a", queue_id))


class Query:
    """What a streaming query does with its source."""

    def __init__(self, cluster: BlockingCluster, topic: str, checkpoint: Offset | None = None, **options: str) -> None:
        source = RocketMQDataSource({"namesrv": cluster.namesrv, "subscribe": topic, "timeout": "5s"} | options)
        reader = source.streamReader(StructType().add("queue_id", "integer").add("queue_offset", "long"))
        assert isinstance(reader, RocketMQStreamReader)
        self.reader = reader
        try:
            self.start = checkpoint if checkpoint is not None else reader.initialOffset()
        except BaseException:
            reader.stop()
            raise

    def batch(self, *, is_unlimited: bool = False) -> list[tuple[int, int]]:
        """The (queue, offset) of the messages of the next batch."""
        limit = ReadAllAvailable() if is_unlimited else self.reader.getDefaultReadLimit()
        end = self.reader.latestOffset(self.start, limit)
        rows = self.rows(self.start, end)
        self.reader.commit(end)
        self.start = end
        return rows

    def rows(self, start: Offset, end: Offset) -> list[tuple[int, int]]:
        task = pickle.loads(pickle.dumps(self.reader))
        parts = pickle.loads(pickle.dumps(self.reader.partitions(start, end)))
        return [tuple(row.values()) for part in parts for batch in task.read(part) for row in batch.to_pylist()]


Begin = Callable[..., Query]


@pytest.fixture
def begin(cluster: BlockingCluster) -> Iterator[Begin]:
    """Queries that are stopped with the test, as Spark stops them."""
    begun: list[Query] = []

    def make(topic: str, **options: Any) -> Query:
        begun.append(Query(cluster, topic, **options))
        return begun[-1]

    yield make
    for query in begun:
        query.reader.stop()


def test_batches_follow_each_other(begin: Begin, producer: Producer, topic: str) -> None:
    fill(producer, topic, 3, 1)
    query = begin(topic, startingOffsets="earliest")
    assert query.batch() == [(0, 0), (0, 1), (0, 2), (1, 0)]
    before = query.start
    assert query.batch() == []
    assert query.start == before, "nothing new: Spark must see the same offset"
    fill(producer, topic, 1)
    assert query.batch() == [(0, 3)]
    assert query.start == {topic: {"broker-a:0": 4, "broker-a:1": 1}}
    assert query.reader.reportLatestOffset() == query.start
    assert begin(topic).batch() == [], "a stream begins at the end unless it is told otherwise"
    query.reader.stop()
    query.reader.stop()


def test_a_repeated_batch_has_the_same_rows(begin: Begin, producer: Producer, topic: str) -> None:
    fill(producer, topic, 7, 5)
    query = begin(topic, startingOffsets="earliest", minPartitions="3")
    start = query.start
    rows = query.batch()
    fill(producer, topic, 2, 2)
    again = begin(topic, checkpoint=start, minPartitions="3")
    assert again.rows(start, query.start) == rows
    assert begin(topic, checkpoint=query.start).batch() == [(0, 7), (0, 8), (1, 5), (1, 6)]


def test_a_batch_takes_so_many_messages(begin: Begin, producer: Producer, topic: str) -> None:
    fill(producer, topic, 8, 2)
    query = begin(topic, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(5)
    assert [len(query.batch()) for _ in range(3)] == [5, 5, 0]
    unlimited = begin(topic, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    assert len(unlimited.batch(is_unlimited=True)) == 10


def test_a_batch_takes_so_many_bytes(begin: Begin, producer: Producer, topic: str) -> None:
    fill(producer, topic, 20, size=4000)
    query = begin(topic, startingOffsets="earliest", maxBytesPerTrigger="50000")
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(50000)
    counts = [len(query.batch()) for _ in range(3)]
    assert 10 <= counts[0] <= 12, "records of a little more than 4000 bytes"
    assert counts == [counts[0], 20 - counts[0], 0]
    tiny = begin(topic, startingOffsets="earliest", maxBytesPerTrigger="1")
    assert len(tiny.batch()) == 1


def test_a_batch_waits_for_so_many_messages_or_so_long(begin: Begin, producer: Producer, topic: str) -> None:
    fill(producer, topic, 3)
    query = begin(topic, startingOffsets="earliest", minOffsetsPerTrigger="4", maxTriggerDelay="1h")
    assert query.reader.getDefaultReadLimit() == ReadMinRows(4)
    assert len(query.batch()) == 3, "the first one does not wait"
    fill(producer, topic, 3)
    assert query.batch() == []
    fill(producer, topic, 1)
    assert len(query.batch()) == 4
    hasty = begin(topic, startingOffsets="earliest", minOffsetsPerTrigger="9", maxTriggerDelay="0ms")
    assert len(hasty.batch()) == 7
    fill(producer, topic, 1)
    assert len(hasty.batch()) == 1


def test_available_now_ends_where_it_began(begin: Begin, producer: Producer, topic: str) -> None:
    fill(producer, topic, 5, 0)
    query = begin(topic, startingOffsets="earliest", maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3")
    query.reader.prepareForTriggerAvailableNow()
    fill(producer, topic, 4, 4)
    assert [len(query.batch()) for _ in range(3)] == [3, 2, 0]


def test_new_queues_are_read_from_their_beginning(
    begin: Begin, cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    fill(producer, topic, 1)
    query = begin(topic)  # from the end of what is there
    cluster.create_topic(topic, queues=3)
    fill(producer, topic, 0, 0, 2)
    rows = query.batch() + query.batch()
    assert rows == [(2, 0), (2, 1)]


def test_a_pattern_finds_new_topics(begin: Begin, cluster: BlockingCluster, producer: Producer, topic: str) -> None:
    query = begin(topic, subscribe="", subscribePattern=f"{topic}-.*", startingOffsets="latest")
    assert query.start == {}
    assert query.batch() == []
    cluster.create_topic(f"{topic}-b", queues=1)
    fill(producer, f"{topic}-b", 2)
    assert query.batch() + query.batch() == [(0, 0), (0, 1)]


def test_a_place_that_the_queue_does_not_have_is_an_error_or_passed_over(
    begin: Begin, producer: Producer, topic: str
) -> None:
    fill(producer, topic, 3)
    beyond = {topic: {"broker-a:0": 50, "broker-a:1": 0}}
    with pytest.raises(DataLost, match=rf"{topic}@broker-a:0 is at 50, and the queue has \[0, 3\) now.*failOnDataLoss"):
        begin(topic, checkpoint=beyond).batch()
    tolerant = begin(topic, checkpoint=beyond, failOnDataLoss="false")
    assert tolerant.batch() + tolerant.batch() == [(0, 0), (0, 1), (0, 2)], "the topic was made anew"
    with pytest.raises(DataLost, match="is at 9"):
        begin(topic, startingOffsets=f'{{"{topic}": {{"broker-a:0": 9, "broker-a:1": 0}}}}')


def test_a_group_shows_how_far_the_query_is(
    begin: Begin, cluster: BlockingCluster, producer: Producer, topic: str
) -> None:
    fill(producer, topic, 3, 2)
    query = begin(topic, startingOffsets="earliest", group="pipeline")
    query.batch()
    cluster.wait_consumed("pipeline", topic)


@pytest.mark.parametrize("is_assigned", [False, True])
def test_a_broker_that_is_away_does_not_end_the_query(
    begin: Begin, cluster: BlockingCluster, producer: Producer, topic: str, is_assigned: bool
) -> None:
    fill(producer, topic, 3)
    chosen = {"subscribe": "", "assign": json.dumps({topic: ["broker-a:0"]})} if is_assigned else {}
    query = begin(topic, startingOffsets="earliest", group="pipeline", **chosen)
    cluster.stop_broker("broker-a")
    try:
        before = query.start
        assert query.batch() == []
        assert query.start == before
    finally:
        cluster.start_broker("broker-a")
    assert len(query.batch()) == 3
