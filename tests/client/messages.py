"""Received messages for tests."""

from __future__ import annotations

from skyrocketmq.model import LogOffset, MessageQueue, MessageView, QueueOffset

QUEUE = MessageQueue("T", "broker-a", 0)
HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


def view(queue_offset: int, body: bytes = b"x", *, queue: MessageQueue = QUEUE, **properties: str) -> MessageView:
    """A message as a pull brings it."""
    return MessageView(
        topic=queue.topic,
        body=body,
        properties=properties,
        queue=queue,
        queue_offset=QueueOffset(queue_offset),
        log_offset=LogOffset(queue_offset * 100),
        born_timestamp=1_000,
        born_host_packed=HOST,
        store_timestamp=1_001,
        store_host_packed=HOST,
    )


def views(*queue_offsets: int) -> list[MessageView]:
    return [view(queue_offset) for queue_offset in queue_offsets]


def offsets(messages: list[MessageView]) -> list[int]:
    return [message.queue_offset for message in messages]
