"""The lines of the benchmark commands: Apache's, to the character."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from skyrocketmq.cli.bench_figures import ConsumeFigures, SendFigures

NOON_MS = 1_714_564_800_123  # 2024-05-01 12:00:00.123 UTC


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class TestSends:
    def test_a_line_every_ten_seconds_of_the_last_ten_snapshots(self) -> None:
        figures = SendFigures()
        for second in range(12):
            for _ in range(100):
                figures.add(2.5)
            figures.snapshot(NOON_MS + second * 1000)
        figures.failed_count = 3
        figures.refused_count = 4
        figures.snapshot(NOON_MS + 12_000)
        assert figures.line(NOON_MS) == (
            "Current Time: 2024-05-01 12:00:00,123 Send TPS: 88 Max RT(ms): 2 Average RT(ms):   2.500 "
            "Send Failed: 3 Response Failed: 4"
        )

    def test_no_line_before_there_are_ten_snapshots(self) -> None:
        figures = SendFigures()
        for second in range(9):
            figures.snapshot(second * 1000)
        assert figures.line(NOON_MS) is None

    def test_the_longest_time_is_that_of_the_whole_run(self) -> None:
        figures = SendFigures()
        figures.add(77.0)
        for second in range(20):
            figures.add(1.0)
            figures.snapshot(second * 1000)
        line = figures.line(NOON_MS)
        assert line is not None
        assert "Max RT(ms): 77 " in line

    def test_nothing_sent_has_no_average(self) -> None:
        figures = SendFigures()
        for second in range(10):
            figures.snapshot(second * 1000)
        line = figures.line(NOON_MS)
        assert line is not None
        assert "Send TPS: 0 Max RT(ms): 0 Average RT(ms):     NaN Send Failed: 0" in line

    def test_the_last_line_has_the_total(self) -> None:
        figures = SendFigures()
        figures.snapshot(0)
        for _ in range(30):
            figures.add(10.0)
        figures.failed_count = 2
        figures.snapshot(2_000)
        assert figures.last_line() == (
            "[Complete] Send Total: 32 Send TPS: 15 Max RT(ms): 10 Average RT(ms):  10.000 "
            "Send Failed: 2 Response Failed: 0"
        )

    def test_the_last_line_of_a_short_run_has_no_rates(self) -> None:
        figures = SendFigures()
        figures.add(1.0)
        figures.refused_count = 1
        assert figures.last_line() == "[Complete] Send Total: 1 Send Failed: 0 Response Failed: 1"


class TestConsumption:
    def test_a_line_every_ten_seconds(self) -> None:
        figures = ConsumeFigures()
        for second in range(10):
            figures.snapshot(second * 1000)
            for _ in range(9):
                figures.add(born_ms=1_000, stored_ms=1_004, now_ms=1_010)
        figures.add(born_ms=1_000, stored_ms=1_001, now_ms=1_100)
        figures.failed_count = 2
        figures.snapshot(10_000)
        assert figures.line(5) == (
            "Current Time: 5 TPS: 9 FAIL: 2 AVG(B2C) RT(ms):  11.098 AVG(S2C) RT(ms):   7.134 "
            "MAX(B2C) RT(ms): 100 MAX(S2C) RT(ms): 99"
        )

    def test_the_longest_times_begin_anew_with_every_line(self) -> None:
        figures = ConsumeFigures()
        figures.add(born_ms=0, stored_ms=1, now_ms=50)
        for second in range(10):
            figures.snapshot(second * 1000)
        first, second_line = figures.line(5), figures.line(5)
        assert first is not None
        assert second_line is not None
        assert first.endswith("MAX(B2C) RT(ms): 50 MAX(S2C) RT(ms): 49")
        assert second_line.endswith("MAX(B2C) RT(ms): 0 MAX(S2C) RT(ms): 0")

    def test_no_line_before_there_are_ten_snapshots(self) -> None:
        figures = ConsumeFigures()
        figures.snapshot(0)
        assert figures.line(5) is None
