"""The loop of a simulation: time that jumps, processes that stand still or are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from skyrocketmq.testing.simulation.clock import START_MS, SimClock
from skyrocketmq.testing.simulation.loop import Deadlock, SimLoop


def run(story: Callable[[SimLoop], Awaitable[None]]) -> SimLoop:
    loop = SimLoop()

    async def main() -> None:
        await story(loop)

    loop.run(main())
    return loop


def test_waiting_takes_no_time_and_timers_come_in_order() -> None:
    seen: list[tuple[str, float]] = []

    async def story(loop: SimLoop) -> None:
        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time()))

        await asyncio.gather(sleeper("year", 365 * 86400.0), sleeper("b", 2.0), sleeper("a", 1.0), sleeper("c", 2.0))

    run(story)
    assert seen == [("a", 1.0), ("b", 2.0), ("c", 2.0), ("year", 365 * 86400.0)]


def test_nothing_to_wait_for_is_a_deadlock() -> None:
    with pytest.raises(Deadlock, match="nobody has anything to do"):
        run(lambda loop: asyncio.Event().wait())  # type: ignore[arg-type,return-value]


def test_turning_for_ever_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyrocketmq.testing.simulation.loop.TURNS_WITHOUT_TIME_MAX", 1000)

    async def story(loop: SimLoop) -> None:
        while True:  # noqa: ASYNC110  # just that
            await asyncio.sleep(0)

    with pytest.raises(Deadlock, match="turned"):
        run(story)


def test_a_process_that_is_killed_runs_no_line_more() -> None:
    lines: list[str] = []

    async def work() -> None:
        try:
            async with asyncio.timeout(50):
                lines.append("works")
                await asyncio.sleep(10)
                lines.append("goes on")
        finally:
            lines.append("cleans up")

    async def story(loop: SimLoop) -> None:
        process = loop.process("p")
        process.start(work(), name="work")
        await asyncio.sleep(1)
        process.kill()
        await asyncio.sleep(100)
        assert lines == ["works"]
        assert process.ended.done()

    assert run(story).errors == []


def test_a_call_into_a_process_that_dies_is_an_error() -> None:
    async def story(loop: SimLoop) -> None:
        process = loop.process("p")
        loop.call_later(1, process.kill)
        with pytest.raises(ProcessLookupError):
            await process.call(asyncio.sleep(5), name="sleeps")

    run(story)


def test_a_paused_process_is_late_for_everything() -> None:
    seen: list[float] = []

    async def story(loop: SimLoop) -> None:
        async def ticks() -> None:
            for _ in range(4):
                await asyncio.sleep(1)
                seen.append(loop.time())

        process = loop.process("p")
        process.start(ticks(), name="ticks")
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(10)
        assert seen == [1.0]
        process.resume()
        await asyncio.sleep(5)

    run(story)
    assert seen == [1.0, 11.5, 12.5, 13.5]


def test_what_would_run_in_a_thread_runs_on_the_loop() -> None:
    async def story(loop: SimLoop) -> None:
        assert await asyncio.to_thread(lambda: 6 * 7) == 42
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

    run(story)


def test_a_clock_may_be_wrong_run_fast_and_jump() -> None:
    async def story(loop: SimLoop) -> None:
        clock = SimClock(loop)
        clock.set(skew_ms=500, drift=0.1)
        await clock.sleep(11)  # of its own seconds
        assert loop.time() == pytest.approx(10)
        assert clock.monotonic() == pytest.approx(11)
        assert clock.now_ms() == START_MS + 11_500
        clock.jump(-60)
        assert clock.now_ms() == START_MS + 11_500 - 60_000
        assert clock.ahead_ms == 1_500 - 60_000
        assert clock.monotonic() == pytest.approx(11)

    run(story)
