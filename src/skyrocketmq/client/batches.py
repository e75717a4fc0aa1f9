"""Many messages as batches that brokers take. Pure.

    for part in split_batches(messages):
        await producer.send_batch(part)

Each part is stored whole or not at all, in one queue; parts may go to different queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from skyrocketmq.model import Message
from skyrocketmq.wire.batches import ENTRY_BYTES_MIN

__all__ = ["split_batches"]

BATCH_BYTES_MAX: Final = 1_000_000  # what Apache RocketMQ recommends; brokers take up to maxMessageSize, 4 MiB
UNIQUE_ID_BYTES: Final = 66  # its name, the longest id, two separators
SEPARATORS: Final = 2  # of each property


def split_batches(messages: Iterable[Message], *, bytes_max: int = BATCH_BYTES_MAX) -> Iterator[list[Message]]:
    """The messages in their order, in lists that `send_batch` takes: each of one topic, none longer than `bytes_max`.

    A message that is longer by itself has a list of its own. What no batch takes (a delayed message) `send_batch` says.
    """
    part: list[Message] = []
    part_bytes = 0
    for message in messages:
        message_bytes = _entry_bytes(message)
        if part and (part_bytes + message_bytes > bytes_max or not _belong_together(part[0], message)):
            yield part
            part, part_bytes = [], 0
        part.append(message)
        part_bytes += message_bytes
    if part:
        yield part


def _belong_together(first: Message, other: Message) -> bool:
    return first.topic == other.topic and first.wait_for_store == other.wait_for_store


def _entry_bytes(message: Message) -> int:
    """What the message takes in a batch, at most."""
    pairs = message.all_properties().items()
    properties_bytes = sum(len(name.encode()) + len(value.encode()) + SEPARATORS for name, value in pairs)
    return ENTRY_BYTES_MIN + len(message.body) + properties_bytes + UNIQUE_ID_BYTES
