"""What several of these tests use: fresh names, Apache's client as a reader, and waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count

import pytest

from skyrocketmq.client.send_result import SendResult
from skyrocketmq.model import MessageQueue
from tests.interop.clusters import BROKER_NAMES, Cluster
from tests.interop.driver import Driver, PullConsumer, Queue, Received
from tests.waiting import until as until
from tests.waiting import wait_until

QUEUES_A_BROKER = 4
COMPRESSED = 0x1  # a bit of a message's system flag

client_test = [pytest.mark.interop, pytest.mark.timeout(90, func_only=True)]

_numbers = count(1)


def fresh_name(kind: str) -> str:
    return f"{kind}{next(_numbers)}"


def fresh_group() -> str:
    return fresh_name("group-")


def queues_of(topic: str) -> set[MessageQueue]:
    """All queues of a topic that the fixture made."""
    return {MessageQueue(topic, broker, number) for broker in BROKER_NAMES for number in range(QUEUES_A_BROKER)}


def as_queue(queue: Queue | None) -> MessageQueue:
    """A queue as our client names it."""
    assert queue is not None
    return MessageQueue(queue.topic, queue.broker, queue.queue_id)


def as_javas(queue: MessageQueue) -> Queue:
    return Queue(queue.topic, queue.broker_name, queue.queue_id)


async def java_reads(java: Driver, cluster: Cluster, results: Iterable[SendResult]) -> list[Received]:
    """What Apache's client finds at the places that our producer was told, in their order."""

    def read() -> list[Received]:
        with java.pull_consumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
            return [_java_reads_one(consumer, as_javas(result.queue), result.queue_offset) for result in results]

    return await asyncio.to_thread(read)


def _java_reads_one(consumer: PullConsumer, queue: Queue, offset: int) -> Received:
    """Apache's broker shows a message to consumers a moment after it has acknowledged it."""
    found: list[Received] = []

    def is_shown() -> bool:
        found.extend(consumer.pull(queue, offset=offset, max_count=1).messages)
        return bool(found)

    wait_until(is_shown, timeout_s=10, what=f"a message at {offset} of {queue}")
    return found[0]
