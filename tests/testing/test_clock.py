from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.ports import Clock, every
from skyrocketmq.testing import ManualClock


def test_it_is_a_clock() -> None:
    assert isinstance(ManualClock(), Clock)


async def test_time_moves_only_when_it_is_told_to() -> None:
    clock = ManualClock(start_ms=5_000)
    await asyncio.sleep(0.01)
    assert (clock.now_ms(), clock.monotonic()) == (5_000, 0.0)
    await clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (6_500, 1.5)


async def test_sleepers_wake_in_the_order_of_their_times_and_see_them() -> None:
    clock = ManualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(sleeper(name, seconds)) for name, seconds in [("c", 3), ("a", 1), ("b", 1), ("d", 9)]]
    await clock.advance(5)
    assert len(woken) == 3
    await clock.advance(4)
    assert woken == [("a", 1.0), ("b", 1.0), ("c", 3.0), ("d", 9.0)]
    await asyncio.gather(*tasks)


async def test_one_advance_carries_a_loop_of_sleeps_through_all_its_turns() -> None:
    clock = ManualClock()
    runs: list[float] = []
    task = asyncio.create_task(every(10, lambda: runs.append(clock.monotonic()), clock=clock, on_error=print))
    await clock.advance(35)
    assert runs == [10, 20, 30]
    task.cancel()


async def test_a_timeout_cancels_its_body_and_becomes_a_timeout_error() -> None:
    clock = ManualClock()

    async def body() -> None:
        async with clock.timeout(2):
            await clock.sleep(10)

    task = asyncio.create_task(body())
    await clock.advance(1.9)
    assert not task.done()
    await clock.advance(0.2)
    with pytest.raises(TimeoutError):
        await task
    assert clock.timer_count == 0


async def test_a_body_that_ends_in_time_leaves_no_timer() -> None:
    clock = ManualClock()
    async with clock.timeout(2):
        assert clock.timer_count == 1
    async with clock.timeout(None):
        assert clock.timer_count == 0
    assert clock.timer_count == 0


async def test_a_cancellation_from_outside_stays_a_cancellation() -> None:
    clock = ManualClock()

    async def body() -> None:
        async with clock.timeout(2):
            await clock.sleep(10)

    task = asyncio.create_task(body())
    await clock.settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.timer_count == 0


async def test_the_inner_of_two_timeouts_is_the_one_that_fires() -> None:
    clock = ManualClock()
    outcome: list[str] = []

    async def body() -> None:
        async with clock.timeout(10):
            try:
                async with clock.timeout(1):
                    await clock.sleep(100)
            except TimeoutError:
                outcome.append("inner")
            await clock.sleep(1)
            outcome.append("outer body went on")

    task = asyncio.create_task(body())
    await clock.advance(2)
    await task
    assert outcome == ["inner", "outer body went on"]


async def test_a_cancelled_timer_does_not_fire_and_one_without_delay_needs_no_advance() -> None:
    clock = ManualClock()
    fired: list[str] = []
    clock.call_later(1, lambda: fired.append("cancelled")).cancel()
    clock.call_later(0, lambda: fired.append("at once"))
    clock.call_later(1, lambda: fired.append("later"))
    assert clock.next_timer_s == 1
    await clock.settle()
    assert fired == ["at once"]
    await clock.advance(1)
    assert fired == ["at once", "later"]
    assert clock.next_timer_s is None


async def test_ten_tenths_of_a_second_are_a_second() -> None:
    clock = ManualClock()
    fired: list[float] = []
    clock.call_later(1, lambda: fired.append(clock.monotonic()))
    for _ in range(10):
        await clock.advance(0.1)
    assert len(fired) == 1


async def test_a_skip_fires_what_is_due_once_and_in_order_with_the_clock_at_its_end() -> None:
    clock = ManualClock()
    fired: list[tuple[str, float]] = []

    def again() -> None:
        fired.append(("every second", clock.monotonic()))
        clock.call_later(1, again)

    clock.call_later(30, lambda: fired.append(("late", clock.monotonic())))
    clock.call_later(1, again)
    clock.call_later(70, lambda: fired.append(("too late", clock.monotonic())))
    await clock.skip(60)
    assert fired == [("every second", 60.0), ("late", 60.0)]
    assert clock.next_timer_s == 1.0
