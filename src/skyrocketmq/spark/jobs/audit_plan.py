"""The plan of an audit: which parts of which files are read, and what is wrong that needs no reading. Blocks.

Made on the driver, once. The end of the log is looked for first and queues and index are listed afterwards: of a store
that is being written they know at least what stands before that end, but for what its broker has still in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skyrocketmq.errors import StoreError
from skyrocketmq.ports import LocalDisk
from skyrocketmq.spark.jobs.audit_reading import AuditPart, Found, QueueFile, Rules
from skyrocketmq.spark.store_directory import StoreDirectory, open_store
from skyrocketmq.spark.store_options import StoreOptions
from skyrocketmq.spark.store_planning import IndexPart, log_parts, packed
from skyrocketmq.store.checkpoint import load_checkpoint
from skyrocketmq.store.consume_queue import CELL_BYTES
from skyrocketmq.store.ended_queues import EndedQueues
from skyrocketmq.store.inspection import known_topics
from skyrocketmq.store.snapshot import load_snapshot

__all__ = ["AuditPlan", "LogFileSize", "plan_audit"]

QUEUE_WEIGHT_MAX: Final = 64 << 20


@dataclass(frozen=True)
class LogFileSize:
    """A log file, and how much of it belongs to the log."""

    name: str
    start: int
    used: int
    size: int


@dataclass(frozen=True)
class AuditPlan:
    """What tasks read, and what is known before they do."""

    groups: tuple[tuple[AuditPart, ...], ...]
    starts: tuple[int, ...]  # where the parts of the log begin
    rules: Rules
    found: tuple[Found, ...]
    files: tuple[LogFileSize, ...]
    known_topics: frozenset[str]
    ended: EndedQueues  # of topics that were deleted
    queue_count: int
    knows_delays: bool  # a configuration was given, which has the levels of delayed messages


def plan_audit(options: StoreOptions) -> AuditPlan:
    """Raises `StoreError` for a directory that is no store, or cannot be read as one."""
    disk = LocalDisk()
    try:
        with open_store(options) as store:
            return _plan(disk, store, options)
    finally:
        disk.close()


def _plan(disk: LocalDisk, store: StoreDirectory, options: StoreOptions) -> AuditPlan:
    # Whether somebody writes is asked first, and what was synced: both hold for the log that is looked at afterwards.
    was_clean = not disk.exists(store.root / "abort")
    snapshot = load_snapshot(disk, store.root / "checkpoint.json", load_checkpoint(disk, store.root / "checkpoint"))
    cuts = store.cuts(options.partition_bytes)
    log_end = store.end_behind(cuts)
    parts = log_parts(store.log_files, store.file_bytes, cuts, log_end=log_end)
    found = [Found("log", name, what, begin, end) for begin, end, name, what in store.troubles(log_end)]
    if (torn := store.torn_end(log_end)) is not None and was_clean:
        what = "bytes behind the last record are no record: the next start cuts them off"
        found.append(Found("log", store.root.name, what, log_end, torn, is_damage=False))
    if snapshot is not None and snapshot.log_offset > log_end:
        lost = snapshot.log_offset - log_end
        what = f"the log was on disk up to {snapshot.log_offset} and ends at {log_end}: {lost} bytes are lost"
        found.append(Found("log", "checkpoint", what, log_end, snapshot.log_offset))
    queues = _queue_files(store, found)
    index = _index_parts(store, log_end, found)
    groups: list[tuple[AuditPart, ...]] = [*packed(parts, options.partition_bytes)]
    groups += packed(queues, QUEUE_WEIGHT_MAX)
    groups += packed(index, QUEUE_WEIGHT_MAX)
    ended = EndedQueues(disk, store.root)
    ended.load()
    return AuditPlan(
        groups=tuple(groups),
        starts=tuple(part.start for part in parts),
        rules=Rules(store.config, store.begin, log_end, was_clean),
        found=tuple(found),
        files=tuple(
            LogFileSize(path.name, start, min(max(log_end - start, 0), store.file_bytes), store.file_bytes)
            for start, path in store.log_files
        ),
        known_topics=frozenset(known_topics(disk, store.root)),
        ended=ended,
        queue_count=len({(file.topic, file.queue_id) for file in queues}),
        knows_delays=options.config_path is not None,
    )


def _queue_files(store: StoreDirectory, found: list[Found]) -> list[QueueFile]:
    bad: list[tuple[str, str]] = []
    files: list[QueueFile] = []
    for queue in store.queues(bad=bad, may_be_short=True):
        for file in queue.files:
            files.append(QueueFile(queue.topic, queue.queue_id, file.path, file.start // CELL_BYTES, file.size))
            if file.size < store.config.queue_file_bytes and file is not queue.files[-1]:
                place = f"consumequeue/{queue.topic}/{queue.queue_id}/{file.path.name}"
                what = f"it has {file.size} bytes, not {store.config.queue_file_bytes}"
                found.append(Found("queue", place, what, topic=queue.topic, queue_id=queue.queue_id))
    found += [Found("queue", f"consumequeue/{name}", what) for name, what in bad]
    return files


def _index_parts(store: StoreDirectory, log_end: int, found: list[Found]) -> list[IndexPart]:
    parts: list[IndexPart] = []
    for path in store.index_files() if store.config.index_enable else ():
        try:
            parts.append(store.index_part(path, log_end=log_end))
        except StoreError as error:
            found.append(Found("index", f"index/{path.name}", str(error)))
    return parts
