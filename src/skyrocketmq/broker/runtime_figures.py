"""What the broker measures about itself over time: rates of the last seconds and minutes, totals of the last days.

The store counts (`StoreStatistics`); here its counters are sampled once a second, and rates are differences of samples.
Texts have the form in which Apache's brokers give them, because tools take them apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from skyrocketmq.ports import Clock
from skyrocketmq.store import StoreStatistics
from skyrocketmq.store.statistics import PUT_TIME_BOUNDS_MS

__all__ = ["SAMPLE_INTERVAL_S", "RuntimeFigures", "byte_text", "duration_text"]

SAMPLE_INTERVAL_S = 1.0
RATE_WINDOWS = (10, 60, 600)  # samples, that is seconds
BUCKET_WINDOW_S = 60.0
BUCKET_NAMES = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)
assert len(BUCKET_NAMES) == len(PUT_TIME_BOUNDS_MS) + 1


def local_day(now_ms: int) -> int:
    """The number of the day on which a time falls where this machine stands."""
    return datetime.fromtimestamp(now_ms / 1000).toordinal()


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters at one moment."""

    at_s: float
    put_count: int
    get_found: int
    get_missed: int
    get_count: int


class RuntimeFigures:
    """The figures of one broker since its start. `sample` is called every `SAMPLE_INTERVAL_S`.

    `day_of` gives the number of the day of a time in ms: the totals of a day begin at midnight.
    """

    def __init__(self, statistics: StoreStatistics, clock: Clock, *, day_of: Callable[[int], int] = local_day) -> None:
        self._statistics = statistics
        self._clock = clock
        self._day_of = day_of
        self._samples: deque[Sample] = deque(maxlen=max(RATE_WINDOWS) + 1)
        self._buckets_at_s = clock.monotonic()
        self._buckets_before = list(statistics.put_time_counts)
        self._buckets_of_minute: list[int] | None = None
        self._day = day_of(clock.now_ms())
        self._morning_totals = ((0, 0), (0, 0))  # yesterday's and today's: messages put and given until midnight
        self.started_ms = clock.now_ms()

    def sample(self) -> None:
        """Take down the counters as they are."""
        counters = self._statistics
        now_s = self._clock.monotonic()
        self._samples.append(
            Sample(now_s, counters.put_count, counters.get_found, counters.get_missed, counters.get_count)
        )
        if now_s - self._buckets_at_s >= BUCKET_WINDOW_S:
            counts = list(counters.put_time_counts)
            self._buckets_of_minute = [now - before for now, before in zip(counts, self._buckets_before, strict=True)]
            self._buckets_before, self._buckets_at_s = counts, now_s
        day = self._day_of(self._clock.now_ms())
        if day != self._day:
            self._day = day
            self._morning_totals = (self._morning_totals[1], (counters.put_count, counters.get_count))

    def table(self) -> dict[str, str]:
        """The keys of the runtime information that are about the store's work."""
        counters = self._statistics
        put_count = max(1, counters.put_count)
        (put_yesterday, get_yesterday), (put_today, get_today) = self._morning_totals
        table = {
            "bootTimestamp": str(self.started_ms),
            "runtime": duration_text(self._clock.now_ms() - self.started_ms),
            "putMessageEntireTimeMax": str(counters.put_ms_max),
            "putMessageTimesTotal": str(put_count),
            "putMessageFailedTimes": str(counters.put_failed),
            "putMessageSizeTotal": str(counters.put_bytes),
            "putMessageAverageSize": str(counters.put_bytes / put_count),
            "getMessageEntireTimeMax": str(counters.get_ms_max),
            "putTps": self._rates(lambda sample: sample.put_count),
            "getFoundTps": self._rates(lambda sample: sample.get_found),
            "getMissTps": self._rates(lambda sample: sample.get_missed),
            "getTotalTps": self._rates(lambda sample: sample.get_found + sample.get_missed),
            "getTransferedTps": self._rates(lambda sample: sample.get_count),
            "msgPutTotalYesterdayMorning": str(put_yesterday),
            "msgPutTotalTodayMorning": str(put_today),
            "msgPutTotalTodayNow": str(counters.put_count),
            "msgGetTotalYesterdayMorning": str(get_yesterday),
            "msgGetTotalTodayMorning": str(get_today),
            "msgGetTotalTodayNow": str(counters.get_count),
        }
        for key, share in (("putLatency99", 0.99), ("putLatency999", 0.999)):
            table[key] = f"{self._put_latency_ms(share):.2f}"
        if self._buckets_of_minute is not None:
            table["putMessageDistributeTime"] = _bucket_text(self._buckets_of_minute)
        return table

    def _put_latency_ms(self, share: float) -> float:
        """Within how many milliseconds this share of the last minute's messages was written; -1 before it is known.

        It is as fine as the buckets are: the upper bound of the one in which the share is reached.
        """
        counts = self._buckets_of_minute
        if counts is None or not sum(counts):
            return -1.0
        bounds_ms = (*PUT_TIME_BOUNDS_MS, max(self._statistics.put_ms_max, PUT_TIME_BOUNDS_MS[-1]))
        reached = accumulate(counts)
        wanted = share * sum(counts)
        return float(next(bound for bound, count in zip(bounds_ms, reached, strict=True) if count >= wanted))

    def _rates(self, count_of: Callable[[Sample], int]) -> str:
        """The rates a second over each window, with a blank between; nothing for a window that is not full yet."""
        return " ".join(self._rate(window, count_of) for window in RATE_WINDOWS)

    def _rate(self, window: int, count_of: Callable[[Sample], int]) -> str:
        if len(self._samples) <= window:
            return ""
        last, first = self._samples[-1], self._samples[-1 - window]
        seconds = last.at_s - first.at_s
        return str((count_of(last) - count_of(first)) / seconds) if seconds > 0 else ""


def _bucket_text(counts: list[int]) -> str:
    return " ".join(f"{name}:{count}" for name, count in zip(BUCKET_NAMES, counts, strict=True))


def duration_text(milliseconds: int) -> str:
    """A time for people, as the family prints it."""
    seconds = milliseconds // 1000
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3_600)
    minutes, seconds = divmod(seconds, 60)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def byte_text(count: int) -> str:
    """A number of bytes for people, as the family prints it: `512 B`, `1.5 GiB`."""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} EiB"
