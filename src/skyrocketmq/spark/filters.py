"""Filters that Spark hands over, as far as they tell which queues, offsets and tags can be left out. Pure.

Nothing is taken off Spark's hands: it applies every filter again. So a narrowing may let through too much (brokers
compare hashes of tags, times are looked up to the millisecond), and must never leave out a row that the filters want.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from skyrocketmq.model import MessageQueue

__all__ = ["CLOCK_SLACK_MS", "Narrowing", "narrowing_of"]

CLOCK_SLACK_MS: Final = 60_000  # a broker's clock may have been set back so far: store times grow no more strictly

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_TAG: Final = re.compile(r"[^\s|*]+")


@dataclass(frozen=True)
class Interval:
    """Numbers from `low` to `high`, both included; `None` means that there is no bound."""

    low: int | None = None
    high: int | None = None

    def cut(self, low: int | None, high: int | None) -> Interval:
        lows = [bound for bound in (self.low, low) if bound is not None]
        highs = [bound for bound in (self.high, high) if bound is not None]
        return Interval(max(lows, default=None), min(highs, default=None))

    def __contains__(self, number: int) -> bool:
        return (self.low is None or self.low <= number) and (self.high is None or number <= self.high)


@dataclass(frozen=True)
class Narrowing:
    """What can match. A set that is `None` is not narrowed."""

    topics: frozenset[str] | None = None
    brokers: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    queue_ids: Interval = Interval()
    offsets: Interval = Interval()
    store_ms: Interval = Interval()

    def admits(self, queue: MessageQueue) -> bool:
        return (
            (self.topics is None or queue.topic in self.topics)
            and (self.brokers is None or queue.broker_name in self.brokers)
            and queue.queue_id in self.queue_ids
        )


def narrowing_of(filters: Sequence[Filter]) -> Narrowing:
    """What all these filters together leave over. A filter that says nothing about it is passed over."""
    narrowing = Narrowing()
    for one in filters:
        match ".".join(getattr(one, "attribute", ())):
            case "topic":
                narrowing = replace(narrowing, topics=_cut_set(narrowing.topics, one))
            case "broker":
                narrowing = replace(narrowing, brokers=_cut_set(narrowing.brokers, one))
            case "tags" if all(_PLAIN_TAG.fullmatch(str(value)) for value in _values(one)):
                # Of other tags no broker can be asked for.
                narrowing = replace(narrowing, tags=_cut_set(narrowing.tags, one))
            case "queue_id":
                narrowing = replace(narrowing, queue_ids=_cut_interval(narrowing.queue_ids, one, int))
            case "queue_offset":
                narrowing = replace(narrowing, offsets=_cut_interval(narrowing.offsets, one, int))
            case "store_timestamp":
                narrowing = replace(narrowing, store_ms=_cut_interval(narrowing.store_ms, one, datetime))
    return narrowing


def _values(one: Filter) -> list[Any]:
    """What a filter compares with; a comparison with null is never true."""
    values = one.value if isinstance(one, In) else [getattr(one, "value", None)]
    return [value for value in values if value is not None]


def _cut_set(before: frozenset[str] | None, one: Filter) -> frozenset[str] | None:
    values = _values(one)
    if not isinstance(one, EqualTo | EqualNullSafe | In) or not values:
        return before
    if not all(isinstance(value, str) for value in values):
        return before
    return frozenset(values) if before is None else before & frozenset(values)


def _cut_interval(before: Interval, one: Filter, kind: type) -> Interval:
    values = _values(one)
    if not values or not all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
        return before
    try:
        low, high = min(map(_floor, values)), max(map(_ceiling, values))
    except (OverflowError, ValueError):  # at the ends of the calendar, where another time zone has no such day
        return before
    # Times are compared to the microsecond and looked up to the millisecond: their bounds stay where they are.
    step = 1 if kind is int else 0
    match one:
        case EqualTo() | EqualNullSafe() | In():
            return before.cut(low, high)
        case GreaterThan():
            return before.cut(low + step, None)
        case GreaterThanOrEqual():
            return before.cut(low, None)
        case LessThan():
            return before.cut(None, high - step)
        case LessThanOrEqual():
            return before.cut(None, high)
    return before


def _floor(value: Any) -> int:
    return _micros(value) // 1000 if isinstance(value, datetime) else int(value)


def _ceiling(value: Any) -> int:
    return -(-_micros(value) // 1000) if isinstance(value, datetime) else int(value)


def _micros(time: datetime) -> int:
    """Spark gives times with a zone; one without is in the zone of this machine, as everywhere in Python."""
    since = time.astimezone(UTC) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
