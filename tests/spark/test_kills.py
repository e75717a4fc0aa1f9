"""Tasks of a real Spark that are killed while they send: begun again, they leave what is exact in the end."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.errors import PySparkException

from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.spark.children import kill_all, task_workers
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3000

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[BlockingCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture
def topic(cluster: BlockingCluster, request: pytest.FixtureRequest) -> str:
    name = f"kills-{abs(hash(request.node.name))}"
    cluster.create_topic(name, queues=2)
    return name


def stored_count(cluster: BlockingCluster, topic: str) -> int:
    store = cluster.awaitable.brokers["broker-a"].store
    return sum(store.max_offset(topic, queue_id) for queue_id in range(2))


def numbers(cluster: BlockingCluster, topic: str) -> Counter[int]:
    return Counter(int(message.body) for message in cluster.messages(topic))


@pytest.mark.parametrize("mode", ["effectively-once", "at-least-once"])
def test_tasks_that_are_killed_while_they_send_lose_nothing_and_once_means_once(
    spark: SparkSession, cluster: BlockingCluster, topic: str, mode: str
) -> None:
    columns = ["id"] if mode == "effectively-once" else []
    rows = spark.range(ROWS, numPartitions=2).selectExpr("cast(id as string) as body", *columns)
    writing = rows.write.format("rocketmq").options(namesrv=cluster.namesrv, topic=topic, mode=mode, window=1)
    writing = writing.option("batchBytes", 1)
    if mode == "effectively-once":
        writing = writing.options(sinkId=topic, idColumns="id", group="writers")
    killed: list[list[int]] = []

    async def kill() -> None:
        # On the broker's own loop: while it looks for the workers no row is stored, so none ends before it is killed.
        for _ in range(2):
            before = stored_count(cluster, topic)
            await until(lambda: stored_count(cluster, topic) >= before + ROWS // 5, seconds=60, what="rows of tasks")  # noqa: B023
            assert stored_count(cluster, topic) < ROWS, "it was too quick to be killed"
            killed.append(kill_all(task_workers(os.getpid())))

    # Not the other way round: in a thread of Python's, Spark does not find a format that is registered to a session.
    with ThreadPoolExecutor(1) as threads:
        killing = threads.submit(lambda: cluster._run(kill()))
        writing.mode("append").save()
        killing.result()
    assert len(killed) == 2
    assert all(killed)
    found = numbers(cluster, topic)
    assert sorted(found) == list(range(ROWS))
    if mode == "effectively-once":
        assert set(found.values()) == {1}
    else:
        assert found.total() > ROWS, "the tasks were not killed in the middle"


def test_a_task_that_fails_for_good_says_what_was_wrong_and_what_was_written(
    spark: SparkSession, cluster: BlockingCluster, topic: str
) -> None:
    rows = spark.createDataFrame([("good", topic), ("bad", "no topic's name!")], "body string, topic string").coalesce(
        1
    )
    with pytest.raises(PySparkException) as failure:
        rows.write.format("rocketmq").options(namesrv=cluster.namesrv).mode("append").save()
    assert "a row cannot be a message" in str(failure.value)
    assert "no topic's name!" in str(failure.value)
