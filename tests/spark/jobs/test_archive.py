"""`archive` in a real local Spark, with a real broker: each message once, whatever happens in between."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.errors import IllegalArgument, NoRoute, NotFound, StoreError, StoreLocked
from skyrocketmq.spark.jobs import Control, JobStopped, archive, mirror, read_archive
from skyrocketmq.spark.jobs.archive import Archived
from skyrocketmq.spark.jobs.archive_reading import archived_files
from skyrocketmq.spark.jobs.archive_writing import ArchiveWriter
from skyrocketmq.spark.jobs.folder import FileStatus, folder_at, open_folder
from skyrocketmq.spark.jobs.inputs import Input
from skyrocketmq.spark.jobs.mirror import Mirrored
from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.spark.jobs.house import Died, dying_folders, fill, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

COUNT = 60


@pytest.fixture(scope="module", autouse=True)
def topics(cluster: BlockingCluster) -> None:
    cluster.create_topic("Archived", queues=2)
    cluster.create_topic("12345", queues=1)
    fill(cluster, "Archived", COUNT)
    fill(cluster, "12345", 3, first=1000)


def run(spark: SparkSession, cluster: BlockingCluster, path: Path, **options: Any) -> Archived:
    return archive(spark, namesrv=cluster.namesrv, path=str(path), **{"topics": ["Archived"]} | options)


def test_topics_become_parquet_by_topic_and_day(spark: SparkSession, cluster: BlockingCluster, tmp_path: Path) -> None:
    done = run(spark, cluster, tmp_path, topics=["Archived", "12345"])
    assert (done.row_count, done.batch_count) == (COUNT + 3, 1)
    frame = spark.read.parquet(str(tmp_path))
    assert numbers(frame) == [*range(COUNT), 1000, 1001, 1002]
    row = frame.where("body = cast('7' as binary)").collect()[0]
    assert (row.tags, row["keys"], row.properties["n"]) == ("odd", ["k7"], "7")
    assert row.day == row.store_timestamp.date()
    assert (tmp_path / "topic=Archived" / f"day={row.day}").is_dir()
    whole = read_archive(spark, str(tmp_path))
    assert numbers(whole.where("topic = '12345'")) == [1000, 1001, 1002]
    source = spark.read.format("rocketmq").options(namesrv=cluster.namesrv, subscribe="Archived").load()
    assert set(whole.columns) == {*source.columns, "day"}
    again = run(spark, cluster, tmp_path, topics=["Archived", "12345"])
    assert (again.row_count, again.batch_count) == (0, 0)


def test_an_archive_goes_on_where_it_was_and_merges_small_files(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    cluster.create_topic("Growing", queues=2)
    for first in range(0, 20, 5):
        fill(cluster, "Growing", 5, first=first)
        done = run(spark, cluster, tmp_path, topics=["Growing"], merge_count=0)
        assert done.row_count == 5
    before = spark.read.parquet(str(tmp_path))
    files = done.file_count
    assert files >= 4
    merged = run(spark, cluster, tmp_path, topics=["Growing"], merge_count=2)
    assert (merged.row_count, merged.merged_count, merged.file_count) == (0, files, 1)
    assert numbers(before) == list(range(20)), "a reader that began before still finds its files"
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(20))
    run(spark, cluster, tmp_path, topics=["Growing"], keep_merged_s=0)
    assert len(list(tmp_path.rglob("topic=*/**/*.parquet"))) == 1
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(20))


def test_a_run_that_dies_anywhere_is_finished_by_the_next(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run after the other dies, each one change of a file later; readers see each row once at every moment.

    Each finds what the one before has left, two messages more, and small files to merge.
    """
    cluster.create_topic("Archiving", queues=2)
    options: dict[str, Any] = {"topics": ["Archiving"], "merge_count": 2, "keep_merged_s": 0}
    sent = seen_before = 0
    for at in range(
        1, 12
    ):  # files are written, committed, moved and listed; merged, committed, moved and listed; deleted
        fill(cluster, "Archiving", 2, first=sent)
        sent += 2
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules["skyrocketmq.spark.jobs.archive"], "open_folder", dying_folders(at))
            with pytest.raises(Died):
                run(spark, cluster, tmp_path, **options)
        if archived_files(folder_at(spark, str(tmp_path))):
            seen = numbers(spark.read.parquet(str(tmp_path)))
            assert seen == list(range(len(seen))), "all messages before some place, each once"
            assert seen_before <= len(seen) <= sent
            seen_before = len(seen)
        elif not (tmp_path / "_spark_metadata" / "0").exists():
            assert not list(tmp_path.glob("topic=*")), "without a list readers would see a part of the first batch"
    assert seen_before > 10
    run(spark, cluster, tmp_path, **options)
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(sent))
    assert numbers(read_archive(spark, str(tmp_path))) == list(range(sent))
    assert not list(tmp_path.glob("_archive/staging/*")), "nothing is left behind"
    assert len(list(tmp_path.rglob("topic=*/**/*.parquet"))) == 1, "what was merged is deleted"


def test_files_that_workers_wrote_elsewhere_are_missed(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a Spark cluster, with a path that is another directory on each machine."""
    staged = ArchiveWriter._staged

    def without_one(writer: ArchiveWriter, staging: str) -> list[FileStatus]:
        (tmp_path / staged(writer, staging)[0].name).unlink()
        return staged(writer, staging)

    with monkeypatch.context() as patch:
        patch.setattr(ArchiveWriter, "_staged", without_one)
        with pytest.raises(StoreError, match=f"{COUNT} rows were written and .* share. Nothing was changed"):
            run(spark, cluster, tmp_path)
    assert run(spark, cluster, tmp_path).row_count == COUNT


def test_an_archive_can_be_moved(spark: SparkSession, cluster: BlockingCluster, tmp_path: Path) -> None:
    run(spark, cluster, tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there now")
    assert numbers(read_archive(spark, str(tmp_path / "there now"))) == list(range(COUNT))
    assert Input(archive=tmp_path / "there now").read(spark, ["topic", "body"]).count() == COUNT
    run(spark, cluster, tmp_path / "there now")
    assert numbers(spark.read.parquet(str(tmp_path / "there now"))) == list(range(COUNT))


def test_a_run_without_end_stops_between_batches(spark: SparkSession, cluster: BlockingCluster, tmp_path: Path) -> None:
    class Impatient(Control):
        def wait(self, seconds: float) -> bool:
            if not self.waits:
                fill(cluster, "Endless", 5, first=5)
            self.waits += 1
            if self.waits == 2:
                self.stop()
            return super().wait(0)

        waits = 0

    cluster.create_topic("Endless", queues=2)
    fill(cluster, "Endless", 5)
    done = run(spark, cluster, tmp_path, topics=["Endless"], continuous=True, interval_s=1, control=Impatient())
    assert (done.row_count, done.batch_count) == (10, 2)
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(10))


def test_a_run_that_should_stop_says_that_it_is_not_done(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    class OneBatch(Control):
        def add_rows(self, count: int) -> None:
            super().add_rows(count)
            self.stop()

    with pytest.raises(JobStopped, match="stopped with 30 rows written: start it again"):
        run(spark, cluster, tmp_path, batch_rows=30, control=OneBatch())
    run(spark, cluster, tmp_path)
    assert numbers(spark.read.parquet(str(tmp_path))) == list(range(COUNT))


def test_a_run_while_a_broker_is_away_says_what_it_has_left_out(
    spark: SparkSession, other_cluster: BlockingCluster, tmp_path: Path
) -> None:
    """Of the archive, and of a mirror of the same topic."""
    with LocalCluster(brokers=2) as source:
        source.create_topic("Backed-up", queues=1)
        fill(source, "Backed-up", 6)

        def both() -> tuple[Archived, Mirrored]:
            place: dict[str, Any] = {"namesrv": source.namesrv, "topics": ["Backed-up"]}
            done = archive(spark, path=str(tmp_path / "archive"), **place)
            return done, mirror(spark, target=other_cluster.namesrv, checkpoint=str(tmp_path / "mirror"), **place)

        for done in both():
            assert (done.row_count, done.queues_left_out, done.exit_code) == (6, (), 0)
        fill(source, "Backed-up", 6, first=6)
        source.stop_broker("broker-b")
        for done in both():
            assert (done.row_count, done.queues_left_out, done.exit_code) == (3, ("Backed-up@broker-b:0",), 1)
            assert "queues left out  Backed-up@broker-b:0" in done.text()
        source.start_broker("broker-b")
        for done in both():
            assert (done.row_count, done.queues_left_out, done.exit_code) == (3, (), 0)
    assert numbers(spark.read.parquet(str(tmp_path / "archive"))) == list(range(12))


def test_latest_is_the_end_of_the_first_run(spark: SparkSession, cluster: BlockingCluster, tmp_path: Path) -> None:
    cluster.create_topic("Late", queues=1)
    fill(cluster, "Late", 3)
    assert run(spark, cluster, tmp_path, topics=["Late"], starting="latest").row_count == 0
    fill(cluster, "Late", 2, first=3)
    assert run(spark, cluster, tmp_path, topics=["Late"], starting="latest").row_count == 2
    assert numbers(spark.read.parquet(str(tmp_path))) == [3, 4]


def test_a_pattern_leaves_out_what_is_the_systems_own(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    run(spark, cluster, tmp_path, topics=[], pattern="(Archived|broker-a|TBW102|DefaultCluster|SCHEDULE.*)")
    assert [path.name for path in tmp_path.glob("topic=*")] == ["topic=Archived"]


def test_a_topic_that_was_made_anew_is_archived_on(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    from skyrocketmq.blocking import Admin

    cluster.create_topic("Anew", queues=1)
    fill(cluster, "Anew", 5)
    run(spark, cluster, tmp_path, topics=["Anew"])
    with Admin(namesrv=cluster.namesrv) as admin:
        admin.topics.delete("Anew")
    cluster.create_topic("Anew", queues=1)
    fill(cluster, "Anew", 2, first=5)
    assert run(spark, cluster, tmp_path, topics=["Anew"]).row_count == 2


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"topics": []}, IllegalArgument, "give topics or a pattern"),
        ({"topics": "Archived"}, IllegalArgument, "give a list of names"),
        ({"topics": ["Nobody"]}, NoRoute, "no route for topic Nobody"),
        ({"starting": "yesterday"}, IllegalArgument, "earliest, latest or JSON"),
        ({"batch_rows": 0}, IllegalArgument, "have to be 1 or more"),
        ({"merge_count": 1}, IllegalArgument, "2 or more, or 0 for never"),
        ({"interval_s": -1.0}, IllegalArgument, "from 0 on"),
        ({"connection": {"acessKey": "x"}}, IllegalArgument, "did you mean accessKey"),
    ],
)
def test_what_cannot_be_is_refused(
    spark: SparkSession,
    cluster: BlockingCluster,
    tmp_path: Path,
    options: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        run(spark, cluster, tmp_path, **options)


def test_a_place_that_is_not_for_an_archive_is_refused(
    spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IllegalArgument, match="is a file: give a directory"):
        run(spark, cluster, tmp_path / "file")
    (tmp_path / "streamed" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "streamed" / "_spark_metadata" / "0").write_text("v1")
    with pytest.raises(StoreError, match="was written by a streaming query"):
        run(spark, cluster, tmp_path / "streamed")
    with (
        open_folder(spark, str(tmp_path / "busy"), control_name="_archive"),
        pytest.raises(StoreLocked, match="another run is writing"),
    ):
        run(spark, cluster, tmp_path / "busy")
    with pytest.raises(NotFound, match="there is no archive"):
        read_archive(spark, str(tmp_path / "nothing"))
