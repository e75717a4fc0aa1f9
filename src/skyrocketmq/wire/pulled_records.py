"""The messages of a pull's answer, one by one.

Hot: every message that is consumed passes here. An answer holds records of one queue, so its topic and queue are known:
they are compared, not decoded. A record that is in any way uncommon (compressed, IPv6 hosts, another topic, damaged) is
left to `records.decode_record`, which knows all of it.

A few hundred kilobytes can inflate to gigabytes. Once the bodies of an answer have grown to `INFLATED_TOGETHER_MAX`,
the next compressed one raises `InflatedEnough`: the reader takes what it has, and asks for the rest again.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.message import MessageView
from skyrocketmq.model.queues import MessageQueue
from skyrocketmq.wire.properties import decode_properties
from skyrocketmq.wire.records import HEAD, HEAD_BYTES, decode_record

__all__ = ["InflatedEnough", "PulledRecords"]

IPV6_HOSTS: Final = 0x30
UNCOMMON: Final = IPV6_HOSTS | BODY_COMPRESSED
INFLATED_TOGETHER_MAX: Final = 67_108_864  # bytes of bodies: four of the largest that are inflated at all

_head = HEAD.unpack_from


class InflatedEnough(Exception):
    """The rest of an answer is not read, to bound memory; it begins at `queue_offset`."""

    def __init__(self, queue_offset: int) -> None:
        super().__init__(queue_offset)
        self.queue_offset = queue_offset


class PulledRecords:
    """Decodes the records of one answer, all of one queue."""

    __slots__ = ("_inflated_bytes", "_queue", "_topic_utf8")

    def __init__(self, queue: MessageQueue) -> None:
        self._queue = queue
        self._inflated_bytes = 0
        self._topic_utf8 = queue.topic.encode()

    def decode(self, data: bytes, at: int, end: int) -> MessageView:
        """The message of the record that begins and ends there, as `split_records` has found it.

        Raises `ProtocolError` if it cannot be read, `InflatedEnough` if it should not be now.
        """
        (
            total, _, crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_timestamp, born_host,
            store_timestamp, store_host, reconsume_times, prepared, body_length,
        ) = _head(data, at)  # fmt: skip
        queue, topic_utf8 = self._queue, self._topic_utf8
        body_at = at + HEAD_BYTES
        topic_at = body_at + body_length + 1
        topic_end = topic_at + len(topic_utf8)
        properties_at = topic_end + 2
        if (
            sys_flag & UNCOMMON
            or queue_id != queue.queue_id
            or body_length < 0
            or properties_at > end
            or data[topic_at - 1] != len(topic_utf8)
            or data[topic_at:topic_end] != topic_utf8
            or data[topic_end] & 0x80  # a length is a signed number
            or properties_at + ((data[topic_end] << 8) | data[topic_end + 1]) != end
        ):
            return self._decode_uncommon(data, at, end, sys_flag, queue_offset)
        # By position, in the order of the fields: by name, all sixteen of them, it takes five times as long.
        return MessageView(
            queue.topic, data[body_at : topic_at - 1], decode_properties(data[properties_at:end]), queue, queue_offset,
            log_offset, born_timestamp, born_host, store_timestamp, store_host, flag, sys_flag, reconsume_times,
            prepared, crc, total,
        )  # fmt: skip

    def _decode_uncommon(self, data: bytes, at: int, end: int, sys_flag: int, queue_offset: int) -> MessageView:
        if not sys_flag & BODY_COMPRESSED:
            return decode_record(data, at, end, broker_name=self._queue.broker_name)
        if self._inflated_bytes >= INFLATED_TOGETHER_MAX:
            raise InflatedEnough(queue_offset)
        message = decode_record(data, at, end, broker_name=self._queue.broker_name)
        self._inflated_bytes += len(message.body)
        return message
