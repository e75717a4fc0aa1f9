"""One connection that speaks for very many brokers, and ends or falls silent: they go one by one, each at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from skyrocketmq.model import DataVersion, TopicConfig
from skyrocketmq.nameserver.routes import BrokerIdentity, Registration, RouteTables
from skyrocketmq.nameserver.server import BROKER_SILENT_S
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.frames import Frame
from tests.nameserver.test_access import town

COUNT = 2000


def take(tables: RouteTables, number: int, *, connection: int, topics: int = 0) -> None:
    broker = BrokerIdentity(cluster=f"c{number}", name=f"b{number}", broker_id=0, address=f"10.0.0.1:{number}")
    table = {f"T{each}": TopicConfig(topic_name=f"T{each}") for each in range(topics)}
    registration = Registration(broker=broker, ha_address="", data_version=DataVersion(), topics=table)
    tables.register(registration, connection=connection, now_s=0.0)


def test_a_broker_goes_without_a_look_at_all_others() -> None:
    tables = RouteTables()
    for number in range(COUNT):
        take(tables, number, connection=1)
    started = time.thread_time()
    assert len(tables.forget_connection(1, remote_address="")) == COUNT
    assert time.thread_time() - started < 0.3, "it grows with the square of their number"
    assert tables.counts() == {"topics": 0, "brokers": 0, "clusters": 0}


@pytest.mark.parametrize("end", ["it hangs up", "it falls silent"])
async def test_others_are_served_while_very_many_go(tmp_path: Path, end: str) -> None:
    clock = ManualClock()
    async with town(tmp_path, clock=clock) as here:
        client = await here.client()
        await client.request(here.server.address, Frame(106), 5)
        (connection,) = here.connections
        for number in range(20):
            take(here.server.tables, number, connection=connection.id, topics=20)
        counts: list[int] = []  # as others see them, in each turn of the loop
        watching = asyncio.create_task(_watch(here.server.tables, counts))
        await (client.close() if end == "it hangs up" else clock.advance(BROKER_SILENT_S + 20))
        await watching
        assert set(counts) == set(range(21))
        assert here.server.tables.counts() == {"topics": 0, "brokers": 0, "clusters": 0}


async def _watch(tables: RouteTables, counts: list[int]) -> None:
    while not counts or counts[-1]:
        counts.append(tables.counts()["brokers"])
        await asyncio.sleep(0)
