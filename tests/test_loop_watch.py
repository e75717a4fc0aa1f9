"""The watch on a loop: what counts as a stall, what is measured, what is logged, and that watched work stays itself."""

from __future__ import annotations

import asyncio
import logging

import pytest

from skyrocketmq.background import Background
from skyrocketmq.loop_watch import CPU_READ_EVERY_S, LOG_EVERY_S, LoopWatch, start_task
from skyrocketmq.testing import ManualClock


class BusyClock(ManualClock):
    """A clock of a machine on which work takes time: `work` holds the loop for so long, some of it computing."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu_s = 0.0

    def work(self, wall_s: float, cpu_s: float | None = None) -> None:
        self._now += wall_s
        self.cpu_s += wall_s if cpu_s is None else cpu_s

    def watch(self) -> LoopWatch:
        return LoopWatch(self, cpu_s=lambda: self.cpu_s)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name in ("work", "wall_ms", "cpu_ms", "not_logged")}


async def test_only_the_step_that_is_too_long_counts_with_its_wall_and_cpu_time() -> None:
    clock = BusyClock()
    watch = clock.watch()

    async def work() -> str:
        clock.work(0.049)
        await clock.sleep(0)
        clock.work(0.2, cpu_s=0.07)
        await asyncio.sleep(0)
        clock.work(0.05)
        return "done"

    assert await start_task(work(), name="save", watch=watch) == "done"
    assert watch.stall_count == 1
    assert watch.wall_s_max == pytest.approx(0.2)
    assert watch.cpu_s_max == pytest.approx(0.07)
    assert watch.last_cause == {"work": "save"}
    assert watch.figures() == {
        "loopStallCount": "1",
        "loopStallLimitMillis": "50",
        "loopStallTimeTotalMillis": "200",
        "loopStallTimeMaxMillis": "200",
        "loopStallCpuTotalMillis": "70",
        "loopStallCpuMaxMillis": "70",
        "loopStallLast": "work=save",
    }


async def test_waiting_is_no_stall() -> None:
    clock = BusyClock()
    watch = clock.watch()
    task = start_task(clock.sleep(100), name="sleeper", watch=watch)
    await clock.skip(100)
    await task
    assert watch.stall_count == 0


async def test_cpu_time_is_read_rarely_and_is_never_more_than_the_wall_time() -> None:
    clock = BusyClock()
    readings: list[float] = []

    def cpu_s() -> float:
        readings.append(clock.cpu_s)
        return clock.cpu_s

    watch = LoopWatch(clock, cpu_s=cpu_s)
    for _ in range(100):
        started = watch.begin()
        clock.work(CPU_READ_EVERY_S / 20)
        watch.end(started, dict)
    assert len(readings) <= 1 + 100 // 20
    started = watch.begin()
    clock.work(0.06)
    watch.end(started, dict)
    assert 0.06 - CPU_READ_EVERY_S <= watch.cpu_s_max <= watch.wall_s_max


async def test_watched_work_is_cancelled_and_fails_as_any_other() -> None:
    watch = BusyClock().watch()
    seen: list[str] = []

    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled once")
        await asyncio.Event().wait()
        return "never"

    task = start_task(stubborn(), name="stubborn", watch=watch)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert (seen, task.done()) == (["cancelled once"], False)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def fails() -> None:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError as error:
            raise ValueError("late") from error

    with pytest.raises(ValueError, match="late"):
        await start_task(fails(), name="fails", watch=watch)


async def test_work_that_is_cancelled_before_it_begins_never_begins() -> None:
    """And nobody warns that it was not awaited."""
    began: list[str] = []

    async def work() -> None:
        began.append("it did")

    task = start_task(work(), name="work", watch=BusyClock().watch())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert began == []


async def test_a_stall_is_logged_as_a_warning_and_a_storm_of_them_once_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="skyrocketmq.loop_watch")
    clock = BusyClock()
    watch = clock.watch()

    def stall() -> None:
        started = watch.begin()
        clock.work(0.1)
        watch.end(started, lambda: {"work": "storm"})

    for _ in range(5):
        stall()
    await clock.advance(LOG_EVERY_S)
    stall()
    lines = [fields_of(record) for record in caplog.records if record.message == "loop stalled"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert lines == [
        {"work": "storm", "wall_ms": 100, "cpu_ms": 100, "not_logged": 0},
        {"work": "storm", "wall_ms": 100, "cpu_ms": 100, "not_logged": 4},
    ]
    assert watch.stall_count == 6


async def test_periodic_work_that_holds_the_loop_is_named() -> None:
    clock = BusyClock()
    watch = clock.watch()

    def tidy_up() -> None:
        clock.work(0.3)

    async with Background(clock, watch=watch) as background:
        background.every(10, tidy_up)
        await clock.skip(10)
    assert watch.stall_count == 1
    assert "tidy_up" in str(watch.last_cause["work"])
