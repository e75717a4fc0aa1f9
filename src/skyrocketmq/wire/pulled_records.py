"""The messages of a pull's answer.

Hot: every message that is consumed passes here, in one loop with no call of ours for a message. An answer holds records
of one queue, so its topic and queue are known: they are compared, not decoded. Properties are left as they are stored,
for a `MessageView` decodes them when it is asked. A record that is in any way uncommon (compressed, IPv6 hosts, another
topic, damaged) is left to `records.decode_record`, which knows all of it.

A few hundred kilobytes can inflate to gigabytes. Once the bodies of an answer have grown to `INFLATED_TOGETHER_MAX`,
the next compressed one ends the reading: the reader takes what it has, and asks for the rest again.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.message import MessageView
from skyrocketmq.model.queues import MessageQueue
from skyrocketmq.wire.properties import decode_properties
from skyrocketmq.wire.records import HEAD, HEAD_BYTES, MESSAGE_MAGIC, RECORD_BYTES_MIN, decode_record, split_records

__all__ = ["PulledRecords"]

IPV6_HOSTS: Final = 0x30
UNCOMMON: Final = IPV6_HOSTS | BODY_COMPRESSED
INFLATED_TOGETHER_MAX: Final = 67_108_864  # bytes of bodies: four of the largest that are inflated at all

_head = HEAD.unpack_from
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
        queue, added = self._queue, self._added
        topic, queue_id = queue.topic, queue.queue_id
        topic_utf8 = topic.encode()
        stored_topic = bytes((min(len(topic_utf8), 255),)) + topic_utf8  # | length 1 B | topic |
        topic_and_length = Struct(f">{len(stored_topic)}sh")  # what stands before the properties: their length, signed
        topic_and_length_bytes = topic_and_length.size
        topic_and_length_at = topic_and_length.unpack_from
        messages: list[MessageView] = []
        append = messages.append
        at, stop = 0, len(data)
        while at < stop:
            if stop - at < RECORD_BYTES_MIN:
                break
            (
                total, magic, crc, record_queue_id, flag, queue_offset, log_offset, sys_flag, born_timestamp, born_host,
                store_timestamp, store_host, reconsume_times, prepared, body_length,
            ) = _head(data, at)  # fmt: skip
            end = at + total
            if magic != MESSAGE_MAGIC or total < RECORD_BYTES_MIN or end > stop:
                break
            body_at = at + HEAD_BYTES
            topic_at = body_at + body_length
            properties_at = topic_at + topic_and_length_bytes
            if (
                sys_flag & UNCOMMON
                or record_queue_id != queue_id
                or body_length < 0
                or properties_at > end
                or topic_and_length_at(data, topic_at) != (stored_topic, end - properties_at)
            ):
                if not self._read_uncommon(messages, data, at, end, is_compressed=bool(sys_flag & BODY_COMPRESSED)):
                    return messages, queue_offset
            else:
                # By position, in the order of the fields: by name, all sixteen of them, it takes five times as long.
                append(_view(
                    topic, data[body_at:topic_at], data[properties_at:end] + added, queue, queue_offset, log_offset,
                    born_timestamp, born_host, store_timestamp, store_host, flag, sys_flag, reconsume_times, prepared,
                    crc, total,
                ))  # fmt: skip
            at = end
        if at < stop:
            split_records(data, at)  # raises
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
