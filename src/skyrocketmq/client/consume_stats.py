"""How fast a consumer is, by topic: what an administrator sees (307), over the last minute and since the start."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from skyrocketmq.wire.bodies_clients import ConsumeStatus

__all__ = ["SAMPLE_INTERVAL_S", "ConsumeStats"]

SAMPLE_INTERVAL_S: Final = 10.0
SAMPLES: Final = 7  # the last minute lies between the first and the last of them


@dataclass(slots=True)
class _Totals:
    ok: int = 0
    failed: int = 0
    consume_s: float = 0.0
    calls: int = 0
    pulled: int = 0
    pull_s: float = 0.0
    pulls: int = 0


@dataclass(slots=True)
class _Topic:
    totals: _Totals = field(default_factory=_Totals)
    samples: deque[tuple[float, _Totals]] = field(default_factory=lambda: deque(maxlen=SAMPLES))


class ConsumeStats:
    """Counts, sampled every few seconds. Times come in as numbers."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}

    def note(self, topic: str, seconds: float, ok_count: int, failed_count: int, *, call_count: int = 1) -> None:
        """A handler's call has ended, or several calls."""
        known = self._topics.get(topic)
        totals = known.totals if known is not None else self._topic(topic).totals
        totals.ok += ok_count
        totals.failed += failed_count
        totals.consume_s += seconds
        totals.calls += call_count

    def note_pull(self, topic: str, seconds: float, count: int) -> None:
        """A pull has brought messages."""
        totals = self._topic(topic).totals
        totals.pulled += count
        totals.pull_s += seconds
        totals.pulls += 1

    def sample(self, now_s: float) -> None:
        for topic in self._topics.values():
            topic.samples.append((now_s, _copy(topic.totals)))

    def to_table(self, now_s: float) -> dict[str, ConsumeStatus]:
        return {name: _status(topic, now_s) for name, topic in self._topics.items()}

    def _topic(self, name: str) -> _Topic:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _Topic()
        return topic


def _copy(totals: _Totals) -> _Totals:
    return _Totals(totals.ok, totals.failed, totals.consume_s, totals.calls, totals.pulled, totals.pull_s, totals.pulls)


def _status(topic: _Topic, now_s: float) -> ConsumeStatus:
    since_s, before = topic.samples[0] if topic.samples else (now_s, _Totals())
    now = topic.totals
    seconds = max(now_s - since_s, 1.0)
    calls, pulls = now.calls - before.calls, now.pulls - before.pulls
    return ConsumeStatus(
        consume_failed_msgs=now.failed,
        consume_failed_tps=(now.failed - before.failed) / seconds,
        consume_ok_tps=(now.ok - before.ok) / seconds,
        consume_time_ms=(now.consume_s - before.consume_s) / calls * 1000 if calls else 0.0,
        pull_time_ms=(now.pull_s - before.pull_s) / pulls * 1000 if pulls else 0.0,
        pull_tps=(now.pulled - before.pulled) / seconds,
    )
