"""Which parts of a store's files are read, by which tasks. Pure: values in, values out.

Rule 1: parts lie side by side: what belongs to the log at the time of planning is in exactly one of them, damaged
places included. A part begins where a record does, or a file; its task has to come out exactly at its end.
Rule 2: a part may be left out only if no row in it can be wanted. Store times grow along the log as the broker's clock
does; a clock that was set back by more than `CLOCK_SLACK_MS` can hide messages from a filter on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

from skyrocketmq.spark.filters import CLOCK_SLACK_MS, Interval

__all__ = [
    "Cut",
    "IndexPart",
    "LogPart",
    "QueuePart",
    "TopicPart",
    "cell_range",
    "first_true",
    "in_time",
    "log_parts",
    "packed",
    "topic_parts",
]

CELL_BYTES: Final = 20


class Weighed(Protocol):
    """Something that takes a task as long as so many bytes do."""

    @property
    def weight(self) -> int: ...


W = TypeVar("W", bound=Weighed)


@dataclass(frozen=True, slots=True)
class Cut:
    """A place of the log where a record begins, and its store time."""

    log_offset: int
    store_ms: int


@dataclass(frozen=True, slots=True)
class LogPart:
    """The bytes of a log file from the log offset `start` up to `end`, which may be where the file ends."""

    path: Path
    file_start: int
    file_bytes: int
    start: int
    end: int
    first_ms: int = 0  # store time of the first record; 0 if that is not known
    next_ms: int | None = None  # the same of the first record behind the part; None if there is none

    @property
    def weight(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class QueuePart:
    """Places of a queue, from the offset `start` up to `end`, with the files in which they are and lead to."""

    topic: str
    queue_id: int
    start: int
    end: int
    queue_files: tuple[tuple[int, Path], ...]  # (position of the first byte, file)
    queue_file_bytes: int
    log_files: tuple[tuple[int, Path], ...]  # (log offset of the first byte, file)
    log_file_bytes: int
    message_bytes: int = CELL_BYTES  # about

    @property
    def weight(self) -> int:
        return (self.end - self.start) * self.message_bytes


@dataclass(frozen=True, slots=True)
class TopicPart:
    """Parts of a topic's queues that lead to about the same part of the log."""

    topic: str
    queues: tuple[QueuePart, ...]

    @property
    def weight(self) -> int:
        return sum(queue.weight for queue in self.queues)

    @property
    def where(self) -> Path:
        """The directory of the topic's queues."""
        return self.queues[0].queue_files[0][1].parents[1]

    @property
    def log_files(self) -> list[tuple[int, Path]]:
        return sorted({file for queue in self.queues for file in queue.log_files})

    @property
    def log_file_bytes(self) -> int:
        return self.queues[0].log_file_bytes


@dataclass(frozen=True, slots=True)
class IndexPart:
    """Entries of an index file, from number `start` up to `end`, that lead to places before `log_end`."""

    path: Path
    slot_count: int
    start: int
    end: int
    log_end: int

    @property
    def weight(self) -> int:
        return (self.end - self.start) * CELL_BYTES


def log_parts(
    files: Sequence[tuple[int, Path]], file_bytes: int, cuts: Iterable[Cut], *, log_end: int
) -> list[LogPart]:
    """The whole log up to `log_end`, cut at the beginnings of files and at `cuts`, which are in order."""
    known = {cut.log_offset: cut.store_ms for cut in cuts if cut.log_offset < log_end}
    starts = sorted({start for start, _ in files if start < log_end} | known.keys())
    paths = dict(files)
    parts: list[LogPart] = []
    following, next_ms = log_end, None
    for start in reversed(starts):
        file_start = start - start % file_bytes
        # Where files are missing the next part begins behind the gap; this one ends with its file.
        end = min(following, file_start + file_bytes)
        first_ms = known.get(start, 0)
        parts.append(LogPart(paths[file_start], file_start, file_bytes, start, end, first_ms, next_ms))
        following, next_ms = start, first_ms or next_ms
    return parts[::-1]


def in_time(parts: Iterable[LogPart], wanted: Interval) -> list[LogPart]:
    """The parts that can hold messages with these store times."""
    return [
        part
        for part in parts
        if (wanted.high is None or part.first_ms <= wanted.high + CLOCK_SLACK_MS)
        and (wanted.low is None or part.next_ms is None or part.next_ms >= wanted.low - CLOCK_SLACK_MS)
    ]


def first_true(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number in [low, high) from which on it holds; `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def cell_range(
    low: int, high: int, cell: Callable[[int], tuple[int, int]], *, is_filler: Callable[[int], bool], log: Interval
) -> tuple[int, int]:
    """The offsets in [low, high) whose cells lead into the log offsets `log`, as (first, behind the last).

    `cell` gives log offset and size, for a filler those of the message before it. So cells lead ever further into the
    log; fillers with no message before them stand in front, and cells of size 0, which nobody has written yet, behind.
    """

    def is_behind(offset: int) -> bool:
        log_offset, size = cell(offset)
        return size <= 0 or (not is_filler(size) and log.high is not None and log_offset + size > log.high)

    def is_reached(offset: int) -> bool:
        log_offset, size = cell(offset)
        return not is_filler(size) and (log.low is None or log_offset >= log.low)

    end = first_true(low, high, is_behind)
    return first_true(low, end, is_reached), end


def topic_parts(
    parts: Sequence[QueuePart], weight_max: int, log_offset_of: Callable[[QueuePart, int], int]
) -> list[TopicPart]:
    """Parts of the queues of one topic cut into such of about this weight, all queues at the same places of the log.

    The places are those to which the longest queue leads in equal steps; `log_offset_of` reads a cell.
    """
    if not parts:
        return []
    longest = max(parts, key=lambda part: part.end - part.start)
    count = min(-(-sum(part.weight for part in parts) // weight_max), longest.end - longest.start)
    steps = [longest.start + (longest.end - longest.start) * number // count for number in range(1, count)]
    pieces: list[list[QueuePart]] = [[] for _ in range(count)]
    places = [log_offset_of(longest, offset) for offset in steps]
    for part in parts:
        start = part.start
        for number, place in enumerate(places):
            end = first_true(start, part.end, _leads_behind(part, place, log_offset_of))
            pieces[number].append(replace(part, start=start, end=end))
            start = end
        pieces[-1].append(replace(part, start=start))
    wholes = [tuple(queue for queue in queues if queue.start < queue.end) for queues in pieces]
    return [TopicPart(parts[0].topic, queues) for queues in wholes if queues]


def _leads_behind(part: QueuePart, place: int, log_offset_of: Callable[[QueuePart, int], int]) -> Callable[[int], bool]:
    return lambda offset: log_offset_of(part, offset) >= place


def packed(parts: Sequence[W], weight_max: int) -> Sequence[tuple[W, ...]]:
    """Parts together, as many as make up a task's share; their order stays."""
    tasks: list[tuple[W, ...]] = []
    share: list[W] = []
    total = 0
    for part in parts:
        if share and total + part.weight > weight_max:
            tasks.append(tuple(share))
            share, total = [], 0
        share.append(part)
        total += part.weight
    if share:
        tasks.append(tuple(share))
    return tasks
