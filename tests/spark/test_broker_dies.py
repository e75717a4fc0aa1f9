"""A broker that is killed while a real Spark reads from it: it returns, and nothing shows; or not, and that is said."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.errors import PySparkException
from pyspark.sql.functions import expr

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from tests.interop.ours import Up, running
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

QUEUES = 2
COUNT = 24_000
BODY_BYTES = 2000
SEND_COUNT = 500
HURRY = "tests.hurry"  # a property of the JVM


@pytest.fixture(scope="module")
def broker(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with running(Up(tmp_path_factory.mktemp("up") / "broker")) as server:
        with Producer("fill", namesrv=server.namesrv_address) as producer:
            for first in range(0, COUNT, SEND_COUNT):
                some = [
                    Message("Numbers", b"%d " % number + bytes(BODY_BYTES))
                    for number in range(first, first + SEND_COUNT)
                ]
                producer.send_batch(some, queue=MessageQueue("Numbers", "broker-a", first // SEND_COUNT % QUEUES))
        yield server


def slow_rows(spark: SparkSession, broker: Up, **options: str) -> DataFrame:
    """A batch that takes its time, so that something can happen to the broker `Meanwhile`; then it is quick."""
    reading = spark.read.format("rocketmq").options(
        namesrv=broker.namesrv_address, subscribe="Numbers", timeout="10s", **options
    )
    frame = reading.schema("queue_id int, queue_offset long, body binary").load()
    # Sleeping in the JVM keeps the Python task from going on: it is a few batches of 4 MiB ahead at most. A task would
    # take half a minute: a busy machine needs seconds to start a broker.
    is_slow = f"queue_offset % 4 = 0 and reflect('java.lang.System', 'getProperty', '{HURRY}', 'no') = 'no'"
    slowly = expr(f"if({is_slow}, reflect('java.lang.Thread', 'sleep', 10L), '')")
    number = expr("int(substring_index(cast(body as string), ' ', 1)) as number")
    return frame.select("queue_id", "queue_offset", number, slowly)


class Meanwhile:
    """Something that happens in the middle of a job, in a thread of its own; what goes wrong there is raised."""

    def __init__(self, spark: SparkSession, happen: Callable[[], None]) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._system = spark.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]
        self._happen = happen
        self._failure: BaseException | None = None
        self.ended_at: float | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Meanwhile:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.join(60)
        self._system.clearProperty(HURRY)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            wait_until(self._is_reading, what="tasks that read", timeout_s=60)
            time.sleep(0.7)
            self._happen()
            self.ended_at = time.monotonic()
            self._system.setProperty(HURRY, "yes")
        except BaseException as error:
            self._failure = error

    def _is_reading(self) -> bool:
        """A stage is there at once; how many tasks it has is told later, and perhaps not before they have ended."""
        return bool(self._tracker.getActiveStageIds())


def test_a_broker_that_dies_and_returns_during_a_batch_leaves_every_row_there_once(
    spark: SparkSession, broker: Up
) -> None:
    def die_and_return() -> None:
        broker.kill()
        broker.start()

    with Meanwhile(spark, die_and_return) as meanwhile:
        rows = slow_rows(spark, broker, retries="30").collect()
        ended_at = time.monotonic()
    assert meanwhile.ended_at is not None
    assert meanwhile.ended_at < ended_at, "the batch was too quick to notice"
    assert sorted(row.number for row in rows) == list(range(COUNT))
    places = sorted((row.queue_id, row.queue_offset) for row in rows)
    assert places == [(queue_id, offset) for queue_id in range(QUEUES) for offset in range(COUNT // QUEUES)]


def test_a_broker_that_does_not_return_is_an_error_that_says_how_far_the_task_was(
    spark: SparkSession, broker: Up
) -> None:
    def die() -> None:
        broker.kill()

    try:
        failure = pytest.raises(PySparkException, match=r"Numbers broker-a:\d .* attempts failed")
        with Meanwhile(spark, die), failure:
            slow_rows(spark, broker, retries="0").collect()
    finally:
        broker.start()
