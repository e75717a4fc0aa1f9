"""The messages of a pull's answer.

Common records are read many at a time (`hot.records`). An answer holds records of one queue, so its topic and queue are
known: they are compared, not decoded. Properties are left as they are stored, for a `MessageView` decodes them when it
is asked. A record that is in any way uncommon (compressed, IPv6 hosts, another topic, damaged) is left to
`records.decode_record`, which knows all of it.

A few hundred kilobytes can inflate to gigabytes. Once the bodies of an answer have grown to `INFLATED_TOGETHER_MAX`,
the next compressed one ends the reading: the reader takes what it has, and asks for the rest again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot import read_pulled, split_records
from skyrocketmq.hot.layout import RECORD_BYTES_MIN, RECORD_MAGIC
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.message import MessageView
from skyrocketmq.model.tables import MessageQueue
from skyrocketmq.wire.properties import decode_properties
from skyrocketmq.wire.records import decode_record, queue_offset_of, sizes_at, sys_flag_of

__all__ = ["PulledRecords"]

INFLATED_TOGETHER_MAX: Final = 67_108_864  # bytes of bodies: four of the largest that are inflated at all

_view: Final[Callable[..., MessageView]] = MessageView  # with the text of the properties in the place of the dict


class PulledRecords:
    """Reads one answer, of one queue. Every message gets the `added` properties (their text) besides its own;
    `on_unreadable` is called with the place of a record that is stepped over, and what is wrong with it."""

    __slots__ = ("_added", "_inflated_bytes", "_on_unreadable", "_queue")

    def __init__(
        self, queue: MessageQueue, *, added: bytes, on_unreadable: Callable[[int, ProtocolError], object]
    ) -> None:
        self._queue = queue
        self._added = b"\x02" + added  # two separators, where the text has one at its end, are as good as one
        self._on_unreadable = on_unreadable
        self._inflated_bytes = 0

    def read(self, data: bytes) -> tuple[list[MessageView], int | None]:
        """All messages; and the queue offset from which on it was not read, to bound memory.

        Raises `ProtocolError` if the records do not follow each other up to the end.
        """
        queue = self._queue
        topic = queue.topic.encode()
        messages: list[MessageView] = []
        at, stop = 0, len(data)
        while at < stop:
            rows, at = read_pulled(
                data, at, stored_topic=topic, queue_id=queue.queue_id, topic=queue.topic, queue=queue, added=self._added
            )
            messages += [_view(*row) for row in rows]
            if at == stop:
                break
            total, magic = sizes_at(data, at) if stop - at >= RECORD_BYTES_MIN else (0, 0)
            if magic != RECORD_MAGIC or not RECORD_BYTES_MIN <= total <= stop - at:
                split_records(data, at)  # raises
            is_compressed = bool(sys_flag_of(data, at) & BODY_COMPRESSED)
            if not self._read_uncommon(messages, data, at, at + total, is_compressed=is_compressed):
                return messages, queue_offset_of(data, at)
            at += total
        return messages, None

    def _read_uncommon(
        self, messages: list[MessageView], data: bytes, at: int, end: int, *, is_compressed: bool
    ) -> bool:
        """Add the message of the record there, if it can be read; False if that would take too much memory now."""
        if is_compressed and self._inflated_bytes >= INFLATED_TOGETHER_MAX:
            return False
        try:
            message = decode_record(data, at, end, broker_name=self._queue.broker_name)
        except ProtocolError as error:
            self._on_unreadable(at, error)
            return True
        if is_compressed:
            self._inflated_bytes += len(message.body)
        message.properties.update(decode_properties(self._added))
        messages.append(message)
        return True
