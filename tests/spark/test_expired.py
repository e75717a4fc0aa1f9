"""Ranges that a queue does not have any more, because the broker has deleted the files; and other odd ranges."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.errors import PySparkException
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.spark.pulling import DataLost
from skyrocketmq.spark.source import RocketMQDataSource, RocketMQReader
from skyrocketmq.spark.stream import RocketMQStreamReader
from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.spark.expiring import SETTINGS, expire, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 120  # in several files of the log


@dataclass(frozen=True)
class Expiring:
    cluster: BlockingCluster
    directory: Path

    def fill(self, topic: str, count: int, *, first: int = 0) -> None:
        if not first:
            self.cluster.create_topic(topic, queues=1)
        fill(self.cluster, topic, count, first=first)

    def expire(self, topic: str) -> int:
        return expire(self.cluster, self.directory, topic)

    def options(self, topic: str, **options: str) -> dict[str, str]:
        return {"namesrv": self.cluster.namesrv, "subscribe": topic, "timeout": "10s"} | options


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Expiring]:
    with LocalCluster(directory=tmp_path / "data", settings=SETTINGS) as running:
        yield Expiring(running, tmp_path / "data")


def reader(house: Expiring, topic: str, **options: str) -> RocketMQReader:
    source = RocketMQDataSource(house.options(topic, **options))
    made = source.reader(source.schema())
    assert isinstance(made, RocketMQReader)
    return made


def read(reading: RocketMQReader | RocketMQStreamReader, parts: list[InputPartition]) -> list[int]:
    copy = pickle.loads(pickle.dumps(reading))
    batches = [batch for part in parts for batch in copy.read(pickle.loads(pickle.dumps(part)))]
    return [offset for batch in batches for offset in batch.column("queue_offset").to_pylist()]


def at(topic: str, offset: int) -> str:
    return json.dumps({topic: {"broker-a:0": offset}})


def test_what_expired_before_a_batch_is_an_error_or_left_out(house: Expiring) -> None:
    house.fill("T", COUNT)
    oldest = house.expire("T")
    assert 0 < oldest < COUNT
    assert read(reader(house, "T"), reader(house, "T").partitions()) == list(range(oldest, COUNT)), "the earliest"
    lost = reader(house, "T", startingOffsets=at("T", 0))
    with pytest.raises(DataLost, match=rf"\[0, {COUNT}\) of T@broker-a:0 is not all there.*\[{oldest}, {COUNT}\)"):
        lost.partitions()
    tolerant = reader(house, "T", startingOffsets=at("T", 0), failOnDataLoss="false")
    assert read(tolerant, tolerant.partitions()) == list(range(oldest, COUNT))
    gone = {"startingOffsets": at("T", 0), "endingOffsets": at("T", oldest - 1)}
    with pytest.raises(DataLost, match="is not all there"):
        reader(house, "T", **gone).partitions()
    assert reader(house, "T", **gone, failOnDataLoss="false").partitions() == []
    since = reader(house, "T", startingTimestamp="0")
    assert read(since, since.partitions()) == list(range(oldest, COUNT)), "since a time before everything"


def test_what_expires_between_plan_and_task_is_an_error_or_left_out(house: Expiring) -> None:
    house.fill("T", COUNT)
    strict, tolerant = reader(house, "T", minPartitions="4"), reader(house, "T", failOnDataLoss="false")
    strict_plan, tolerant_plan = strict.partitions(), tolerant.partitions()
    oldest = house.expire("T")
    with pytest.raises(DataLost, match=rf"messages of T broker-a:0 .* are gone.*oldest message is {oldest} now"):
        read(strict, strict_plan[:1])
    assert oldest <= COUNT * 3 // 4, "the last task's messages are all there"
    assert read(strict, strict_plan[-1:]) == list(range(COUNT * 3 // 4, COUNT)), "what is there is read"
    assert read(tolerant, tolerant_plan) == list(range(oldest, COUNT))


def test_what_expires_before_or_within_a_batch_of_a_stream_is_an_error_or_left_out(house: Expiring) -> None:
    house.fill("T", COUNT)
    streams: dict[str, RocketMQStreamReader] = {}
    for answer in ("true", "false"):
        source = RocketMQDataSource(house.options("T", startingOffsets="earliest", failOnDataLoss=answer))
        stream = source.streamReader(source.schema())
        assert isinstance(stream, RocketMQStreamReader)
        streams[answer] = stream
    try:
        start = streams["true"].initialOffset()
        end = streams["true"].latestOffset(start, ReadAllAvailable())
        oldest = house.expire("T")
        for stream in streams.values():  # a batch that was written down, and is run or repeated now
            parts = list(stream.partitions(start, end))
            if stream is streams["true"]:
                with pytest.raises(DataLost, match=f"oldest message is {oldest} now"):
                    read(stream, parts)
            else:
                assert read(stream, parts) == list(range(oldest, COUNT))
        with pytest.raises(DataLost, match=rf"is at 0, and the queue has \[{oldest}, {COUNT}\) now"):
            streams["true"].latestOffset(start, ReadAllAvailable())
        later = streams["false"].latestOffset(start, ReadAllAvailable())
        assert later == {"T": {"broker-a:0": COUNT}}
    finally:
        for stream in streams.values():
            stream.stop()


def test_ranges_of_nothing_and_of_one_message(house: Expiring) -> None:
    house.fill("T", 3)
    for start, end in ((0, 0), (3, 3), (2, 2)):
        reading = reader(house, "T", startingOffsets=at("T", start), endingOffsets=at("T", end))
        assert reading.partitions() == []
    for start in range(3):
        reading = reader(house, "T", startingOffsets=at("T", start), endingOffsets=at("T", start + 1))
        assert read(reading, reading.partitions()) == [start]
    with pytest.raises(IllegalArgument, match="startingOffsets 2 comes after endingOffsets 1"):
        reader(house, "T", startingOffsets=at("T", 2), endingOffsets=at("T", 1))
    for wrong in ({"startingOffsets": at("T", 4)}, {"endingOffsets": at("T", 4)}):
        with pytest.raises(DataLost, match="is not all there"):
            reader(house, "T", **wrong).partitions()


@pytest.mark.system
@pytest.mark.timeout(300)
def test_a_query_of_a_real_spark_whose_messages_expired_stops_or_goes_on_as_it_was_told(
    spark: SparkSession, house: Expiring, tmp_path: Path
) -> None:
    house.fill("T", 20)

    def run(**options: Any) -> list[int]:
        """The offsets of all that the query has written so far, after it has read what there is."""
        source = spark.readStream.format("rocketmq").options(**house.options("T", startingOffsets="earliest"))
        writing = source.options(**options).load().select("queue_offset").writeStream.format("parquet")
        query = (
            writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        return sorted(row.queue_offset for row in spark.read.parquet(str(tmp_path / "out")).collect())

    assert run() == list(range(20))
    house.fill("T", COUNT, first=20)
    oldest = house.expire("T")
    assert oldest > 20
    with pytest.raises(PySparkException, match=r"T@broker-a:0 is at 20, and the queue has .*failOnDataLoss=false"):
        run()
    assert run(failOnDataLoss="false") == [*range(20), *range(oldest, 20 + COUNT)]
