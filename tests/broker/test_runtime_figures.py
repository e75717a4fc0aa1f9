from __future__ import annotations

import pytest

from skyrocketmq.broker.runtime_figures import SAMPLE_INTERVAL_S, RuntimeFigures, byte_text, duration_text
from skyrocketmq.store import StoreStatistics
from skyrocketmq.testing import ManualClock

DAY_S = 86_400


def utc_day(now_ms: int) -> int:
    return now_ms // (DAY_S * 1000)


class Broker:
    """Counters that rise as told, sampled once a second."""

    def __init__(self) -> None:
        self.clock = ManualClock(start_ms=0)
        self.statistics = StoreStatistics()
        self.figures = RuntimeFigures(self.statistics, self.clock, day_of=utc_day)
        self.figures.sample()

    async def work(self, seconds: int, *, puts_a_second: int = 0, gets_a_second: int = 0) -> None:
        for _ in range(seconds):
            for _ in range(puts_a_second):
                self.statistics.put(1, 100, 0.0)
            self.statistics.get_found += bool(gets_a_second)
            self.statistics.get_missed += not gets_a_second
            self.statistics.get_count += gets_a_second
            await self.clock.advance(SAMPLE_INTERVAL_S)
            self.figures.sample()


async def test_a_rate_is_shown_once_its_window_is_full() -> None:
    broker = Broker()
    await broker.work(9, puts_a_second=5)
    assert broker.figures.table()["putTps"] == "  "
    await broker.work(1, puts_a_second=5)
    assert broker.figures.table()["putTps"] == "5.0  "
    await broker.work(50)
    assert broker.figures.table()["putTps"] == f"0.0 {50 / 60} "


async def test_rates_are_those_of_each_kind_of_read() -> None:
    broker = Broker()
    await broker.work(10, gets_a_second=32)
    table = broker.figures.table()
    assert [table[key].split()[0] for key in ("getFoundTps", "getMissTps", "getTotalTps", "getTransferedTps")] == [
        "1.0",
        "0.0",
        "1.0",
        "32.0",
    ]


async def test_samples_do_not_pile_up() -> None:
    broker = Broker()
    await broker.work(700, puts_a_second=1)
    assert broker.figures.table()["putTps"] == "1.0 1.0 1.0"
    assert len(broker.figures._samples) == 601


async def test_the_distribution_of_write_times_is_that_of_the_last_whole_minute() -> None:
    broker = Broker()
    broker.statistics.put(3, 300, 0.0)
    broker.statistics.put(2, 200, 0.7)
    assert "putMessageDistributeTime" not in broker.figures.table()
    await broker.work(60)
    text = broker.figures.table()["putMessageDistributeTime"]
    assert text.startswith("[<=0ms]:3 [0~10ms]:0 ")
    assert "[500ms~1s]:2" in text
    assert text.endswith("[10s~]:0")
    await broker.work(60)
    assert "[500ms~1s]:0" in broker.figures.table()["putMessageDistributeTime"]


async def test_totals_of_a_day_are_taken_down_at_midnight() -> None:
    broker = Broker()

    def totals() -> list[str]:
        table = broker.figures.table()
        return [table[f"msgPutTotal{when}"] for when in ("YesterdayMorning", "TodayMorning", "TodayNow")]

    await broker.work(1, puts_a_second=7)
    assert totals() == ["0", "0", "7"]
    await broker.clock.advance(DAY_S)
    broker.figures.sample()
    await broker.work(1, puts_a_second=2)
    assert totals() == ["0", "7", "9"]
    await broker.clock.advance(DAY_S)
    broker.figures.sample()
    assert totals() == ["7", "9", "9"]


async def test_totals_and_averages_of_an_idle_broker_divide_by_nothing() -> None:
    table = Broker().figures.table()
    assert (table["putMessageTimesTotal"], table["putMessageAverageSize"]) == ("1", "0.0")
    assert table["runtime"] == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"


def test_durations_are_printed_as_the_family_prints_them() -> None:
    assert duration_text(((25 * 60 + 1) * 60 + 5) * 1000 + 999) == "[ 1 days, 1 hours, 1 minutes, 5 seconds ]"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 * 1024 * 1024, "1.5 GiB"), (2**62, "4.0 EiB")],
)
def test_bytes_are_printed_in_units_of_1024(count: int, text: str) -> None:
    assert byte_text(count) == text


async def test_the_latency_of_writes_is_the_bound_of_the_bucket_that_holds_the_share() -> None:
    broker = Broker()
    assert broker.figures.table()["putLatency99"] == "-1.00"
    broker.statistics.put(990, 300, 0.0)
    broker.statistics.put(9, 300, 0.03)
    broker.statistics.put(1, 300, 42.0)
    await broker.work(60)
    table = broker.figures.table()
    assert (table["putLatency99"], table["putLatency999"]) == ("0.00", "50.00")
    await broker.work(60)
    assert broker.figures.table()["putLatency99"] == "-1.00"  # nothing was written in that minute
