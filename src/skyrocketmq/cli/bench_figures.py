"""What the benchmark commands count and print: the lines of Apache's benchmark programs, so that one script reads both.

A snapshot is taken every second, the last ten are kept, and rates are those between the oldest and the newest. Times
are milliseconds. No clock in here.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Final, NamedTuple

__all__ = ["ConsumeFigures", "SendFigures"]

SNAPSHOTS_MAX: Final = 10


class _Sends(NamedTuple):
    now_ms: int
    sent_count: int
    failed_count: int
    refused_count: int
    total_ms: float


class SendFigures:
    """How a producer is doing."""

    def __init__(self) -> None:
        self.sent_count = 0
        self.failed_count = 0  # no broker was reached
        self.refused_count = 0  # a broker answered with an error
        self.total_ms = 0.0
        self.longest_ms = 0.0
        self._snapshots: deque[_Sends] = deque(maxlen=SNAPSHOTS_MAX)

    def add(self, took_ms: float) -> None:
        """One more message has been sent."""
        self.sent_count += 1
        self.total_ms += took_ms
        if took_ms > self.longest_ms:
            self.longest_ms = took_ms

    def snapshot(self, now_ms: int) -> None:
        self._snapshots.append(_Sends(now_ms, self.sent_count, self.failed_count, self.refused_count, self.total_ms))

    def line(self, now_ms: int) -> str | None:
        """The line of every ten seconds; None until there are ten snapshots."""
        if len(self._snapshots) < SNAPSHOTS_MAX:
            return None
        return f"Current Time: {_human(now_ms)} {self._rates()}"

    def last_line(self) -> str:
        """The line at the end; without rates if the whole took less than two seconds."""
        total = self.sent_count + self.failed_count
        if len(self._snapshots) > 1:
            return f"[Complete] Send Total: {total} {self._rates()}"
        return f"[Complete] Send Total: {total} Send Failed: {self.failed_count} Response Failed: {self.refused_count}"

    def _rates(self) -> str:
        begin, end = self._snapshots[0], self._snapshots[-1]
        count = end.sent_count - begin.sent_count
        return (
            f"Send TPS: {_per_second(count, end.now_ms - begin.now_ms)} Max RT(ms): {self.longest_ms:.0f} "
            f"Average RT(ms): {_average(end.total_ms - begin.total_ms, count)} "
            f"Send Failed: {end.failed_count} Response Failed: {end.refused_count}"
        )


class _Consumed(NamedTuple):
    now_ms: int
    consumed_count: int
    since_born_ms: int
    since_stored_ms: int
    failed_count: int


class ConsumeFigures:
    """How a consumer is doing: how old messages are when they come, since they were sent and since they were stored."""

    def __init__(self) -> None:
        self.count = 0
        self.failed_count = 0
        self.since_born_ms = 0
        self.since_stored_ms = 0
        self.longest_since_born_ms = 0
        self.longest_since_stored_ms = 0
        self._snapshots: deque[_Consumed] = deque(maxlen=SNAPSHOTS_MAX)

    def add(self, *, born_ms: int, stored_ms: int, now_ms: int) -> None:
        """One more message has come."""
        self.count += 1
        since_born_ms, since_stored_ms = now_ms - born_ms, now_ms - stored_ms
        self.since_born_ms += since_born_ms
        self.since_stored_ms += since_stored_ms
        if since_born_ms > self.longest_since_born_ms:
            self.longest_since_born_ms = since_born_ms
        if since_stored_ms > self.longest_since_stored_ms:
            self.longest_since_stored_ms = since_stored_ms

    def snapshot(self, now_ms: int) -> None:
        self._snapshots.append(
            _Consumed(now_ms, self.count, self.since_born_ms, self.since_stored_ms, self.failed_count)
        )

    def line(self, now_ms: int) -> str | None:
        """The line of every ten seconds; None until there are ten snapshots. The longest times begin anew with it."""
        if len(self._snapshots) < SNAPSHOTS_MAX:
            return None
        begin, end = self._snapshots[0], self._snapshots[-1]
        count = end.consumed_count - begin.consumed_count
        text = (
            f"Current Time: {now_ms} TPS: {_per_second(count, end.now_ms - begin.now_ms)} "
            f"FAIL: {end.failed_count - begin.failed_count} "
            f"AVG(B2C) RT(ms): {_average(end.since_born_ms - begin.since_born_ms, count)} "
            f"AVG(S2C) RT(ms): {_average(end.since_stored_ms - begin.since_stored_ms, count)} "
            f"MAX(B2C) RT(ms): {self.longest_since_born_ms} MAX(S2C) RT(ms): {self.longest_since_stored_ms}"
        )
        self.longest_since_born_ms = self.longest_since_stored_ms = 0
        return text


def _per_second(count: int, passed_ms: int) -> int:
    return int(count / passed_ms * 1000) if passed_ms > 0 else 0


def _average(total_ms: float, count: int) -> str:
    """Seven characters wide; Java's word where nothing was counted."""
    return f"{total_ms / count:7.3f}" if count else f"{'NaN':>7}"


def _human(now_ms: int) -> str:
    """`2024-05-01 12:00:00,123`, local time."""
    seconds, ms = divmod(now_ms, 1000)
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S},{ms:03d}"
