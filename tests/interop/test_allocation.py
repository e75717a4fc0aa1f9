"""Our strategies beside Apache's own classes: members of one group must divide queues alike, in whatever language."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from skyrocketmq.client.allocation import (
    AllocationStrategy,
    ConsistentHash,
    FixedQueues,
    MachineRoom,
    MachineRoomNearby,
    average,
    average_by_circle,
    machine_room_of,
    share_of,
    sorted_queues,
)
from skyrocketmq.model import MessageQueue
from tests.interop.driver import Driver, Queue

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60, func_only=True)]

ROUNDS = 40
ROOMS = ["north", "south", "west", "\U0001f680"]
FIXED = (MessageQueue("T", "north@a", 3), MessageQueue("T", "south@a", 1))


def nearby(inner: AllocationStrategy) -> AllocationStrategy:
    return MachineRoomNearby(
        inner, room_of_queue=lambda queue: machine_room_of(queue.broker_name), room_of_client=machine_room_of
    )


STRATEGIES: Mapping[str, AllocationStrategy] = {
    "average": average,
    "circle": average_by_circle,
    "hash": ConsistentHash(),
    "config": FixedQueues(FIXED),
    "room": MachineRoom(frozenset(ROOMS[:2])),
    "nearby-average": nearby(average),
    "nearby-circle": nearby(average_by_circle),
    "nearby-hash": nearby(ConsistentHash()),
}


def names(chance: random.Random, count: int) -> list[str]:
    """Names in a room, some with characters on whose order Java and Python differ."""
    tails = ["a", "b", "broker-c", "é", "\ue000", "\U0001f680", "10.0.0.1#7"]
    return list({f"{chance.choice(ROOMS)}@{chance.choice(tails)}{chance.randrange(30)}" for _ in range(count)})


def apaches_shares(
    java: Driver, strategy: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[list[MessageQueue]]:
    answer: Any = java.call(
        "shares",
        strategy=strategy,
        queues=[as_json(queue) for queue in queues],
        clients=clients,
        rooms=ROOMS[:2],
        fixed=[as_json(queue) for queue in FIXED],
    )
    shares = msgspec.convert(answer, list[list[Queue]])
    return [[MessageQueue(queue.topic, queue.broker, queue.queue_id) for queue in share] for share in shares]


def as_json(queue: MessageQueue) -> Queue:
    return Queue(queue.topic, queue.broker_name, queue.queue_id)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_member_gets_what_apaches_class_gives_it(java: Driver, name: str) -> None:
    chance = random.Random(name)
    for _ in range(ROUNDS):
        clients = names(chance, chance.randint(1, 9))
        brokers = names(chance, chance.randint(1, 5))
        queues = [MessageQueue("T", broker, number) for broker in brokers for number in range(chance.randint(1, 12))]
        chance.shuffle(queues)
        ours = [sorted_queues(share_of(client, queues, clients, strategy=STRATEGIES[name])) for client in clients]
        assert ours == apaches_shares(java, name, queues, clients)
