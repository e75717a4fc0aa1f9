"""Source and sink in a real local Spark, with a real broker: what only the whole can show."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.errors import AnalysisException
from pyspark.sql.functions import expr

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.spark import options as known_options
from skyrocketmq.testing import BlockingCluster, LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

COUNT = 100
WITHOUT_SPARK = {f"test_{name}.py" for name in ("options", "planning", "pulling", "sink", "source", "stream", "keyed")}


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[BlockingCluster]:
    with LocalCluster(brokers=2, settings={"enablePropertyFilter": "true"}) as running:
        running.create_topic("Numbers", queues=2)
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


def test_of_what_filters_leave_out_the_brokers_send_nothing(spark: SparkSession, cluster: BlockingCluster) -> None:
    """Spark filters as well: how much was read can only be seen at the brokers, who count what they send."""
    reading = spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe="Numbers")
    frame = reading.schema("queue_id int, queue_offset long, tags string, store_timestamp timestamp").load()
    rows, read_count = counted(frame, cluster)
    assert len(rows) == read_count == COUNT
    wanted: list[tuple[str, Callable[[Row], bool]]] = [
        ("tags = 'odd'", lambda row: row.tags == "odd"),
        ("queue_id in (1, 7)", lambda row: row.queue_id == 1),
        ("queue_offset >= 10", lambda row: row.queue_offset >= 10),
        (
            "tags = 'odd' and queue_id in (0, 1) and queue_offset >= 10",
            lambda row: row.tags == "odd" and row.queue_offset >= 10,
        ),
    ]
    for condition, is_wanted in wanted:
        some, read_count = counted(frame.where(condition), cluster)
        assert sorted(some) == sorted(row for row in rows if is_wanted(row)), condition
        assert len(some) == read_count < COUNT, condition
    assert counted(frame.where("queue_id = 7"), cluster) == ([], 0)
    # Clocks of brokers may differ: a filter on time is not so exact. To find a place by its time takes some reads.
    long_after = max(row.store_timestamp for row in rows) + timedelta(hours=1)
    some, read_count = counted(frame.where(f"store_timestamp >= timestamp'{long_after}'"), cluster)
    assert some == []
    assert read_count < COUNT // 2


def counted(frame: DataFrame, cluster: BlockingCluster) -> tuple[list[Row], int]:
    """The rows, and how many messages the brokers have sent for them."""
    statistics = [broker.store.statistics for broker in cluster.awaitable.brokers.values()]
    before = sum(each.get_count for each in statistics)
    return frame.collect(), sum(each.get_count for each in statistics) - before


def places(offset: int, last: int | None = None) -> str:
    """The same offset for all queues, or another one for the last."""
    names = [f"{broker}:{queue_id}" for broker in ("broker-a", "broker-b") for queue_id in range(2)]
    return json.dumps({"Numbers": dict.fromkeys(names, offset) | ({} if last is None else {names[-1]: last})})


def test_every_option_of_a_batch_is_heeded(spark: SparkSession, cluster: BlockingCluster) -> None:
    rows = read(spark, cluster).selectExpr("int(string(body)) as n", "broker", "queue_id", "queue_offset").collect()
    stored = read(spark, cluster).selectExpr("int(string(body)) as n", "unix_millis(store_timestamp) as at").collect()
    at = {row.n: row["at"] for row in stored}
    moment_ms = at[COUNT // 2]
    only = {"subscribe": None}
    wanted: list[tuple[dict[str, Any], list[int]]] = [
        (only | {"subscribePattern": "Num.*s"}, list(range(COUNT))),
        (
            only | {"assign": '{"Numbers": ["broker-b:1"]}'},
            [row.n for row in rows if (row.broker, row.queue_id) == ("broker-b", 1)],
        ),
        (
            {"startingOffsets": places(3, -1), "endingOffsets": places(5, -1)},
            [row.n for row in rows if row.queue_offset in (3, 4) and (row.broker, row.queue_id) != ("broker-b", 1)],
        ),
        ({"startingOffsets": "latest", "failOnDataLoss": "true"}, []),
        ({"endingOffsets": places(1000), "failOnDataLoss": "false"}, list(range(COUNT))),
        ({"startingTimestamp": moment_ms}, [n for n in at if at[n] >= moment_ms]),
        ({"endingTimestamp": places(moment_ms, 0)}, []),
        ({"tags": "odd", "timeout": "20s", "retries": 2}, list(range(1, COUNT, 2))),
        ({"sql": "n BETWEEN 1 AND 1 AND TAGS = 'even'"}, list(range(0, COUNT, 2))),
        ({"keys": "k5, k77, nobody", "minPartitions": 3}, [5, 77]),
    ]
    before_moment = [row.n for row in rows if at[row.n] < moment_ms and (row.broker, row.queue_id) != ("broker-b", 1)]
    for options, expected in wanted:
        given = {name: value for name, value in ({"subscribe": "Numbers"} | options).items() if value is not None}
        frame = spark.read.format("rocketmq").options(namesrv=cluster.namesrv, **given).load()
        expected = before_moment if "endingTimestamp" in options else expected
        assert numbers(frame) == sorted(expected), options
    assert "properties" not in read(spark, cluster, includeProperties="false").columns
    assert read(spark, cluster, includeProperties="false").select("tags").distinct().count() == 2


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


def test_a_body_that_fits_only_compressed_is_read_and_written(spark: SparkSession, cluster: BlockingCluster) -> None:
    cluster.create_topic("Large", queues=1)
    cluster.create_topic("Large-copies", queues=1)
    body = bytes(range(256)) * (24 << 10)  # 6 MiB, and brokers take 4
    with Producer("large", namesrv=cluster.namesrv, message_bytes_max=8 << 20) as producer:
        producer.send(Message("Large", body))
        producer.send(Message("Large", b"small"))
    writing = read(spark, cluster, "Large").select("body").write.format("rocketmq").mode("append")
    writing = writing.options(compressFromBytes=5000, compression="zstd", compressLevel=3)
    writing.options(namesrv=cluster.namesrv, topic="Large-copies").save()
    copies = read(spark, cluster, "Large-copies").select("body", "sys_flag").collect()
    assert {(bytes(row.body), row.sys_flag) for row in copies} == {(body, 0x201), (b"small", 0)}


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


class Running:
    """A query that runs, and what it has read so far."""

    def __init__(self, spark: SparkSession, cluster: BlockingCluster, directory: Path, **options: Any) -> None:
        source = spark.readStream.format("rocketmq").options(namesrv=cluster.namesrv, **options)
        frame = source.schema("topic string, body binary").load()
        self.batches: list[list[int]] = []
        self.times: list[float] = []

        def note(batch: DataFrame, number: int) -> None:
            self.times.append(time.monotonic())
            self.batches.append(numbers(batch))

        writing = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(directory / "checkpoint"))
        self.query = writing.trigger(processingTime="100 milliseconds").start()

    @property
    def rows(self) -> list[int]:
        return sorted(number for batch in self.batches for number in batch)

    def wait_for(self, rows: list[int]) -> None:
        deadline = time.monotonic() + 60
        while self.rows != rows:
            assert self.query.isActive, self.query.exception()
            assert time.monotonic() < deadline, f"{self.rows} in place of {rows}"
            time.sleep(0.05)

    def wait_for_progress(self, is_reached: Callable[[Any], bool]) -> Any:
        """What the query tells of its source, once it is this: the newest offsets, and how far it has read."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            last = self.query.lastProgress
            if last is not None:
                told = json.loads(last.json)["sources"][0]
                if is_reached(told):
                    return told
            time.sleep(0.05)
        raise AssertionError(f"not told: {self.query.lastProgress}")


def counts(offsets: dict[str, dict[str, int]]) -> dict[str, int]:
    """How many messages of each topic lie before these offsets, in all of its queues."""
    return {topic: sum(queues.values()) for topic, queues in offsets.items()}


def test_a_running_query_finds_new_topics_queues_and_brokers_and_tells_its_lag(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Found-1", queues=1)
    cluster.stop_broker("broker-b")
    started = Running(
        spark,
        cluster,
        tmp_path,
        subscribePattern="Found-.*",
        startingOffsets="earliest",
        minOffsetsPerTrigger=1,
        maxBytesPerTrigger=100_000,
        group="finders",
    )
    try:
        fill(cluster, "Found-1", 3)
        started.wait_for([0, 1, 2])
        cluster.start_broker("broker-b")
        cluster.create_topic("Found-1", queues=2)
        cluster.create_topic("Found-2", queues=1)
        # Sent in turn to all queues of both brokers.
        fill(cluster, "Found-1", 8, first=3)
        fill(cluster, "Found-2", 2, first=11)
        started.wait_for(list(range(13)))
        cluster.wait_consumed("finders", "Found-1", timeout_s=30)
        # The lag is what lies between the two: nothing, in the end.
        source = started.wait_for_progress(
            lambda told: counts(told["latestOffset"]) == counts(told["endOffset"]) == {"Found-1": 11, "Found-2": 2}
        )
        ends = source["latestOffset"]
        assert set(ends["Found-1"]) == {f"{broker}:{queue}" for broker in ("broker-a", "broker-b") for queue in (0, 1)}
        assert source["endOffset"] == ends
    finally:
        started.query.stop()
        if "broker-b" not in cluster.awaitable.brokers:
            cluster.start_broker("broker-b")


def test_a_running_query_waits_for_enough_messages_but_not_for_ever(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Slow", queues=1)
    fill(cluster, "Slow", 4)
    options = {"subscribe": "Slow", "startingOffsets": "earliest", "minOffsetsPerTrigger": 4, "maxTriggerDelay": "6s"}
    started = Running(spark, cluster, tmp_path, **options)
    try:
        started.wait_for([0, 1, 2, 3])
        fill(cluster, "Slow", 2, first=4)
        started.wait_for(list(range(6)))
        assert started.batches == [[0, 1, 2, 3], [4, 5]]
        assert started.times[1] - started.times[0] > 2, "two were not enough for a while"
    finally:
        started.query.stop()


def test_every_option_is_shown_to_work_with_a_real_spark() -> None:
    """By its name at least: an option that no test of this kind uses is one that nobody has tried."""
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py") if path.name not in WITHOUT_SPARK)
    for name in {*known_options._SOURCE, *known_options._SINK}:
        assert re.search(rf"\b{name}=|\"{name}\"", texts), name
