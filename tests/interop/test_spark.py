"""The Spark source and sink on Apache's broker: the same requests, answered by the other side."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, EqualTo
from pyspark.sql.pandas.types import from_arrow_schema

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.spark import sink
from skyrocketmq.spark.once import TaskPlace
from skyrocketmq.spark.sink import Written
from skyrocketmq.spark.source import RocketMQDataSource
from tests.interop.apache import Apache

pytestmark = pytest.mark.interop

COUNT = 300


def rows_of(reader: DataSourceReader) -> list[dict[str, Any]]:
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches if isinstance(batch, pa.RecordBatch) for row in batch.to_pylist()]


@pytest.mark.timeout(240)
def test_apaches_broker_is_read_and_written(apache: Apache, monkeypatch: pytest.MonkeyPatch) -> None:
    with apache.namesrv() as namesrv, apache.broker(namesrv=namesrv.address, name="broker-a"):
        with Producer("first", namesrv=namesrv.address, send_timeout_s=30) as producer:
            producer.send(Message("Numbers", b"0", tags="even"))  # makes the topic
        options = {"namesrv": namesrv.address, "topic": "Numbers"}
        rows = pa.RecordBatch.from_pydict(
            {
                "body": [str(number) for number in range(1, COUNT)],
                "tags": ["odd" if number % 2 else "even" for number in range(1, COUNT)],
                "sharding_key": [f"k{number % 5}" for number in range(1, COUNT)],
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

        stream = source.streamReader(source.schema())
        start = stream.initialOffset()
        assert sum(start["Numbers"].values()) == COUNT
        stream.stop()
