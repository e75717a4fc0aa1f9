"""One statistic over time: its value at sampled moments, and the figures of the last minute, hour and day.

    minute    7 samples, one each 10 s         hour    7 samples, one each 10 min         day    25 samples, one an hour

A figure is the difference between the newest and the oldest sample of its window, as at Apache's brokers; there the
first sample of a new statistic comes with the next look, and what was counted before is missing. Here it is a zero.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from skyrocketmq.wire.bodies_admin import BrokerStats, BrokerStatsItem

__all__ = ["SAMPLE_INTERVAL_S", "Series"]

SAMPLE_INTERVAL_S: Final = 10.0


class Window(NamedTuple):
    ticks: int  # of `SAMPLE_INTERVAL_S`, between two samples
    samples_max: int


MINUTE: Final = Window(1, 7)
HOUR: Final = Window(60, 7)
DAY: Final = Window(360, 25)
_WINDOWS: Final = (MINUTE, HOUR, DAY)
_FIELDS: Final = 3  # of a sample: | time in ms | value | times |


class Series:
    """The samples of one statistic. There may be ten thousand of these: numbers lie in arrays, not in objects."""

    __slots__ = ("_samples",)

    def __init__(self, now_ms: int) -> None:
        """Begin with nothing, now."""
        self._samples = tuple(array("q", (now_ms, 0, 0)) for _ in _WINDOWS)

    def add(self, tick: int, now_ms: int, value: int, times: int) -> None:
        """Take a sample: of a value that only grows, and of how often it has been added to."""
        for window, samples in zip(_WINDOWS, self._samples, strict=True):
            if tick % window.ticks == 0:
                samples.extend((now_ms, value, times))
                del samples[: -window.samples_max * _FIELDS]

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has happened for as long as the longest window looks back."""
        of_day = self._samples[-1]
        return len(of_day) == DAY.samples_max * _FIELDS and of_day[1] == of_day[-2]

    @property
    def minute(self) -> BrokerStatsItem:
        return _figures(self._samples[0])

    def figures(self) -> BrokerStats:
        minute, hour, day = map(_figures, self._samples)
        return BrokerStats(stats_day=day, stats_hour=hour, stats_minute=minute)


def _figures(samples: array[int]) -> BrokerStatsItem:
    spent_ms = samples[-3] - samples[0]
    total = samples[-2] - samples[1]
    times = samples[-1] - samples[2]
    return BrokerStatsItem(
        average=total / times if times else 0.0, sum=total, tps=total * 1000 / spent_ms if spent_ms > 0 else 0.0
    )
