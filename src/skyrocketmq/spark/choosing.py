"""Which queue a message of a writing task goes to: the one that is named, that of its key, or the next in turn.

Queues are looked up once a topic. Rule: a broker that was lost gets no new request for a while, as long as there are
others; what has its queue for good goes there all the same.
"""

from __future__ import annotations

import random
from typing import Final

from skyrocketmq.client.selectors import select_by_hash
from skyrocketmq.errors import MQError, NetError, NoRoute
from skyrocketmq.model import Message, MessageQueue
from skyrocketmq.ports import SystemClock
from skyrocketmq.spark.cluster import Cluster

__all__ = ["QueueChoice", "WriteFailed"]

AVOID_S: Final = 30.0  # every request to a broker that is away costs a pause, or a time-out


class WriteFailed(MQError):
    """A task gave up. What it had written before stays written."""


class QueueChoice:
    """One task's choice among the queues of its topics. Raises `WriteFailed` where there is none."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clock = SystemClock()
        self._queues: dict[str, list[MessageQueue]] = {}
        self._turn = random.SystemRandom().getrandbits(16)
        self._avoided: dict[str, float] = {}  # brokers that were lost, and until when no new request goes to them

    def fixed(self, message: Message, sharding_key: str | None, target_queue: str | None) -> MessageQueue | None:
        """The queue that is a message's for good, if it has one."""
        if target_queue is not None:
            return self._named(message.topic, target_queue)
        if sharding_key is not None:
            return select_by_hash(self._queues_of(message.topic), message, sharding_key)
        return None

    def next(self, topic: str) -> MessageQueue:
        """One for messages that may be in any."""
        queues = self._queues_of(topic)
        if self._avoided:
            now = self._clock.monotonic()
            queues = [queue for queue in queues if self._avoided.get(queue.broker_name, 0.0) <= now] or queues
        self._turn += 1
        return queues[self._turn % len(queues)]

    def instead_of(self, queue: MessageQueue) -> MessageQueue:
        """A queue of another broker, as they are now; the same one if there is none."""
        try:
            queues = self._cluster.writable_queues(queue.topic)
        except (NetError, NoRoute):
            return queue  # nobody is there now; the same broker may be back at the next attempt
        others = [other for other in queues if other.broker_name != queue.broker_name]
        return others[self._turn % len(others)] if others else queue

    def avoid(self, broker: str) -> None:
        """It was lost."""
        self._avoided[broker] = self._clock.monotonic() + AVOID_S

    def _queues_of(self, topic: str) -> list[MessageQueue]:
        if topic not in self._queues:
            try:
                self._queues[topic] = self._cluster.writable_queues(topic)
            except NoRoute as error:
                raise WriteFailed(f"nothing can be written: {error}") from error
            if not self._queues[topic]:
                del self._queues[topic]
                raise WriteFailed(f"topic {topic} has no queue that can be written to now")
        return self._queues[topic]

    def _named(self, topic: str, name: str) -> MessageQueue:
        broker, _, number = name.rpartition(":")
        for queue in self._queues_of(topic):
            if queue.broker_name == broker and str(queue.queue_id) == number:
                return queue
        raise WriteFailed(
            f"topic {topic} has no queue {name} that can be written to now: there are "
            f"{', '.join(f'{queue.broker_name}:{queue.queue_id}' for queue in self._queues_of(topic))}"
        )
