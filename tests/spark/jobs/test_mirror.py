"""`mirror` in a real local Spark, with two real clusters: each message once, in the order of its queue."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import IllegalArgument, NoRoute
from skyrocketmq.spark.jobs import Control, mirror, replay
from skyrocketmq.spark.jobs.mirror import Mirrored
from skyrocketmq.testing import BlockingCluster
from tests.spark.jobs.house import Died, by_queue, dying_folders, fill, send_empty

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

COUNT = 60


def run(spark: SparkSession, here: BlockingCluster, there: BlockingCluster, path: Path, **options: Any) -> Mirrored:
    return mirror(spark, namesrv=here.namesrv, target=there.namesrv, checkpoint=str(path), **options)


def test_topics_are_made_and_copied_queue_by_queue(
    spark: SparkSession,
    cluster: BlockingCluster,
    other_cluster: BlockingCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster.create_topic("Mirrored", queues=4)
    cluster.create_topic("Beside", queues=2)
    other_cluster.create_topic("Beside", queues=1)
    fill(cluster, "Mirrored", COUNT)
    fill(cluster, "Beside", 5)
    done = run(spark, cluster, other_cluster, tmp_path, topics=["Mirrored", "Beside"], batch_rows=25)
    assert (done.row_count, done.batch_count) == (COUNT + 5, 3)
    assert (done.topics, done.created) == (("Beside", "Mirrored"), ("Mirrored",))
    original, copies = (one.messages("Mirrored", count=COUNT) for one in (cluster, other_cluster))
    assert by_queue(copies) == by_queue(original)
    copied = by_queue(other_cluster.messages("Beside", count=5))["broker-a:0"]
    for numbers in by_queue(cluster.messages("Beside", count=5)).values():
        assert [number for number in copied if number in numbers] == numbers
    assert "the target has fewer queues" in caplog.messages
    one = next(message for message in copies if message.body == b"7")
    assert (one.tags, one.keys, one.user_properties["n"]) == ("odd", ("k7",), "7")

    assert one.user_properties["MIRRORED_FROM"] == "broker-a"
    fill(other_cluster, "Beside", 3, first=100)
    back = run(spark, other_cluster, cluster, tmp_path / "back", topics=["Beside"], skip_copies=True)
    assert back.row_count == 3, "what came from there does not go back"

    fill(cluster, "Mirrored", 10, first=COUNT)
    again = run(spark, cluster, other_cluster, tmp_path, topics=["Mirrored", "Beside"], skip_copies=True)
    assert (again.row_count, again.created) == (10, ())
    original, copies = (one.messages("Mirrored", count=COUNT + 10) for one in (cluster, other_cluster))
    assert by_queue(copies) == by_queue(original)


def test_a_body_that_fits_only_compressed_is_copied_and_one_that_is_empty_is_left_out_and_counted(
    spark: SparkSession,
    cluster: BlockingCluster,
    other_cluster: BlockingCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for one in (cluster, other_cluster):
        one.create_topic("Extremes", queues=1)
    large = bytes(range(256)) * (24 << 10)  # 6 MiB, and brokers take 4
    fill(cluster, "Extremes", 2)
    with Producer("large", namesrv=cluster.namesrv, message_bytes_max=8 << 20) as producer:
        producer.send(Message("Extremes", large))
    send_empty(cluster, "Extremes")
    fill(cluster, "Extremes", 1, first=2)
    done = run(spark, cluster, other_cluster, tmp_path, topics=["Extremes"])
    assert (done.row_count, done.empty_left_out) == (4, 1)
    assert "empty left out   1" in done.text()
    assert "messages without a body are left out" in caplog.messages
    copies = sorted(other_cluster.messages("Extremes", count=4), key=lambda message: message.queue_offset)
    assert [message.body for message in copies] == [b"0", b"1", large, b"2"]
    other_cluster.create_topic("Extremes-again", queues=1)
    send_empty(other_cluster, "Extremes")
    again = replay(spark, namesrv=other_cluster.namesrv, topics=["Extremes"], to="Extremes-again")
    assert (again.row_count, again.empty_left_out) == (4, 1)


def test_a_run_that_died_is_finished_and_nothing_is_copied_twice(
    spark: SparkSession,
    cluster: BlockingCluster,
    other_cluster: BlockingCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster.create_topic("Dying", queues=2)
    # Where queues go and begin is noted, what is copied next, and that it is done: a run dies before each of them.
    for round_number, at in enumerate((1, 2, 2, 2, 2)):
        fill(cluster, "Dying", 6, first=6 * round_number)
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules["skyrocketmq.spark.jobs.mirror"], "open_folder", dying_folders(at))
            with pytest.raises(Died):
                run(spark, cluster, other_cluster, tmp_path, topics=["Dying"])
    run(spark, cluster, other_cluster, tmp_path, topics=["Dying"])
    assert by_queue(other_cluster.messages("Dying", count=30)) == by_queue(cluster.messages("Dying", count=30))


def test_a_run_without_end_finds_new_queues_and_stops_when_it_should(
    spark: SparkSession, cluster: BlockingCluster, other_cluster: BlockingCluster, tmp_path: Path
) -> None:
    class Rounds(Control):
        waits = 0

        def wait(self, seconds: float) -> bool:
            self.waits += 1
            if self.waits == 1:
                cluster.create_topic("Widened", queues=3)
                fill(cluster, "Widened", 9, first=6)
            else:
                self.stop()
            return super().wait(0)

    cluster.create_topic("Widened", queues=2)
    fill(cluster, "Widened", 6)
    control = Rounds()
    done = run(
        spark, cluster, other_cluster, tmp_path, pattern="Widened", continuous=True, control=control, rate=100_000.0
    )
    assert done.row_count == 15
    copies = by_queue(other_cluster.messages("Widened", count=15))
    for queue, numbers in by_queue(cluster.messages("Widened", count=15)).items():
        assert any([one for one in copied if one in numbers] == numbers for copied in copies.values()), queue


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({}, IllegalArgument, "give topics or a pattern"),
        ({"topics": ["SCHEDULE_TOPIC_XXXX"]}, IllegalArgument, "SCHEDULE_TOPIC_XXXX is written by the broker only"),
        ({"topics": ["RMQ_SYS_TRACE_TOPIC"]}, IllegalArgument, "one of the system's own"),
        ({"topics": ["broker-a"]}, IllegalArgument, "broker-a is one of the system's own"),
        ({"topics": ["Nobody"]}, NoRoute, "no route for topic Nobody"),
        ({"topics": ["Lonely"], "create": False}, NoRoute, "the target lacks topic Lonely: create it there"),
        ({"topics": ["Lonely"], "batch_rows": 0}, IllegalArgument, "batch_rows 1 or more"),
        ({"topics": ["Lonely"], "target_connection": {"tsl": "true"}}, IllegalArgument, "has no option 'tsl'"),
    ],
)
def test_what_cannot_be_is_refused(
    spark: SparkSession,
    cluster: BlockingCluster,
    other_cluster: BlockingCluster,
    tmp_path: Path,
    options: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    cluster.create_topic("Lonely")
    with pytest.raises(error, match=said):
        run(spark, cluster, other_cluster, tmp_path, **options)


def test_a_cluster_is_not_copied_onto_itself(spark: SparkSession, cluster: BlockingCluster, tmp_path: Path) -> None:
    cluster.create_topic("Self")
    with pytest.raises(IllegalArgument, match="topic Self would be copied onto itself"):
        run(spark, cluster, cluster, tmp_path, topics=["Self"])
