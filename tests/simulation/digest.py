"""Run a small cluster through trouble and print a digest of everything that was seen, and of the logs' bytes."""

from __future__ import annotations

import asyncio
import hashlib
import sys

from skyrocketmq import Message
from skyrocketmq.client import Producer, PushConsumer
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageView
from skyrocketmq.testing.simulation.node import ROOT
from skyrocketmq.testing.simulation.simulation import Simulation


async def story(sim: Simulation) -> str:
    digest = hashlib.sha256()

    def saw(*what: object) -> None:
        digest.update(repr((*what, sim.now)).encode())

    sim.name_server()
    master = sim.broker("master", brokerName="a", brokerRole="SYNC_MASTER", flushDiskType="SYNC_FLUSH")
    slave = sim.broker("slave", brokerName="a", brokerRole="SLAVE", brokerId="1")
    await sim.start()
    for number, is_orderly in enumerate((False, False, True)):
        node = sim.service(f"consumer-{number}")

        async def consume(name: str = node.name, is_orderly: bool = is_orderly) -> None:
            service = sim.nodes[name]
            consumer = PushConsumer(
                "orderly" if is_orderly else "group",
                namesrv=sim.namesrv,
                consume_from="first",
                orderly=is_orderly,
                **service.options(),  # type: ignore[attr-defined]
            )

            def handle(message: MessageView) -> None:  # a plain function: there are no threads here
                saw(name, message.queue_id, message.queue_offset, message.body)

            consumer.subscribe("T", "*", handle)
            async with consumer:
                await asyncio.Event().wait()

        node.start(consume)
    sender = sim.service("sender")

    async def send() -> None:
        async with Producer("senders", namesrv=sim.namesrv, **sender.options()) as producer:
            number = 0
            while sim.now < 12:
                number += 1
                try:
                    result = await producer.send(Message("T", b"%d" % number))
                    saw(number, result.status.name, result.queue_offset, result.msg_id)
                except MQError as error:
                    saw(number, type(error).__name__, str(error))
                await sim.sleep(sender.chance.expovariate(20))

    sending = sender.start(send)
    await sim.sleep(4)
    master.cut_power(seed=3)
    await sim.sleep(1)
    await master.start()
    await sim.sleep(2)
    slave.kill()
    sim.net.cut("sender", "master")
    await sim.sleep(1)
    sim.net.heal("sender", "master")
    await slave.start()
    await sending
    await sim.sleep(3)
    for disk in (master.disk, slave.disk):
        for name in disk.list(ROOT / "commitlog"):
            digest.update(disk.read(ROOT / "commitlog" / name))
    return digest.hexdigest()


if __name__ == "__main__":
    print(Simulation(int(sys.argv[1])).run(story))
