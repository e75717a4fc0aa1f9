"""A message that its broker cannot take back goes to another one as a copy: it may be tried as often all the same."""

from __future__ import annotations

import pytest

from skyrocketmq import Message, MessageView, Producer, PushConsumer
from skyrocketmq.admin import Admin
from skyrocketmq.client import ConsumeResult
from skyrocketmq.testing import Simulation


@pytest.mark.parametrize(("retry_count_max", "attempts"), [(0, [0]), (1, [0, 1]), (2, [0, 1, 2])])
def test_a_copy_does_not_die_an_attempt_early(retry_count_max: int, attempts: list[int]) -> None:
    """Found by the simulation: a copy counts the attempt to come, and brokers compare with >=."""
    seen: list[int] = []

    async def story(sim: Simulation) -> None:
        sim.name_server()
        brokers = {"a": sim.broker("a"), "b": sim.broker("b")}
        await sim.start()
        service, sender = sim.service("service"), sim.service("sender")

        async def create() -> None:
            async with Admin(namesrv=sim.namesrv, **sender.options()) as admin:
                await admin.topics.create("T", queues=1)

        await sender.call(create())

        async def consume() -> None:
            consumer = PushConsumer(
                "g", namesrv=sim.namesrv, consume_from="first", retry_count_max=retry_count_max, **service.options()
            )

            @consumer.subscribe("T")
            async def fail(message: MessageView) -> ConsumeResult:
                seen.append(message.reconsume_times)
                if not message.reconsume_times:
                    brokers.pop(message.queue.broker_name).kill()  # it cannot take it back: the copy goes to the other
                return ConsumeResult.retry(delay_level=1)

            async with consumer:
                await sim.forever()

        async def send() -> None:
            async with Producer("p", namesrv=sim.namesrv, **sender.options()) as producer:
                await producer.send(Message("T", b"never good"))

        service.start(consume)
        await sim.sleep(3)
        await sender.call(send())
        await sim.sleep(100)
        (left,) = brokers.values()
        assert left.server is not None
        dead = left.server.store.queues.find("%DLQ%g", 0)
        assert dead is not None
        assert dead.max_offset == 1

    Simulation(1).run(story)
    assert seen == attempts
