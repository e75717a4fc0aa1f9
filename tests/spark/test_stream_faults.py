"""A stream from two brokers of which one is away, or silent: it goes on with the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.sql.types import StructType

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import NetError
from skyrocketmq.model import TopicConfig
from skyrocketmq.spark.source import RocketMQDataSource
from skyrocketmq.spark.stream import RocketMQStreamReader
from skyrocketmq.testing import BlockingCluster, Direction, LocalCluster

Offset = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster(brokers=2) as running:
        running._run(make_topics(running))
        running.create_topic("Both", queues=4)  # known when this returns, and so are those made before
        yield running


async def make_topics(cluster: BlockingCluster) -> None:
    for name, broker in cluster.awaitable.brokers.items():
        broker.tables.topics.put(TopicConfig(f"On-{name}", read_queue_nums=1, write_queue_nums=1))


def send(cluster: BlockingCluster, topic: str, *brokers: str) -> None:
    with Producer("fill", namesrv=cluster.namesrv) as producer:
        for broker in brokers:
            producer.send(Message(topic, b"x"), queue=MessageQueue(topic, broker, 0))


@pytest.fixture
def away(cluster: BlockingCluster) -> Iterator[None]:
    """Calling for this has a test begin with both brokers, and end with both."""
    yield
    if "broker-b" not in cluster.awaitable.brokers:
        cluster.start_broker("broker-b")


def stream(cluster: BlockingCluster, **options: str) -> RocketMQStreamReader:
    source = RocketMQDataSource({"namesrv": cluster.namesrv, "timeout": "1s", **options})
    made = source.streamReader(StructType().add("broker", "string"))
    assert isinstance(made, RocketMQStreamReader)
    return made


def next_batch(reader: RocketMQStreamReader, start: Offset) -> Offset:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize(
    ("options", "topics"),
    [
        ({"assign": '{"Both": ["broker-a:0", "broker-b:0"]}'}, ("Both", "Both")),
        ({"subscribe": "On-broker-a,On-broker-b"}, ("On-broker-a", "On-broker-b")),
    ],
)
def test_queues_and_topics_of_a_broker_that_is_away_stay_where_they_are(
    cluster: BlockingCluster, options: dict[str, str], topics: tuple[str, str]
) -> None:
    here, there = topics
    reader = stream(cluster, startingOffsets="latest", **options)
    start = reader.initialOffset()
    cluster.stop_broker("broker-b")
    send(cluster, here, "broker-a")
    end = next_batch(reader, start)
    assert end[here]["broker-a:0"] == start[here]["broker-a:0"] + 1
    assert end[there]["broker-b:0"] == start[there]["broker-b:0"]
    cluster.start_broker("broker-b")
    send(cluster, there, "broker-b")
    assert next_batch(reader, end)[there]["broker-b:0"] == start[there]["broker-b:0"] + 1
    reader.stop()


def test_a_broker_that_answers_nothing_costs_one_time_out_and_not_one_for_each_queue(cluster: BlockingCluster) -> None:
    send(cluster, "Both", "broker-a", "broker-b")
    reader = stream(cluster, subscribe="Both", startingOffsets="earliest", group="shown", maxBytesPerTrigger="1000000")
    start = reader.initialOffset()
    link = cluster.awaitable.link("broker-b")

    async def silence() -> None:
        link.stall(Direction.OUT)

    async def speak() -> None:
        link.release()

    cluster._run(silence())
    try:
        began = time.monotonic()
        end = next_batch(reader, start)
        # Its group's place and its bounds are asked for once each, on the old connection and on a new one: 4 s. With
        # all four queues it would be 16 s.
        assert time.monotonic() - began < 10
    finally:
        cluster._run(speak())
    assert end["Both"]["broker-a:0"] > start["Both"]["broker-a:0"]
    assert end["Both"]["broker-b:0"] == start["Both"]["broker-b:0"]
    assert next_batch(reader, end)["Both"]["broker-b:0"] > start["Both"]["broker-b:0"]
    reader.stop()


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("is_away_before", [False, True])
def test_a_run_over_what_is_available_does_not_end_without_a_broker_that_is_away(
    cluster: BlockingCluster, is_away_before: bool
) -> None:
    reader = stream(cluster, subscribe="Both", startingOffsets="latest", retries="1")
    start = reader.initialOffset()
    send(cluster, "Both", "broker-a", "broker-b")
    if is_away_before:
        cluster.stop_broker("broker-b")
    reader.prepareForTriggerAvailableNow()
    if not is_away_before:
        cluster.stop_broker("broker-b")
    with pytest.raises(
        NetError, match=r"not all that is available .* 2 attempts failed: .*Both@broker-b:0.* cannot be"
    ):
        next_batch(reader, start)
    cluster.start_broker("broker-b")
    end = next_batch(reader, start)
    assert end["Both"]["broker-a:0"] == start["Both"]["broker-a:0"] + 1
    # What was available is what there was when it began.
    assert end["Both"]["broker-b:0"] == start["Both"]["broker-b:0"] + (0 if is_away_before else 1)
    reader.stop()
