"""Waiting for what the network, a thread or another process brings about.

A limit here ends a test that would hang. It is no promise of the product, so it is generous: on a machine with two busy
cores a step that takes milliseconds may take seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from skyrocketmq.testing import ManualClock

T = TypeVar("T")

PATIENCE_S: Final = 30.0
LOOK_EVERY_S: Final = 0.005
BREATH_TURNS: Final = 50


async def until(condition: Callable[[], object], *, seconds: float = PATIENCE_S, what: str = "") -> None:
    """Return as soon as the condition holds; an `AssertionError` that names it if the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, _not_within(seconds, what or str(condition))
        await asyncio.sleep(LOOK_EVERY_S)


def wait_until(condition: Callable[[], object], *, timeout_s: float = PATIENCE_S, what: str = "") -> None:
    """The same for code without a loop."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, _not_within(timeout_s, what or str(condition))
        time.sleep(LOOK_EVERY_S)


async def breathe(seconds: float = 0.01) -> None:
    """Let everything of this loop happen that is on its way: what was written is read, answered, and the answer read.

    Real time alone would not do. A busy machine may take it all at once, and then nobody has had a turn.
    """
    await asyncio.sleep(seconds)
    for _ in range(BREATH_TURNS):
        await asyncio.sleep(0)


async def moving(clock: ManualClock, work: Coroutine[Any, Any, T], *, stride_s: float = 0.5) -> T:
    """Do what waits for nothing but the clock: time is moved until it is done."""
    task = asyncio.create_task(work)
    while not task.done():
        await clock.advance(stride_s)
    return task.result()


def _not_within(seconds: float, what: str) -> str:
    return f"not within {seconds:g} s: {what}"
