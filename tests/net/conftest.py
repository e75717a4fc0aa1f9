"""Every test of connections runs on both event loops, and leaves no task, connection or descriptor behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.net.support import open_descriptors


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
async def nothing_is_left_behind() -> AsyncIterator[None]:
    descriptors_before = open_descriptors()
    yield
    gc.collect(1)  # the young generations: a full collection would cost more than the test
    left: list[object] = []
    for turn in range(200):  # sockets are closed by the loop, a turn or two after their connections
        left = [*(open_descriptors() - descriptors_before), *(asyncio.all_tasks() - {asyncio.current_task()})]
        if not left:
            return
        if turn == 100:
            gc.collect()  # what lived through the collections of a slow test is old by now
        await asyncio.sleep(0.01)
    pytest.fail(f"{len(left)} left behind: {left[:10]}")
