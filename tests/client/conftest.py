"""Every test of the client leaves no task, thread or descriptor behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop

from tests.client.cluster import Cluster, open_cluster
from tests.net.support import open_descriptors

uvloop.new_event_loop().close()  # the first loop of a process makes a pipe that stays until its end


@pytest.fixture(autouse=True)
async def nothing_is_left_behind() -> AsyncIterator[None]:
    descriptors_before = open_descriptors()
    threads_before = set(threading.enumerate())
    yield
    gc.collect(1)  # the young generations: a full collection would cost more than the test
    left: list[object] = []
    for _ in range(200):  # sockets are closed by the loop, a turn or two after their connections
        left = [
            *(open_descriptors() - descriptors_before),
            *(asyncio.all_tasks() - {asyncio.current_task()}),
            *(thread for thread in set(threading.enumerate()) - threads_before if not _is_of_the_loop(thread)),
        ]
        if not left:
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"left behind: {left}")


def _is_of_the_loop(thread: threading.Thread) -> bool:
    """The loop looks up host names in threads of its own, which end with it."""
    return thread.name.startswith("asyncio_")


@pytest.fixture
async def cluster(tmp_path: Path, nothing_is_left_behind: None) -> AsyncIterator[Cluster]:
    """A name server and one broker."""
    async with open_cluster(tmp_path) as opened:
        yield opened


@pytest.fixture
async def two_brokers(tmp_path: Path, nothing_is_left_behind: None) -> AsyncIterator[Cluster]:
    """A name server and two brokers."""
    async with open_cluster(tmp_path, broker_count=2) as opened:
        yield opened
