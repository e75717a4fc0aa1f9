"""An archive as it is written: batches of messages and merged files, each of them there whole or not at all.

Every change goes the same way, and a crash at any point of it is ordinary life:

1. Spark writes files to staging. After a crash here nothing has happened: staging is emptied at the next start.
2. A commit names them, and how far the queues have been read. From here on the change is done.
3. The files are moved to their places, and the list for Spark's readers is replaced. After a crash here the next start
   does the rest of it; until then readers see the archive as it was before.

Rule: readers that go by the list see each row once, before, during and after every step. Files that were merged into
others stay for a while, for readers that began before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from skyrocketmq.errors import StoreError
from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.jobs.archive_state import (
    CONTROL,
    METADATA,
    STAGING,
    ArchiveFile,
    ArchiveState,
    Merge,
    spark_metadata,
)
from skyrocketmq.spark.jobs.folder import FileStatus, Folder
from skyrocketmq.spark.jobs.following import Span
from skyrocketmq.spark.jobs.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ArchiveWriter"]

ABANDONED_MS: Final = 24 * 3600 * 1000
_ORDER: Final = ("broker", "queue_id", "queue_offset")
# The day in UTC, whatever the zone of the session is.
_DAY: Final = "date_from_unix_date(cast(floor(unix_millis(store_timestamp) / 86400000) as int))"


class ArchiveWriter:
    """The one writer of an archive. Making it finishes what a crash has interrupted."""

    def __init__(self, spark: SparkSession, folder: Folder, *, now_ms: Callable[[], int]) -> None:
        self._spark = spark
        self._folder = folder
        self._now_ms = now_ms
        self._ledger = Ledger(folder, CONTROL, kind="archive")
        said = self._ledger.latest()
        self.state = ArchiveState() if said is None else ArchiveState.from_json(said)
        if said is None and folder.read(METADATA) is not None:
            raise StoreError(f"{folder.path()} was written by a streaming query: choose another path for the archive")
        self._settle()
        self._delete_abandoned()

    def add(self, frame: DataFrame, span: Span) -> int:
        """Write the messages of a span; how many there were."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, expr, lit

        counted = Observation()
        rows = frame.withColumn("day", expr(_DAY)).observe(counted, count(lit(1)).alias("rows"))
        ordered = rows.sortWithinPartitions("topic", "day", *_ORDER)
        staging = self._staging()
        ordered.write.partitionBy("topic", "day").parquet(self._folder.path(staging))
        staged = self._staged(staging)
        row_count, found_count = int(counted.get["rows"]), self._row_count(staging, staged)
        if found_count != row_count:
            raise StoreError(
                f"{row_count} rows were written and {found_count} are in {self._folder.path()}: the path has to be one "
                f"that this machine and all of Spark's workers share. Nothing was changed"
            )
        moves = [(status.name, status.name.removeprefix(staging + "/")) for status in staged]
        self._commit(self.state.with_batch(span.ends, _files(staged, moves), moves))
        return row_count

    def note(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Remember where queues begin that have nothing yet: `latest` is the end of now, not that of the next run."""
        self._commit(self.state.with_batch(offsets, (), ()))

    def merge(self, merge: Merge) -> None:
        """Write small files as one."""
        paths = [self._folder.path(file.name) for file in merge.files]
        before = self._spark.read.parquet(*paths)
        staging = self._staging()
        before.coalesce(1).sortWithinPartitions(*_ORDER).write.parquet(self._folder.path(staging))
        staged = self._staged(staging)
        moves = [(status.name, f"{merge.partition}/{status.name.rpartition('/')[2]}") for status in staged]
        row_counts = before.count(), self._row_count(staging, staged)
        if row_counts[0] != row_counts[1]:
            raise StoreError(
                f"files of {merge.partition} have {row_counts[0]} rows, and {row_counts[1]} when they are merged: "
                f"nothing was changed"
            )
        self._commit(self.state.with_merge(merge, _files(staged, moves), moves, self._now_ms()))

    def delete_retired(self, before_ms: int) -> int:
        """Delete files that were merged into others before a time; how many."""
        state, old = self.state.without_retired(before_ms)
        for name in old:
            self._folder.delete(name)
        if old:
            self._commit(state)
        return len(old)

    # ------------------------------------------------------------------------------------------------- steps

    def _staging(self) -> str:
        return f"{STAGING}/{self._now_ms()}-{os.urandom(8).hex()}"

    def _delete_abandoned(self) -> None:
        """What runs before have left in staging. Where there is no lock, another run may be at work there just now."""
        for name in self._folder.names(STAGING):
            begun_ms = int(name.partition("-")[0])
            if self._folder.is_locked or begun_ms < self._now_ms() - ABANDONED_MS:
                self._folder.delete(f"{STAGING}/{name}")

    def _staged(self, staging: str) -> list[FileStatus]:
        staged = [status for status in self._folder.files(staging) if status.name.endswith(".parquet")]
        for status in staged:
            self._folder.make_durable(status.name)
        return staged

    def _row_count(self, staging: str, staged: list[FileStatus]) -> int:
        return self._spark.read.parquet(self._folder.path(staging)).count() if staged else 0

    def _commit(self, state: ArchiveState) -> None:
        self._ledger.commit(state.to_json())
        self.state = state
        self._settle()

    def _settle(self) -> None:
        """Do what the commit says: all of it may have been done before, or a part."""
        if self.state.moves and self._folder.read(METADATA) is None:
            # Without any list readers would see the first batch grow, file by file.
            self._folder.replace(METADATA, spark_metadata((), self._folder.url()))
        for source, target in self.state.moves:
            self._folder.move(source, target)
        if self.state.files:
            self._folder.replace(METADATA, spark_metadata(self.state.files, self._folder.url()))
        for staging in {"/".join(source.split("/")[:3]) for source, _ in self.state.moves}:
            self._folder.delete(staging)


def _files(staged: list[FileStatus], moves: list[tuple[str, str]]) -> list[ArchiveFile]:
    return [
        ArchiveFile(target, status.size, status.modified_ms) for status, (_, target) in zip(staged, moves, strict=True)
    ]
