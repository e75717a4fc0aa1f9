"""`archive`: topics to Parquet, by topic and day, each message once.

    archive(spark, namesrv="localhost:9876", topics=["Orders"], path="archive")
    spark.read.parquet("archive")

It goes on where it was: the archive itself says how far each queue has been read. How it stays exact through crashes is
told in `archive_writing`. Small files are merged along the way.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.ports import SystemClock
from skyrocketmq.spark.jobs.archive_state import CONTROL, plan_merges
from skyrocketmq.spark.jobs.arguments import add_following_arguments, names_of
from skyrocketmq.spark.jobs.control import Control, JobResult, JobStopped
from skyrocketmq.spark.jobs.folder import open_folder
from skyrocketmq.spark.jobs.following import Following, choice_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyrocketmq.model import MessageQueue
    from skyrocketmq.spark.jobs.archive_writing import ArchiveWriter
    from skyrocketmq.spark.places import Bounds

__all__ = ["Archived", "archive"]

BATCH_ROWS: Final = 1_000_000
FILE_BYTES: Final = 128 << 20
MERGE_COUNT: Final = 8
KEEP_MERGED_S: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class Archived(JobResult):
    """What a run has done, and what the archive has now."""

    path: str
    row_count: int
    batch_count: int
    merged_count: int  # small files that were merged into larger ones
    file_count: int  # in the archive
    queues_left_out: tuple[str, ...] = ()  # whose brokers were away at the end

    @property
    def exit_code(self) -> int:
        """Not all that is wanted is there: whoever relies on it has to know."""
        return 1 if self.queues_left_out else 0


def archive(
    spark: SparkSession,
    *,
    namesrv: str,
    path: str,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    starting: str = "earliest",
    continuous: bool = False,
    interval_s: float = 60.0,
    batch_rows: int = BATCH_ROWS,
    file_bytes: int = FILE_BYTES,
    merge_count: int = MERGE_COUNT,
    keep_merged_s: float = KEEP_MERGED_S,
    allow_data_loss: bool = False,
    connection: Mapping[str, str] | None = None,
    control: Control | None = None,
) -> Archived:
    """Write what the topics have and the archive has not; with `continuous`, look for more until it is stopped.

    `starting` (earliest, latest, or milliseconds since 1970) is where a topic begins that is new to the archive. A
    batch has at most `batch_rows` messages. Where a day of a topic has `merge_count` files of less than half of
    `file_bytes` they are merged, 0: never; the small ones are deleted by a later step, after `keep_merged_s`.
    """
    from skyrocketmq.spark.cluster import Cluster
    from skyrocketmq.spark.jobs.archive_writing import ArchiveWriter
    from skyrocketmq.spark.options import SourceOptions

    _check(interval_s=interval_s, batch_rows=batch_rows, file_bytes=file_bytes, merge_count=merge_count)
    control = control or Control()
    clock = SystemClock()
    reaching = {"namesrv": namesrv} | dict(connection or {})
    place = "startingTimestamp" if starting.isdecimal() else "startingOffsets"
    choice = choice_of(topics, pattern) | {place: starting, "failOnDataLoss": str(not allow_data_loss).lower()}
    options = SourceOptions.parse(reaching | choice, is_stream=True)
    reading = reaching | {"minPartitions": str(max(spark.sparkContext.defaultParallelism, 1))}
    reading["failOnDataLoss"] = choice["failOnDataLoss"]
    with (
        control.in_steps(),
        open_folder(spark, path, control_name=CONTROL) as folder,
        Cluster(options.name_servers, options.link) as cluster,
    ):
        control.begin("finishing what was interrupted")
        writer = ArchiveWriter(spark, folder, now_ms=clock.now_ms)
        following = Following(cluster, options)
        run = _Run(spark, writer, following, reading, control)
        while True:
            control.begin("looking for messages")
            bounds = following.look(is_patient=continuous and bool(writer.state.offsets))
            run.write(bounds, batch_rows)
            if merge_count:
                run.merge(merge_count, file_bytes)
            writer.delete_retired(clock.now_ms() - int(keep_merged_s * 1000))
            control.begin("waiting for messages")
            if not continuous or control.wait(interval_s):
                break
        if control.is_stopping and not continuous:
            raise JobStopped(f"stopped with {run.row_count} rows written: start it again, and it goes on there")
        left_out = following.left_out(writer.state.offsets, bounds)
        return Archived(
            path=folder.path(),
            row_count=run.row_count,
            batch_count=run.batch_count,
            merged_count=run.merged_count,
            file_count=len(writer.state.files),
            queues_left_out=tuple(str(queue) for queue in left_out),
        )


class _Run:
    """One run: what it has done so far."""

    def __init__(
        self,
        spark: SparkSession,
        writer: ArchiveWriter,
        following: Following,
        reading: Mapping[str, str],
        control: Control,
    ) -> None:
        self._spark = spark
        self._writer = writer
        self._following = following
        self._reading = reading
        self._control = control
        self.row_count = 0
        self.batch_count = 0
        self.merged_count = 0

    def write(self, bounds: Mapping[MessageQueue, Bounds], batch_rows: int) -> None:
        """All that lies before these bounds, in batches."""
        while not self._control.is_stopping:
            span = self._following.next(self._writer.state.offsets, bounds, batch_rows)
            if not span.count:
                if span.ends.keys() - self._writer.state.offsets.keys():
                    self._writer.note(span.ends)
                return
            self._control.begin("writing")
            added = self._writer.add(span.load(self._spark, self._reading), span)
            self._control.add_rows(added)
            self.row_count += added
            self.batch_count += 1

    def merge(self, count_min: int, file_bytes: int) -> None:
        for merge in plan_merges(self._writer.state.files, count_min=count_min, target_bytes=file_bytes):
            if self._control.is_stopping:
                return
            self._control.begin("merging small files")
            self._writer.merge(merge)
            self.merged_count += len(merge.files)


def _check(*, interval_s: float, batch_rows: int, file_bytes: int, merge_count: int) -> None:
    if interval_s < 0:
        raise IllegalArgument(f"interval_s is {interval_s:g}: a number of seconds from 0 on is expected")
    if batch_rows < 1 or file_bytes < 1:
        raise IllegalArgument("batch_rows and file_bytes have to be 1 or more")
    if merge_count < 0 or merge_count == 1:
        raise IllegalArgument("merge_count is how many small files are worth merging: 2 or more, or 0 for never")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="the archive: a directory, or a URL of a file system that Spark knows")
    add_following_arguments(parser, new_to="to the archive", interval_s=60.0, batch_rows=BATCH_ROWS)
    parser.add_argument(
        "--file-bytes", type=int, default=FILE_BYTES, metavar="N", help="the size of merged files (default: 128 MiB)"
    )
    parser.add_argument(
        "--merge-count",
        type=int,
        default=MERGE_COUNT,
        metavar="N",
        help="merge where a day of a topic has so many small files; 0: never (default: %(default)s)",
    )
    parser.add_argument(
        "--keep-merged",
        type=float,
        default=KEEP_MERGED_S,
        metavar="SECONDS",
        help="how long small files stay after they were merged, for readers that began before (default: 3600)",
    )
    parser.add_argument(
        "--allow-data-loss", action="store_true", help="go on where messages were cleaned away before they were read"
    )


def run(spark: SparkSession, arguments: argparse.Namespace) -> Archived:
    return archive(
        spark,
        namesrv=arguments.namesrv,
        path=arguments.path,
        topics=names_of(arguments.topics),
        pattern=arguments.pattern,
        starting=arguments.starting,
        continuous=arguments.continuous,
        interval_s=arguments.interval,
        batch_rows=arguments.batch_rows,
        file_bytes=arguments.file_bytes,
        merge_count=arguments.merge_count,
        keep_merged_s=arguments.keep_merged,
        allow_data_loss=arguments.allow_data_loss,
        connection=arguments.connection,
        control=arguments.control,
    )
