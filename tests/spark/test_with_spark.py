"""Source and sink in a real local Spark, with a real broker: what only the whole can show."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.errors import AnalysisException
from pyspark.sql.functions import expr

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.testing import BlockingCluster, LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]

COUNT = 100


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[BlockingCluster]:
    with LocalCluster() as running:
        running.create_topic("Numbers", queues=4)
        fill(running, "Numbers", COUNT)
        yield running


def fill(cluster: BlockingCluster, topic: str, count: int, *, first: int = 0) -> None:
    with Producer("fill", namesrv=cluster.namesrv) as producer:
        for number in range(first, first + count):
            tags = "even" if number % 2 == 0 else "odd"
            producer.send(Message(topic, b"%d" % number, tags=tags, keys=[f"k{number}"], properties={"n": "1"}))


def read(spark: SparkSession, cluster: BlockingCluster, topic: str = "Numbers", **options: Any) -> DataFrame:
    return spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe=topic, **options).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in frame.select("body").collect())


def test_a_topic_is_a_table(spark: SparkSession, cluster: BlockingCluster) -> None:
    frame = read(spark, cluster, minPartitions=2)
    rows = frame.collect()
    assert sorted(int(row.body) for row in rows) == list(range(COUNT))
    row = next(row for row in rows if row.body == b"7")
    assert (row.topic, row.tags, row["keys"], row.properties["n"]) == ("Numbers", "odd", ["k7"], "1")
    assert row.store_timestamp >= row.born_timestamp.replace(microsecond=0)
    assert frame.schema["store_timestamp"].dataType.simpleString() == "timestamp"


def test_filters_and_columns_are_pushed_down(spark: SparkSession, cluster: BlockingCluster) -> None:
    reading = spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe="Numbers")
    frame = reading.schema("queue_id int, queue_offset long, tags string, body binary").load()
    some = frame.where("tags = 'odd' and queue_offset >= 10 and queue_id in (0, 1)").collect()
    assert {row.tags for row in some} == {"odd"}
    assert {row.queue_id for row in some} <= {0, 1}
    assert min(row.queue_offset for row in some) == 10
    stored = read(spark, cluster).selectExpr("min(store_timestamp) as first").first()
    assert stored is not None
    assert read(spark, cluster).where(f"store_timestamp < timestamp'{stored.first}'").count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "Nobody"}, "no route for topic Nobody: asked name servers"),
        ({"startingOfsets": "latest"}, "did you mean startingOffsets"),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: SparkSession, cluster: BlockingCluster, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        spark.read.format("rocketmq").options(
            **{"namesrv": cluster.namesrv, "subscribe": "Numbers"} | options
        ).load().count()


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, cluster: BlockingCluster, tmp_path: Path) -> None:
    cluster.create_topic("Growing", queues=2)
    out = str(tmp_path / "out")

    def run() -> list[int]:
        """Read what is there, in small batches, and stop; the rows of all runs."""
        source = spark.readStream.format("rocketmq").options(
            namesrv=cluster.namesrv,
            subscribe="Growing",
            startingOffsets="earliest",
            maxOffsetsPerTrigger=8,
            group="archive",
        )
        writing = source.load().select("body").writeStream.format("parquet")
        writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writing.trigger(availableNow=True).start(out)
        query.awaitTermination()
        progress = [one for one in query.recentProgress if one["numInputRows"]]
        assert all(one["numInputRows"] <= 8 for one in progress)
        latest = progress[-1]["sources"][0]["latestOffset"] if progress else None
        assert latest is None or "broker-a:0" in str(latest)
        return numbers(spark.read.parquet(out))

    fill(cluster, "Growing", 20)
    assert run() == list(range(20))
    fill(cluster, "Growing", 5, first=20)
    assert run() == list(range(25))
    cluster.wait_consumed("archive", "Growing")


def test_rows_are_written_and_read_back(spark: SparkSession, cluster: BlockingCluster) -> None:
    cluster.create_topic("Copies", queues=2)
    frame = read(spark, cluster).where("tags = 'odd'").withColumn("sharding_key", expr("keys[0]")).drop("topic")
    frame.write.format("rocketmq").options(namesrv=cluster.namesrv, topic="Copies").mode("append").save()
    copies = read(spark, cluster, "Copies").collect()
    assert sorted(int(row.body) for row in copies) == list(range(1, COUNT, 2))
    assert {row.tags for row in copies} == {"odd"}
    assert {tuple(row["keys"]) for row in copies} == {(f"k{number}",) for number in range(1, COUNT, 2)}
    assert copies[0].properties["n"] == "1"
    with pytest.raises(AnalysisException, match="a column body is missing"):
        frame.select("tags").write.format("rocketmq").options(namesrv=cluster.namesrv, topic="Copies").mode(
            "append"
        ).save()


def test_a_query_whose_checkpoint_was_deleted_writes_its_rows_again(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Once", queues=2)
    checkpoint = tmp_path / "checkpoint"

    def run() -> int:
        source = spark.readStream.format("rocketmq").options(
            namesrv=cluster.namesrv, subscribe="Numbers", startingOffsets="earliest"
        )
        writing = source.load().select("body").writeStream.format("rocketmq").option("mode", "effectively-once")
        writing = writing.options(namesrv=cluster.namesrv, topic="Once", checkpointLocation=str(checkpoint))
        writing.trigger(availableNow=True).start().awaitTermination()
        return len(cluster.messages("Once"))

    assert run() == COUNT
    shutil.rmtree(checkpoint / "commits")  # as if the driver had died before it noted the end of the batch
    assert run() == COUNT
    shutil.rmtree(checkpoint)
    assert run() == 2 * COUNT
