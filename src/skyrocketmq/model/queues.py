"""A queue of a topic: the unit in which messages are ordered, balanced among consumers, and locked."""

from __future__ import annotations

import msgspec

from skyrocketmq.model.numbers import Int32

__all__ = ["MessageQueue"]


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """One queue of a topic on one broker. Queues sort by topic, broker and number: every consumer of a group has to
    see them in the same order to arrive at the same share."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int32 = 0

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
