"""The Spark source and sink on Apache's broker: the same requests, answered by the other side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, EqualTo
from pyspark.sql.pandas.types import from_arrow_schema

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.spark import sink
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.jobs import mirror
from skyrocketmq.spark.jobs.mirror import Mirrored
from skyrocketmq.spark.link import LinkSettings
from skyrocketmq.spark.once import TaskPlace
from skyrocketmq.spark.pulling import DataLost
from skyrocketmq.spark.sink import Written
from skyrocketmq.spark.source import RocketMQDataSource
from skyrocketmq.spark.stream import RocketMQStreamReader
from skyrocketmq.testing import LocalCluster
from tests.interop.apache import Apache, Server
from tests.spark.conftest import spark as spark  # the fixture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

COUNT = 300
PROPERTIES = pa.map_(pa.string(), pa.string())


def rows_of(reader: DataSourceReader) -> list[dict[str, Any]]:
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches if isinstance(batch, pa.RecordBatch) for row in batch.to_pylist()]


@pytest.mark.timeout(240)
def test_apaches_broker_is_read_and_written(apache: Apache, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"enablePropertyFilter": "true"}
    with (
        apache.namesrv() as namesrv,
        apache.broker(namesrv=namesrv.address, name="broker-a", config=config) as broker,
    ):
        with Producer("first", namesrv=namesrv.address, send_timeout_s=30) as producer:
            producer.send(Message("Numbers", b"0", tags="even"))  # makes the topic
        options = {"namesrv": namesrv.address, "topic": "Numbers"}
        rows = pa.RecordBatch.from_pydict(
            {
                "body": [str(number) for number in range(1, COUNT)],
                "tags": ["odd" if number % 2 else "even" for number in range(1, COUNT)],
                "sharding_key": [f"k{number % 5}" for number in range(1, COUNT)],
                # One key that more messages have within a second than an answer holds, and one of its own for each.
                "keys": [["all", f"n{number}"] for number in range(1, COUNT)],
                "properties": pa.array([[("n", str(number))] for number in range(1, COUNT)], PROPERTIES),
            }
        )
        schema = from_arrow_schema(rows.schema)
        writing = {**options, "batchBytes": "2000", "mode": "effectively-once", "sinkId": "numbers"}
        monkeypatch.setattr(sink, "task_place", lambda: TaskPlace(None, 0, 0))
        assert RocketMQDataSource(writing).writer(schema, False).write(iter([rows])) == Written(COUNT - 1)
        assert RocketMQDataSource(writing).writer(schema, False).write(iter([rows])) == Written(0, COUNT - 1)

        source = RocketMQDataSource({"namesrv": namesrv.address, "subscribe": "Numbers", "minPartitions": "3"})
        reader = source.reader(source.schema())
        found = rows_of(reader)
        assert sorted(int(row["body"]) for row in found) == list(range(COUNT))

        reader = source.reader(source.schema())
        reader.pushFilters([EqualTo(("tags",), "odd")])
        odd = rows_of(reader)
        assert sorted(int(row["body"]) for row in odd) == list(range(1, COUNT, 2))

        moment = sorted(row["store_timestamp"] for row in found)[COUNT // 2]
        moment_ms = round(moment.timestamp() * 1000)
        late = RocketMQDataSource(
            {"namesrv": namesrv.address, "subscribe": "Numbers", "startingTimestamp": str(moment_ms)}
        )
        reader = late.reader(source.schema())
        since = rows_of(reader)
        assert len(since) == sum(row["store_timestamp"] >= moment for row in found)

        check_options(namesrv.address)
        check_stream(namesrv.address)
        check_return(namesrv.address, broker, monkeypatch)


def numbers(namesrv: str, **options: str) -> list[int]:
    chosen = {"namesrv": namesrv, "subscribe": "Numbers"} | options
    source = RocketMQDataSource({name: text for name, text in chosen.items() if text})
    return sorted(int(row["body"]) for row in rows_of(source.reader(source.schema())))


def check_options(namesrv: str) -> None:
    """Those that need something of the broker: its index, its filters, its offsets and times."""
    assert numbers(namesrv, keys="all") == list(range(1, COUNT)), "past the cap of an answer"
    assert numbers(namesrv, keys="n7, n299,nobody") == [7, 299]
    assert numbers(namesrv, keys="all", tags="odd", endingTimestamp="1") == []
    assert numbers(namesrv, tags="even || none") == list(range(0, COUNT, 2))
    assert numbers(namesrv, sql="n BETWEEN 10 AND 12") == [10, 11, 12]
    assert numbers(namesrv, subscribe="", subscribePattern="Numb.*") == list(range(COUNT))
    queues = {"Numbers": {f"broker-a:{queue}": -2 for queue in range(4)}}
    first = {"Numbers": dict.fromkeys(queues["Numbers"], 1)}
    assert len(numbers(namesrv, startingOffsets=json.dumps(queues), endingOffsets=json.dumps(first))) == 4
    some = numbers(namesrv, subscribe="", assign='{"Numbers": ["broker-a:0"]}')
    assert 0 < len(some) < COUNT
    beyond = json.dumps({"Numbers": dict.fromkeys(queues["Numbers"], 10_000)})
    with pytest.raises(DataLost, match="is not all there"):
        numbers(namesrv, endingOffsets=beyond)
    assert numbers(namesrv, endingOffsets=beyond, failOnDataLoss="false") == list(range(COUNT))


def check_stream(namesrv: str) -> None:
    """Batches with a limit, and the progress of a group that others can see."""
    source = RocketMQDataSource(
        {
            "namesrv": namesrv,
            "subscribe": "Numbers",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "100",
            "maxBytesPerTrigger": "1000000",
            "group": "shown",
        }
    )
    stream = source.streamReader(source.schema())
    assert isinstance(stream, RocketMQStreamReader)
    start = stream.initialOffset()
    found: list[int] = []
    for _ in range(COUNT // 100):
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
        some = [int(body) for batch in batches for body in batch.column("body").to_pylist()]
        assert len(some) == 100
        found += some
        stream.commit(end)
        start = end
    stream.stop()
    assert sorted(found) == list(range(COUNT))
    assert sum(start["Numbers"].values()) == COUNT
    with Cluster([namesrv], LinkSettings()) as cluster:
        shown = sum(cluster.committed("shown", queue) or 0 for queue in cluster.queues("Numbers"))
    assert shown == COUNT


def check_return(namesrv: str, broker: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is killed in the middle of a read, and comes back."""
    monkeypatch.setattr("skyrocketmq.spark.pulling.BATCH_ROWS", 1)
    options = {"namesrv": namesrv, "subscribe": "Numbers", "minPartitions": "1", "retries": "60", "timeout": "10s"}
    source = RocketMQDataSource(options)
    reader = source.reader(source.schema())
    (task,) = reader.partitions()
    batches = reader.read(task)
    found = [next(batches)]
    broker.kill()
    broker.start()
    found += batches
    columns = [batch.column("body") for batch in found if isinstance(batch, pa.RecordBatch)]
    bodies = [int(body) for column in columns for body in column.to_pylist()]
    assert sorted(bodies) == list(range(COUNT))


@pytest.mark.timeout(240)
def test_a_real_spark_reads_and_writes_on_apaches_broker(apache: Apache, spark: SparkSession, tmp_path: Path) -> None:
    with apache.namesrv() as namesrv, apache.broker(namesrv=namesrv.address, name="broker-a"):
        with Producer("first", namesrv=namesrv.address, send_timeout_s=30) as producer:
            for topic in ("Rows", "Copies"):
                producer.send(Message(topic, b"0"))  # makes the topic
        options = {"namesrv": namesrv.address}
        rows = spark.range(1, COUNT).selectExpr("cast(id as string) as body", "if(id % 2 = 1, 'odd', 'even') as tags")
        rows.write.format("rocketmq").options(**options, topic="Rows").mode("append").save()

        read = spark.read.format("rocketmq").options(**options, subscribe="Rows").load()
        assert sorted(int(row.body) for row in read.select("body").collect()) == list(range(COUNT))
        odd = read.where("tags = 'odd'").select("body").collect()
        assert sorted(int(row.body) for row in odd) == list(range(1, COUNT, 2))

        stream = spark.readStream.format("rocketmq").options(**options, subscribe="Rows", startingOffsets="earliest")
        writing = stream.load().select("body", "tags").writeStream.format("rocketmq")
        copied = writing.options(
            **options, topic="Copies", mode="effectively-once", checkpointLocation=str(tmp_path / "checkpoint")
        )
        for _ in range(2):  # the second time there is nothing left to do
            copied.trigger(availableNow=True).start().awaitTermination()
        copies = spark.read.format("rocketmq").options(**options, subscribe="Copies").load()
        found = sorted(int(row.body) for row in copies.select("body").collect())
        assert found == sorted([0, *range(COUNT)])  # each once, and the one that made the topic

        with LocalCluster() as ours:

            def copy() -> Mirrored:
                place = str(tmp_path / "mirror")
                return mirror(spark, namesrv=namesrv.address, target=ours.namesrv, topics=["Rows"], checkpoint=place)

            done = copy()
            assert (done.row_count, done.created, done.queues_left_out) == (COUNT, ("Rows",), ())
            assert copy().row_count == 0
            mirrored = ours.messages("Rows", count=COUNT)
            assert sorted(int(message.body) for message in mirrored) == list(range(COUNT))
