"""What a route means to a producer and to a consumer. Pure.

Rule 1: a producer writes to queues that have the write permission and whose broker has a master.
Rule 2: a consumer reads from queues that have the read permission; a slave is enough.
Rule 3: a route is what somebody said: whatever its numbers are, no more queues are made of it than a client can hold.
Rule 4: an ordered topic (`broker-a:4;broker-b:4`) has exactly the queues that its setting names, for producers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice

import msgspec

from skyrocketmq.model import MASTER_ID, QUEUE_COUNT_MAX, MessageQueue, QueueData, TopicRoute
from skyrocketmq.model.names import PERM_READ, PERM_WRITE

__all__ = [
    "Addresses",
    "addresses_of",
    "is_same_route",
    "pull_address",
    "readable_queues",
    "template_route",
    "vip_address",
    "writable_queues",
]

Addresses = Mapping[int, str]  # of one broker name, by broker id

VIP_PORT_STEP = 2
TOPIC_QUEUES_MAX = 4 * QUEUE_COUNT_MAX
_WHOLE_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def writable_queues(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    """The queues that a producer may choose from, in their order."""
    if route.order_topic_conf:
        return _ordered_queues(topic, route.order_topic_conf)
    with_master = {broker.broker_name for broker in route.broker_datas if broker.master_address}
    return _queues(
        topic,
        (
            (data.broker_name, data.write_queue_nums)
            for data in sorted(route.queue_datas, key=_broker_name)
            if data.perm & PERM_WRITE and data.broker_name in with_master
        ),
    )


def _ordered_queues(topic: str, setting: str) -> tuple[MessageQueue, ...]:
    parts = (part.rpartition(":") for part in setting.split(";"))
    counts = ((name, int(number)) for name, _, number in parts if name and _WHOLE_NUMBER.fullmatch(number))
    return _queues(topic, counts)


def readable_queues(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    """The queues that the consumers of a group divide."""
    readable = (data for data in sorted(route.queue_datas, key=_broker_name) if data.perm & PERM_READ)
    return _queues(topic, ((data.broker_name, data.read_queue_nums) for data in readable))


def _queues(topic: str, counts: Iterable[tuple[str, int]]) -> tuple[MessageQueue, ...]:
    """The queues of a topic by broker name; a broker has at most `QUEUE_COUNT_MAX`, a topic `TOPIC_QUEUES_MAX`."""
    queues = (
        MessageQueue(topic, broker_name, queue_id)
        for broker_name, count in counts
        for queue_id in range(min(count, QUEUE_COUNT_MAX))
    )
    return tuple(islice(queues, TOPIC_QUEUES_MAX))


def _broker_name(data: QueueData) -> str:
    return data.broker_name


def template_route(template: TopicRoute, *, queue_nums: int) -> TopicRoute:
    """The route that a topic will have once the first message has created it from the template."""
    return TopicRoute(
        broker_datas=template.broker_datas,
        queue_datas=[
            msgspec.structs.replace(
                data,
                read_queue_nums=min(queue_nums, data.read_queue_nums),
                write_queue_nums=min(queue_nums, data.read_queue_nums),
            )
            for data in template.queue_datas
        ],
    )


def is_same_route(one: TopicRoute, other: TopicRoute) -> bool:
    """Whether two routes say the same; the order of their lists does not matter."""
    return (
        one.order_topic_conf == other.order_topic_conf
        and sorted(one.queue_datas, key=_broker_name) == sorted(other.queue_datas, key=_broker_name)
        and addresses_of(one) == addresses_of(other)
    )


def addresses_of(route: TopicRoute) -> dict[str, dict[int, str]]:
    """The brokers of a route: their addresses by id, by broker name."""
    return {broker.broker_name: broker.broker_addrs for broker in route.broker_datas if broker.broker_addrs}


def pull_address(addresses: Addresses, suggested_id: int) -> tuple[str, bool] | None:
    """Where to pull from, and whether that is a slave: the suggested broker, else the slave after it, else any."""
    for broker_id in (suggested_id, suggested_id + 1 if suggested_id != MASTER_ID else suggested_id, *addresses):
        if broker_id in addresses:
            return addresses[broker_id], broker_id != MASTER_ID
    return None


def vip_address(address: str) -> str:
    """The second port of a broker, for requests that must not wait for the crowd's."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - VIP_PORT_STEP}"
