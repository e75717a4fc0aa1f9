"""The plan of a read: which parts of a store's files each task reads, for each of its tables.

Made on the driver. What can be decided from values alone is in `store_planning`; here the directory is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import Final, TypeAlias

from skyrocketmq.errors import CorruptRecord, StoreError
from skyrocketmq.spark.filters import Interval, Narrowing
from skyrocketmq.spark.store_directory import StoreDirectory
from skyrocketmq.spark.store_options import StoreOptions
from skyrocketmq.spark.store_planning import (
    IndexPart,
    LogPart,
    QueuePart,
    TopicPart,
    in_time,
    log_parts,
    packed,
    topic_parts,
)
from skyrocketmq.spark.store_tables import DamageRow

__all__ = ["Part", "plan"]

Part: TypeAlias = LogPart | TopicPart | QueuePart | IndexPart | DamageRow
CELLS_MAX: Final = 5_000_000  # of a queue, for one task


def plan(store: StoreDirectory, options: StoreOptions, narrowing: Narrowing) -> Sequence[tuple[Part, ...]]:
    """The parts of each task. Raises `StoreError` for files that would make the result look complete when it is not."""
    cuts = store.cuts(options.partition_bytes)
    log_end = store.end_behind(cuts)
    parts = log_parts(store.log_files, store.file_bytes, cuts, log_end=log_end)
    if options.table == "index":
        return _plan_index(store, options, log_end)
    if options.table == "damage":
        return _plan_damage(store, options, parts, log_end)
    if options.fail_on_data_loss:
        _refuse_troubles(store, log_end)
    wanted = in_time(parts, narrowing.store_ms) if options.table == "messages" else parts
    if options.table == "messages" and not options.topics:
        return packed(wanted, options.partition_bytes)
    log = Interval(wanted[0].start, wanted[-1].end) if wanted else Interval(0, -1)
    queues = _chosen_queues(store, options, narrowing, log)
    if options.table == "messages":
        topics = [list(parts) for _, parts in groupby(queues, key=lambda part: part.topic)]
        cut = (topic_parts(parts, options.partition_bytes, store.log_offset_of) for parts in topics)
        return packed(list(chain.from_iterable(cut)), options.partition_bytes)
    return packed([piece for part in queues for piece in _pieces(part, options)], options.partition_bytes)


def _refuse_troubles(store: StoreDirectory, log_end: int) -> None:
    for begin, end, name, what in store.troubles(log_end):
        raise CorruptRecord(
            f"the log in {store.root} is not whole: {name}: {what}, so log offsets {begin} to {end} cannot be read. "
            f"Copy what is missing from a slave; failOnDataLoss=false reads what is there"
        )


def _chosen_queues(
    store: StoreDirectory, options: StoreOptions, narrowing: Narrowing, log: Interval
) -> list[QueuePart]:
    """What is wanted of each queue, those of a topic side by side."""
    found: list[QueuePart] = []
    known: set[str] = set()
    for queue in store.queues():
        known.add(queue.topic)
        is_chosen = not options.topics or queue.topic in options.topics
        is_chosen &= narrowing.topics is None or queue.topic in narrowing.topics
        if is_chosen and queue.queue_id in narrowing.queue_ids:
            part = store.queue_part(queue, narrowing.offsets, log)
            found += [part] if part is not None else []
    for topic in options.topics:
        if topic not in known:
            raise StoreError(f"the store in {store.root} has no queue of topic {topic}: it has {_some(known)}")
    return found


def _pieces(part: QueuePart, options: StoreOptions) -> list[QueuePart]:
    """A long stretch of a queue as several."""
    step = min(max(options.partition_bytes // part.message_bytes, 1), CELLS_MAX)
    starts = range(part.start, part.end, step)
    return [replace(part, start=start, end=min(start + step, part.end)) for start in starts]


def _some(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown or "none at all"


def _plan_index(store: StoreDirectory, options: StoreOptions, log_end: int) -> Sequence[tuple[Part, ...]]:
    parts = [store.index_part(path, log_end=log_end) for path in store.index_files()]
    return packed(parts, options.partition_bytes)


def _plan_damage(
    store: StoreDirectory, options: StoreOptions, parts: list[LogPart], log_end: int
) -> Sequence[tuple[Part, ...]]:
    rows: list[Part] = [("log", name, begin, end, what, True) for begin, end, name, what in store.troubles(log_end)]
    if (torn := store.torn_end(log_end)) is not None:
        text = "bytes behind the last record are no record: the next start cuts them off"
        rows.append(("log", str(store.root), log_end, torn, text, False))
    bad: list[tuple[str, str]] = []
    for _ in store.queues(bad=bad):
        pass
    rows += [("queue", name, 0, 0, what, True) for name, what in bad]
    for path in store.index_files():
        try:
            store.index_part(path, log_end=log_end)
        except StoreError as error:
            rows.append(("index", path.name, 0, 0, str(error), True))
    tasks: Sequence[tuple[Part, ...]] = packed(parts, options.partition_bytes)
    return [tuple(rows), *tasks] if rows else tasks
