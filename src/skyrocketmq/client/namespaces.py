"""Names as users know them, and names on the wire: a namespace makes the difference; without one they are the same."""

from __future__ import annotations

from collections.abc import Iterable

from skyrocketmq.model import MessageQueue
from skyrocketmq.model.names import with_namespace, without_namespace

__all__ = ["Namespace"]


class Namespace:
    """Puts a namespace before names, and takes it off again."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def wrap(self, topic_or_group: str) -> str:
        return with_namespace(topic_or_group, namespace=self.name) if self.name else topic_or_group

    def unwrap(self, topic_or_group: str) -> str:
        return without_namespace(topic_or_group, namespace=self.name) if self.name else topic_or_group

    def wrap_queue(self, queue: MessageQueue) -> MessageQueue:
        if not self.name:
            return queue
        return MessageQueue(self.wrap(queue.topic), queue.broker_name, queue.queue_id)

    def unwrap_queue(self, queue: MessageQueue) -> MessageQueue:
        if not self.name:
            return queue
        return MessageQueue(self.unwrap(queue.topic), queue.broker_name, queue.queue_id)

    def unwrap_queues(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        return [self.unwrap_queue(queue) for queue in queues]
