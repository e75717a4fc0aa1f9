"""Queues for tests."""

from __future__ import annotations

from skyrocketmq.model import MessageQueue


def queues_of(*broker_names: str, each: int, topic: str = "T") -> list[MessageQueue]:
    """Queues 0, 1, ... of each broker, in their order."""
    return [MessageQueue(topic, name, queue_id) for name in broker_names for queue_id in range(each)]


def ids(queues: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in queues]
