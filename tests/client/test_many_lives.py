"""Clients opened and closed a hundred times leave nothing in their process; the broker is in another one.

`make soak` has a thousand lives of each kind.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skyrocketmq import blocking
from skyrocketmq.client import sharing
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import Message, MessageView
from tests.client.cluster import until
from tests.interop.ours import Up, running
from tests.net.support import open_descriptors

LIVES = int(os.environ.get("CLIENT_LIVES", "100"))
LIFE_S_MAX = 2.0
LIVES_BEFORE = 20  # what is made once and kept is there after these
MEMORY_BYTES_MAX = 5 * 1024 * 1024

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout((LIVES_BEFORE + LIVES) * LIFE_S_MAX, func_only=True),
]


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    with running(Up(tmp_path / "up")) as server:
        yield server.namesrv_address


def resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


async def push(namesrv: str) -> None:
    """A producer, and consumers with both kinds of handlers."""
    arrived = asyncio.Event()
    plain: list[bytes] = []

    async def handle(message: MessageView) -> None:
        arrived.set()

    consumers = [PushConsumer("async", namesrv=namesrv), PushConsumer("plain", namesrv=namesrv, orderly=True)]
    consumers[0].subscribe("T", "*", handle)
    consumers[1].subscribe("T", "*", lambda message: plain.append(message.body))
    async with Producer("senders", namesrv=namesrv) as producer, consumers[0], consumers[1]:
        await producer.send(Message("T", b"x"))
        await arrived.wait()
        await until(lambda: plain)


async def lite(namesrv: str) -> None:
    consumer = LitePullConsumer("lite", namesrv=namesrv)
    consumer.subscribe("T")
    async with Producer("senders", namesrv=namesrv) as producer, consumer:
        await producer.send(Message("T", b"x"))
        while not await consumer.poll():
            pass
        await consumer.commit()


async def blocked(namesrv: str) -> None:
    """The blocking face: a thread with a loop comes and goes with it."""

    def once() -> None:
        arrived = threading.Event()
        consumer = blocking.PushConsumer("blocking", namesrv=namesrv)
        consumer.subscribe("T", "*", lambda message: arrived.set())
        with blocking.Producer("senders", namesrv=namesrv) as producer, consumer:
            producer.send(Message("T", b"x"))
            assert arrived.wait(20)

    # A thread of its own, which goes with it: a pool may begin one more thread at any time, and keeps it.
    with ThreadPoolExecutor(1) as pool:
        await asyncio.get_running_loop().run_in_executor(pool, once)


@pytest.mark.parametrize("life", [push, lite, blocked])
async def test_open_send_consume_close_leaves_nothing(namesrv: str, life: Callable[[str], Awaitable[None]]) -> None:
    await until_there_are_routes(namesrv)
    for _ in range(LIVES_BEFORE):
        await life(namesrv)
    gc.collect()
    await asyncio.sleep(0.1)  # sockets are closed by the loop, a turn or two after their connections
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    descriptors, memory_bytes = open_descriptors(), resident_bytes()
    for _ in range(LIVES):
        await life(namesrv)
    gc.collect()
    await until(lambda: len(open_descriptors()) <= len(descriptors))
    await until(lambda: threading.active_count() <= threads)
    assert len(asyncio.all_tasks()) == tasks
    assert sharing._instances == {}
    grown_bytes = resident_bytes() - memory_bytes
    print(f"{life.__name__}: {LIVES} lives, memory grew by {grown_bytes / 2**20:.1f} MiB")
    assert grown_bytes < MEMORY_BYTES_MAX


async def until_there_are_routes(namesrv: str) -> None:
    """The topic is made by its first message; groups that begin later begin behind it."""
    async with Producer("first", namesrv=namesrv) as producer:
        await producer.send(Message("T", b"first"))
