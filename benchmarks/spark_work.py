"""What the benchmark `spark` has Spark do: rows made, read from everywhere by one query, and written.

The query is `sum(length(body)), max(offset)`, whatever the bodies are called where they are read: every body has to
arrive, and neither compression nor pruning helps, since they are random bytes. Each source is told its columns as its
documentation has it: ours by a schema of the two, Parquet has no more, and Kafka's makes all of its columns always.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.load import BadAnswer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BODY_BYTES", "Reads", "make_rows", "rows_per_second", "write_kafka", "write_ours"]

BODY_BYTES = 1024
ROWS_AT_ONCE = 2048
KAFKA_LINGER_MS = 10
TWO_COLUMNS = "queue_offset long, body binary"


class RandomRows(DataSource):
    """Rows of random bodies, made anew for each read; offsets count in each partition.

    With the option `repeated` a partition is one batch again and again: it costs what handing rows to Spark costs.
    """

    @classmethod
    def name(cls) -> str:
        return "random-rows"

    def schema(self) -> str:
        return "offset long, body binary"

    def reader(self, schema: StructType) -> DataSourceReader:
        is_repeated = self.options.get("repeated") == "true"
        return RandomRowsReader(int(self.options["count"]), int(self.options["partitions"]), is_repeated=is_repeated)


class RandomRowsReader(DataSourceReader):
    """So many rows in so many partitions."""

    def __init__(self, count: int, partition_count: int, *, is_repeated: bool) -> None:
        self._count = count
        self._partition_count = partition_count
        self._is_repeated = is_repeated

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._partition_count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        end = self._count // self._partition_count
        batch: pa.RecordBatch | None = None
        for begin in range(0, end, ROWS_AT_ONCE):
            if batch is None or not self._is_repeated:
                batch = _random_batch(begin)
            yield batch.slice(0, end - begin)


def _random_batch(begin: int) -> pa.RecordBatch:
    places = np.arange(ROWS_AT_ONCE + 1, dtype=np.int32) * BODY_BYTES
    data = np.random.default_rng().bytes(BODY_BYTES * ROWS_AT_ONCE)
    bodies = pa.Array.from_buffers(pa.binary(), ROWS_AT_ONCE, [None, pa.py_buffer(places), pa.py_buffer(data)])
    offsets = pa.array(np.arange(begin, begin + ROWS_AT_ONCE))
    return pa.RecordBatch.from_arrays([offsets, bodies], ["offset", "body"])


def make_rows(spark: SparkSession, directory: Path, *, count: int, file_count: int) -> None:
    """So many rows as so many Parquet files, with Spark's defaults."""
    spark.dataSource.register(RandomRows)
    reader = spark.read.format(RandomRows.name()).option("count", count).option("partitions", file_count)
    reader.load().write.parquet(str(directory))


class Reads:
    """The DataFrames that are compared, each with the columns `offset` and `body`."""

    def __init__(self, spark: SparkSession, topic: str, *, namesrv: str, store: Path, parquet: Path) -> None:
        self._spark = spark
        self._topic = topic
        self._namesrv = namesrv
        self._store = store
        self._parquet = parquet

    def source(self, *, is_whole: bool = False) -> DataFrame:
        """Ours; `is_whole` makes all columns, as without a schema."""
        reader = self._spark.read.format("rocketmq").option("namesrv", self._namesrv).option("subscribe", self._topic)
        return (reader if is_whole else reader.schema(TWO_COLUMNS)).load().withColumnRenamed("queue_offset", "offset")

    def store(self, *, is_whole: bool = False) -> DataFrame:
        reader = self._spark.read.format("rocketmq-store").option("subscribe", self._topic)
        frame = (reader if is_whole else reader.schema(TWO_COLUMNS)).load(str(self._store))
        return frame.withColumnRenamed("queue_offset", "offset")

    def repeated(self, count: int, partition_count: int) -> DataFrame:
        """A source in Python that reads nothing: no other can be faster."""
        reader = self._spark.read.format(RandomRows.name()).option("count", count).option("partitions", partition_count)
        return reader.option("repeated", "true").load()

    def parquet(self) -> DataFrame:
        return self._spark.read.parquet(str(self._parquet))

    def kafka(self, address: str) -> DataFrame:
        reader = self._spark.read.format("kafka").option("kafka.bootstrap.servers", address)
        return reader.option("subscribe", self._topic).load().withColumnRenamed("value", "body")


def rows_per_second(rows: DataFrame, *, count: int) -> float:
    """Run the query; `BadAnswer` if rows are missing or too many."""
    query = rows.selectExpr("sum(length(body))", "max(offset)", "count(body)")
    started = time.perf_counter()
    [(total_bytes, highest, found)] = query.collect()
    took_s = time.perf_counter() - started
    if (total_bytes, found) != (count * BODY_BYTES, count) or not 0 <= highest < count:
        raise BadAnswer(f"{found} rows of {total_bytes} bytes were read, {count} of {BODY_BYTES} are there")
    return count / took_s


def write_ours(rows: DataFrame, *, namesrv: str, topic: str) -> float:
    """Seconds for writing the bodies."""
    writer = rows.select("body").write.format("rocketmq").option("namesrv", namesrv).option("topic", topic)
    started = time.perf_counter()
    writer.mode("append").save()
    return time.perf_counter() - started


def write_kafka(rows: DataFrame, *, address: str, topic: str, batch_bytes: int | None = None) -> float:
    """Seconds for writing the bodies; batches are those of Kafka's defaults, or of so many bytes and 10 ms."""
    writer = rows.selectExpr("body as value").write.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", address).option("topic", topic)
    if batch_bytes is not None:
        writer = writer.option("kafka.batch.size", batch_bytes).option("kafka.linger.ms", KAFKA_LINGER_MS)
    started = time.perf_counter()
    writer.mode("append").save()
    return time.perf_counter() - started
