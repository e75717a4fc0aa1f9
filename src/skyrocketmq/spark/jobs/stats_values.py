"""What `stats` says: figures of topics, windows, tags, keys and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from skyrocketmq.spark.jobs.control import JobResult
from skyrocketmq.spark.jobs.outputs import as_table

__all__ = ["Bucket", "Deliveries", "StatsResult", "TopValue", "Traffic"]


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Messages of a topic in a window; of all topics where `topic` is None, of all windows where `begin_ms` is."""

    begin_ms: int | None
    topic: str | None
    messages: int
    bytes: int
    messages_per_s: float
    bytes_per_s: float
    size_p50: int
    size_p95: int
    size_p99: int
    size_max: int
    latency_p50_ms: int
    latency_p95_ms: int
    latency_p99_ms: int
    latency_max_ms: int
    skewed: int  # born after they were stored: the clocks differ
    again: int  # that came back for another attempt
    first_ms: int
    last_ms: int


@dataclass(frozen=True, kw_only=True)
class TopValue:
    """A tag or a key of a topic, and how many messages have it."""

    topic: str
    kind: str  # tag or key
    value: str | None
    messages: int
    bytes: int
    rank: int


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """So many messages have a size (bytes) or a latency (ms) from `low` up to `high`, without it."""

    what: str
    low: int
    high: int
    messages: int


@dataclass(frozen=True, kw_only=True)
class Deliveries:
    """From birth to the first call of a handler, in a group and a window; None as in `Traffic`."""

    begin_ms: int | None
    group: str | None
    messages: int
    calls: int
    wait_p50_ms: int
    wait_p95_ms: int
    wait_p99_ms: int
    wait_max_ms: int
    skewed: int


@dataclass(frozen=True, kw_only=True)
class StatsResult(JobResult):
    """The figures. `windows` are in order of time, topics and groups in order of their names."""

    place: str
    window_ms: int
    total: Traffic | None  # None if there was no message
    topics: tuple[Traffic, ...]
    windows: tuple[Traffic, ...]
    windows_by_topic: tuple[Traffic, ...]
    tags: tuple[TopValue, ...]
    keys: tuple[TopValue, ...]
    histogram: tuple[Bucket, ...]
    deliveries: tuple[Deliveries, ...]

    def text(self) -> str:
        if self.total is None:
            return f"{self.place}: no messages"
        measures = [one.name for one in fields(Traffic) if one.name not in ("begin_ms", "topic", "first_ms", "last_ms")]
        parts = [
            f"{self.place}: {self.total.messages:,} messages",
            as_table(["topic", *measures], [_measured(row, row.topic or "all", measures) for row in self._all_topics]),
        ]
        for kind, values in (("tag", self.tags), ("key", self.keys)):
            if values:
                rows = [[one.topic, "" if one.value is None else one.value, one.messages, one.bytes] for one in values]
                parts.append(as_table(["topic", kind, "messages", "bytes"], rows, texts=2))
        if groups := [row for row in self.deliveries if row.begin_ms is None and row.group is not None]:
            names = [one.name for one in fields(Deliveries)][2:]
            parts.append(as_table(["group", *names], [_measured(row, row.group or "", names) for row in groups]))
        return "\n\n".join(parts)

    @property
    def _all_topics(self) -> list[Traffic]:
        return [*self.topics, *([self.total] if self.total is not None else [])]


def _measured(row: object, name: str, measures: Sequence[str]) -> list[object]:
    return [name, *(getattr(row, measure) for measure in measures)]
