"""Batch reads from a real broker, without a JVM: what Spark's planner and tasks call is called here."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan
from pyspark.sql.types import StructType

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import IllegalArgument, NoRoute
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.link import LinkSettings
from skyrocketmq.spark.pulling import DataLost
from skyrocketmq.spark.source import RocketMQDataSource, RocketMQReader
from skyrocketmq.testing import BlockingCluster, LocalCluster

COUNT = 60
QUEUE_COUNT = 3
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster(settings={"enablePropertyFilter": "true"}) as running:
        running.create_topic("Orders", queues=QUEUE_COUNT)
        running.create_topic("Orphans", queues=1)
        with Producer("fill", namesrv=running.namesrv) as producer:
            for number in range(COUNT):
                # "Aa" and "BB" have the same hash: a broker cannot tell them apart.
                tags = ("Aa", "BB", "c")[number % 3]
                message = Message("Orders", b"%d" % number, tags=tags, properties={"n": str(number)})
                producer.send(message, queue=MessageQueue("Orders", "broker-a", number // 3 % QUEUE_COUNT))
        yield running


def schema_of(columns: str) -> StructType:
    """A schema from text, without the JVM that Spark has for it."""
    schema = StructType()
    for column in columns.split(", "):
        name, kind = column.split(" ")
        schema.add(name, kind)
    return schema


def reader(cluster: BlockingCluster, columns: str = "", **options: str) -> RocketMQReader:
    source = RocketMQDataSource({"namesrv": cluster.namesrv, "subscribe": "Orders"} | options)
    made = source.reader(schema_of(columns) if columns else source.schema())
    assert isinstance(made, RocketMQReader)
    return made


def rows(reading: RocketMQReader) -> Rows:
    """What all tasks give together; everything travels to them as with Spark."""
    copy = pickle.loads(pickle.dumps(reading))
    parts = [pickle.loads(pickle.dumps(part)) for part in reading.partitions()]
    return [row for part in parts for batch in copy.read(part) for row in batch.to_pylist()]


def numbers(reading: RocketMQReader) -> list[int]:
    return sorted(int(row["body"]) for row in rows(reading))


def test_a_topic_is_read_completely(cluster: BlockingCluster) -> None:
    found = rows(reader(cluster))
    assert sorted(int(row["body"]) for row in found) == list(range(COUNT))
    first = next(row for row in found if row["body"] == b"4")
    assert (first["topic"], first["tags"], first["broker"], first["queue_id"]) == ("Orders", "BB", "broker-a", 1)
    assert dict(first["properties"])["n"] == "4"


def test_only_the_columns_that_are_asked_for_are_made(cluster: BlockingCluster) -> None:
    found = rows(reader(cluster, "queue_offset long, body binary"))
    assert {tuple(row) for row in found} == {("queue_offset", "body")}
    assert len(found) == COUNT
    with pytest.raises(IllegalArgument, match="no column bodies: there are topic, tags"):
        reader(cluster, "bodies binary")
    with pytest.raises(IllegalArgument, match="column body is binary, not string"):
        reader(cluster, "body string")
    assert "properties" not in RocketMQDataSource({"includeProperties": "false"}).schema().fieldNames()


@pytest.mark.parametrize(("partitions", "expected"), [(None, 3), (1, 1), (7, 7), (1000, COUNT)])
def test_as_many_tasks_as_asked_for(cluster: BlockingCluster, partitions: int | None, expected: int) -> None:
    options = {} if partitions is None else {"minPartitions": str(partitions)}
    reading = reader(cluster, **options)
    assert len(reading.partitions()) == expected
    assert numbers(reading) == list(range(COUNT))


def test_topics_by_list_pattern_and_assignment(cluster: BlockingCluster) -> None:
    assert numbers(reader(cluster, subscribe="Orders,Orphans")) == list(range(COUNT))
    assert numbers(reader(cluster, subscribe="", subscribePattern="Or.*s")) == list(range(COUNT))
    assert numbers(reader(cluster, subscribe="", subscribePattern="Or.*t")) == []
    assigned = reader(cluster, subscribe="", assign='{"Orders": ["broker-a:1"]}')
    assert numbers(assigned) == [number for number in range(COUNT) if number // 3 % 3 == 1]
    with pytest.raises(IllegalArgument, match="queues that are not there: Orders@broker-a:9"):
        reader(cluster, subscribe="", assign='{"Orders": ["broker-a:9"]}').partitions()
    with pytest.raises(NoRoute, match="no route for topic Nobody"):
        reader(cluster, subscribe="Nobody").partitions()


def test_a_pattern_does_not_mean_the_topics_of_the_system(cluster: BlockingCluster) -> None:
    with Producer("delays", namesrv=cluster.namesrv) as producer:
        producer.send(Message("Orphans", b"later", delay_level=18))
    with Cluster([cluster.namesrv], LinkSettings(timeout_s=10)) as asked:
        assert SCHEDULE_TOPIC in asked.topics()
    assert numbers(reader(cluster, subscribe="", subscribePattern=".*")) == list(range(COUNT))
    waiting = rows(reader(cluster, subscribe=SCHEDULE_TOPIC))
    assert [row["body"] for row in waiting] == [b"later"], "by its name it is read"


def places(*offsets: int) -> str:
    return json.dumps({"Orders": {f"broker-a:{number}": offset for number, offset in enumerate(offsets)}})


def test_ranges_by_offset(cluster: BlockingCluster) -> None:
    reading = reader(cluster, startingOffsets=places(5, -1, -2), endingOffsets=places(6, -1, 2))
    found = [(row["queue_id"], row["queue_offset"]) for row in rows(reading)]
    assert found == [(0, 5), (2, 0), (2, 1)]
    assert numbers(reader(cluster, startingOffsets="latest")) == []
    assert reader(cluster, subscribe="Orphans").partitions() == []
    with pytest.raises(IllegalArgument, match="startingOffsets lacks queues Orders@broker-a:2"):
        reader(cluster, startingOffsets=places(5, 5)).partitions()


def test_offsets_out_of_range_are_an_error_or_left_out(cluster: BlockingCluster) -> None:
    with pytest.raises(DataLost, match=r"\[0, 99\) of Orders@broker-a:0 is not all there: the queue has \[0, 21\)"):
        reader(cluster, endingOffsets=places(99, 1, 1)).partitions()
    assert len(rows(reader(cluster, endingOffsets=places(99, 1, 1), failOnDataLoss="false"))) == 21 + 2
    beyond = reader(cluster, startingOffsets=places(50, -1, -1), failOnDataLoss="false")
    assert numbers(beyond) == []


def test_ranges_by_time_are_exact(cluster: BlockingCluster) -> None:
    stored = {int(row["body"]): row["store_timestamp"] for row in rows(reader(cluster))}
    moment = stored[COUNT // 2]
    moment_ms = str(round(moment.timestamp() * 1000))
    later = sorted(number for number, at in stored.items() if at >= moment)
    assert numbers(reader(cluster, startingTimestamp=moment_ms)) == later
    earlier = sorted(number for number, at in stored.items() if at < moment)
    assert numbers(reader(cluster, endingTimestamp=moment_ms)) == earlier
    per_queue = json.dumps({"Orders": {"broker-a:0": int(moment_ms), "broker-a:1": 0, "broker-a:2": 2**52}})
    chosen = [n for n in range(COUNT) if n // 3 % 3 == 1 or (n // 3 % 3 == 0 and stored[n] >= moment)]
    assert numbers(reader(cluster, startingTimestamp=per_queue)) == chosen
    with pytest.raises(IllegalArgument, match="startingTimestamp lacks queues Orders@broker-a:1"):
        reader(cluster, startingTimestamp='{"Orders": {"broker-a:0": 5}}').partitions()


def test_tags_and_sql_are_filtered_by_the_broker_and_exactly(cluster: BlockingCluster) -> None:
    assert numbers(reader(cluster, tags="Aa")) == list(range(0, COUNT, 3))
    assert numbers(reader(cluster, tags="Aa || c")) == [n for n in range(COUNT) if n % 3 != 1]
    without_the_column = rows(reader(cluster, "body binary", tags="BB"))
    assert sorted(int(row["body"]) for row in without_the_column) == list(range(1, COUNT, 3))
    assert numbers(reader(cluster, sql="n BETWEEN 10 AND 12")) == [10, 11, 12]


def pushed(cluster: BlockingCluster, *filters: Filter, **options: str) -> RocketMQReader:
    reading = reader(cluster, **options)
    assert list(reading.pushFilters(list(filters))) == list(filters), "Spark applies all of them again"
    return reading


def test_pushed_filters_read_less(cluster: BlockingCluster) -> None:
    assert numbers(pushed(cluster, EqualTo(("tags",), "Aa"))) == list(range(0, COUNT, 3))
    assert numbers(pushed(cluster, In(("tags",), ("Aa", "c")), tags="c")) == list(range(2, COUNT, 3))
    assert numbers(pushed(cluster, EqualTo(("tags",), "Aa"), sql="n < 4")) == [0, 1, 2, 3]
    assert pushed(cluster, EqualTo(("topic",), "Orphans")).partitions() == []
    some = pushed(cluster, EqualTo(("queue_id",), 2), GreaterThanOrEqual(("queue_offset",), 3))
    assert [(row["queue_id"], row["queue_offset"]) for row in rows(some)] == [(2, n) for n in range(3, 18)]
    long_ago = datetime(2000, 1, 1, tzinfo=UTC)
    assert pushed(cluster, LessThan(("store_timestamp",), long_ago)).partitions() == []
    assert numbers(pushed(cluster, GreaterThanOrEqual(("store_timestamp",), long_ago))) == list(range(COUNT))
    # A clock that was set back may have given the messages before it the same times, or later ones.
    newest = max(row["store_timestamp"] for row in rows(reader(cluster)))
    assert numbers(pushed(cluster, GreaterThanOrEqual(("store_timestamp",), newest))) == list(range(COUNT))
    later = newest + timedelta(minutes=2)
    assert pushed(cluster, GreaterThanOrEqual(("store_timestamp",), later)).partitions() == []


def test_a_broker_that_returns_during_a_read_is_read_on(
    cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyrocketmq.spark.pulling.BATCH_ROWS", 1)
    reading = reader(cluster, "body binary", minPartitions="1")
    batches = reading.read(reading.partitions()[0])
    found = [next(batches)]
    cluster.restart_broker("broker-a")
    found += batches
    assert sorted(int(body) for batch in found for body in batch.column(0).to_pylist()) == list(range(COUNT))


def test_the_place_of_a_time_is_found_from_any_guess(cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = MessageQueue("Orders", "broker-a", 0)
    with Cluster([cluster.namesrv], LinkSettings(timeout_s=10)) as asked:
        at = [row["store_timestamp"] for row in rows(reader(cluster)) if row["queue_id"] == 0]
        times = [round(one.timestamp() * 1000) for one in at]
        for moment in {times[0] - 1, *times, times[-1] + 1}:
            expected = sum(time < moment for time in times)
            assert asked.offset_at(queue, moment) == expected
            for guess in (0, 7, len(times) - 1, 99):
                with monkeypatch.context() as patch:
                    search = asked._offset
                    answer = lambda *a, guess=guess, search=search: guess if a[1] == 29 else search(*a)  # noqa: E731
                    patch.setattr(asked, "_offset", answer)
                    assert asked.offset_at(queue, moment) == expected
        assert asked.message_bytes(queue, 0) > 90
        assert asked.message_bytes(queue, len(times)) == 0
        assert not asked.committed("nobody", queue)
        asked.commit("somebody", queue, 4)
        assert asked.committed("somebody", queue) == 4
