"""Whole clusters on virtual time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skyrocketmq import Message
from skyrocketmq.client import Producer, PullConsumer
from skyrocketmq.errors import NetError
from skyrocketmq.testing.simulation.simulation import Simulation

ROOT = Path(__file__).parents[2]


def digest_in_another_process(seed: int, hash_seed: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.digest", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_seed_gives_the_same_run_in_every_process() -> None:
    first, again, other = (digest_in_another_process(seed, hash_seed) for seed, hash_seed in ((1, 1), (1, 2), (2, 1)))
    assert first == again
    assert first != other


async def send(sim: Simulation, name: str, count: int) -> list[str]:
    node = sim.service(name)

    async def sends() -> list[str]:
        async with Producer("senders", namesrv=sim.namesrv, **node.options()) as producer:
            return [(await producer.send(Message("T", b"%d" % number))).status.name for number in range(count)]

    return await node.start(sends)


async def stored(sim: Simulation, name: str) -> list[bytes]:
    node = sim.service(name)

    async def reads() -> list[bytes]:
        bodies: list[bytes] = []
        async with PullConsumer("readers", namesrv=sim.namesrv, **node.options()) as consumer:
            for queue in await consumer.queues("T"):
                offset = 0
                while pulled := (await consumer.pull(queue, offset)).messages:
                    bodies += [message.body for message in pulled]
                    offset += len(pulled)
        return sorted(bodies, key=int)

    return await node.start(reads)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_synced_is_there_after_a_power_cut(seed: int) -> None:
    async def story(sim: Simulation) -> None:
        sim.name_server()
        broker = sim.broker("a", flushDiskType="SYNC_FLUSH")
        await sim.start()
        assert await send(sim, "sender", 20) == ["SEND_OK"] * 20
        broker.cut_power(seed=seed)
        await sim.sleep(5)
        await broker.start()
        await sim.sleep(1)
        assert await stored(sim, "reader") == [b"%d" % number for number in range(20)]

    Simulation(seed).run(story)


def test_a_node_stops_in_order_and_starts_again() -> None:
    async def story(sim: Simulation) -> None:
        sim.name_server()
        broker = sim.broker("a")
        await sim.start()
        assert await send(sim, "sender", 5) == ["SEND_OK"] * 5
        await broker.stop()
        assert not broker.is_running
        assert broker.server is None
        await broker.start()
        await sim.sleep(1)
        assert len(await stored(sim, "reader")) == 5

    Simulation().run(story)


def test_a_start_that_fails_leaves_the_node_down() -> None:
    async def story(sim: Simulation) -> None:
        sim.name_server()
        broker = sim.broker("a")
        taken = broker.link.bind("", 10911, backlog=1)
        with pytest.raises(NetError):
            await broker.start()
        assert not broker.is_running
        taken.close()
        await broker.start()

    Simulation().run(story)


def test_errors_of_a_story_come_out_of_it() -> None:
    async def story(sim: Simulation) -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Simulation().run(story)
