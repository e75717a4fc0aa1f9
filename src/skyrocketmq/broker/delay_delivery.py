"""Bringing delayed messages that are due to the queues they were sent to.

A module with a hot loop: a hundred thousand messages may fall due in one second. What they share (target queue, shape
of the record) is worked out once and looked up; the rest of a message is copied; all of a look are one write. What is
not plain (hosts of IPv6, a store with extension files) takes a longer way.

Rule 1: the copy has body, properties, birth, flags and store host of the original. Its properties still say how it was
delayed and where it belongs, as the family leaves them. New are its offsets and its store time.
Rule 2: nobody waits for the flush or a slave's copy of a delivery.
Rule 3: a message was accepted when it was sent: a limit that was lowered since does not keep it back. Only what cannot
be delivered at all is stepped over, and that is an error in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from skyrocketmq.broker.delay_reading import DueMessage
from skyrocketmq.errors import MQError, ProtocolError
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import BORN_HOST_V6, STORE_HOST_V6
from skyrocketmq.model.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from skyrocketmq.store import REFUSED, Buffer, ConsumeQueue, MessageStore, PutStatus, RecordShape, Refusal
from skyrocketmq.store.learnt import Learnt
from skyrocketmq.store.record_shape import split_unique_key
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.properties import find_property
from skyrocketmq.wire.records import HEAD, HEAD_BYTES, HEADS, MESSAGE_MAGIC, scan_record

__all__ = ["DelayedCopies", "Delivered"]

logger = logging.getLogger(__name__)

QUEUE_ID_MAX: Final = 2**31 - 1
_REAL_TOPIC: Final = names.REAL_TOPIC.encode()
_REAL_QUEUE_ID: Final = names.REAL_QUEUE_ID.encode()
_NOWHERE: Final = -1
_TOPIC_PART: Final = bytes([len(SCHEDULE_TOPIC)]) + SCHEDULE_TOPIC.encode()
_TOPIC_PART_BYTES: Final = len(_TOPIC_PART) + 2  # with the length of the properties
_PLAIN_BYTES_MIN: Final = HEAD_BYTES + _TOPIC_PART_BYTES
_HOSTS_V6: Final = BORN_HOST_V6 | STORE_HOST_V6
unpack_head: Final = HEAD.unpack_from
_NEVER_STORED: Final = frozenset({PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED})


@dataclass(frozen=True, slots=True)
class Delivered:
    """How far a delivery came: `count` messages are done with; `refusal` says why not all."""

    count: int
    refusal: Refusal | None = None


class _Target(NamedTuple):
    queue: ConsumeQueue
    shape: RecordShape


_Copy: TypeAlias = tuple[Callable[..., int], tuple[Any, ...], int, tuple[bytes, int] | None]
"""What adds a message to the store, with which arguments, how long its body is, and `Appender.store_as` for it."""


class DelayedCopies:
    """Puts the messages of a look into the store, in their order."""

    def __init__(self, store: MessageStore, *, store_host: bytes) -> None:
        self._store = store
        self._usual = (store_host, 0)  # this broker stored the message, and nobody has consumed it yet
        self._targets: Learnt[tuple[bytes, int, bytes], _Target] = Learnt()

    def deliver(self, due: Sequence[DueMessage]) -> Delivered:
        """Store copies of these messages, as one write. Those behind the first that the store refuses are not stored.

        Nothing is awaited: when this returns, the messages are in the log, and whoever waits for them has been woken.
        """
        copies = [(offset, self._copy(offset, record)) for offset, record in due]
        appender = self._store.appender
        if not (appender.settle() and appender.begin()):
            return Delivered(0, appender.refusal)
        limit = self._store.config.message_bytes_max
        largest = max([copy[2] for _, copy in copies if copy is not None], default=0)
        if largest <= limit:
            return self._append(copies)
        appender.set_message_bytes_max(largest)
        try:
            return self._append(copies)
        finally:
            appender.set_message_bytes_max(limit)

    def _append(self, copies: Sequence[tuple[int, _Copy | None]]) -> Delivered:
        appender = self._store.appender
        places: list[int] = []  # in the log, of each message that is done with
        refusal: Refusal | None = None
        stored_as = self._usual
        for offset, copy in copies:
            if copy is None:
                places.append(_NOWHERE)
                continue
            add, arguments, _, origin = copy
            if origin is not None and origin != stored_as:
                appender.store_as(*origin)
                stored_as = origin
            place = add(*arguments)
            if place == REFUSED:
                refusal = appender.refusal
                assert refusal is not None, "whoever refuses says why"
                if refusal.status not in _NEVER_STORED:
                    break
                _cannot_deliver(offset, refusal.remark)
                refusal = None
            places.append(place)
        if appender.commit():
            return Delivered(len(places), refusal)
        failed_from = int(appender.failed_from)
        stored = next((number for number, place in enumerate(places) if place >= failed_from), len(places))
        return Delivered(stored, appender.refusal)

    # ---------------------------------------------------------------------------------------------------- reading

    def _copy(self, offset: int, record: Buffer) -> _Copy | None:
        """What is to be stored; None for a message that cannot be delivered."""
        try:
            return self._read_plain(record) or self._read(record)
        except MQError as error:
            _cannot_deliver(offset, str(error))
            return None

    def _read_plain(self, record: Buffer) -> _Copy | None:
        """A message of the common kind, in few steps; None if it is not that, or not sound."""
        size = len(record)
        if size < _PLAIN_BYTES_MIN:
            return None
        total, magic, crc, _, flag, _, _, sys_flag, born_ms, born_host, _, store_host, reconsumed, _, body_bytes = (
            unpack_head(record)
        )
        topic_at = HEAD_BYTES + body_bytes
        properties_at = topic_at + _TOPIC_PART_BYTES
        if (
            magic != MESSAGE_MAGIC
            or total != size
            or sys_flag & _HOSTS_V6
            or not topic_at >= HEAD_BYTES
            or properties_at > size
        ):
            return None
        body = bytes(record[HEAD_BYTES:topic_at])
        rest = bytes(record[topic_at:])
        # A body that has rotted on the disk would get a new checksum and pass for good: it is checked here.
        if body_crc(body) != crc or not rest.startswith(_TOPIC_PART) or _length_at(rest) != size - properties_at:
            return None
        before, key, after = split_unique_key(rest[_TOPIC_PART_BYTES:])
        queue, shape = self._targets.get((before, len(key), after)) or self._learn(before, key, after)
        appender, origin = self._store.appender, (store_host, reconsumed)
        if origin != self._usual and not appender.is_quick(shape, sys_flag, body_bytes):
            return None
        return appender.add, (queue, shape, key, body, flag, sys_flag, born_ms, born_host, 0, crc), body_bytes, origin

    def _read(self, record: Buffer) -> _Copy:
        """Any message. Raises `ProtocolError` for what is none, and for a body that has rotted."""
        scanned = scan_record(record, 0, len(record))
        if scanned is None:
            raise ProtocolError("its place in the log is the end of a file")
        sys_flag, properties = scanned[5], scanned[8]
        head = HEADS[(sys_flag >> 4) & 3]
        _, _, _, _, flag, _, _, _, born_ms, born_host, _, store_host, reconsumed, _, body_bytes = head.unpack_from(
            record
        )
        before, key, after = split_unique_key(properties)
        queue, shape = self._targets.get((before, len(key), after)) or self._learn(before, key, after)
        body = bytes(record[head.size : head.size + body_bytes])
        usual = (queue, shape, key, body, flag, sys_flag, born_ms, born_host, reconsumed)
        return self._store.appender.add_special, (*usual, 0, store_host), body_bytes, None

    def _learn(self, before: bytes, key: bytes, after: bytes) -> _Target:
        properties = b"%b%b%b" % (before, key, after)
        topic = (find_property(properties, _REAL_TOPIC) or b"").decode("utf-8", "replace")
        number = find_property(properties, _REAL_QUEUE_ID) or b""
        queue_id = int(number) if number.isdigit() and len(number) <= 10 else -1
        if not topic or not 0 <= queue_id <= QUEUE_ID_MAX:
            raise ProtocolError(f"its properties do not say where it belongs: topic {topic!r}, queue {number!r}")
        if topic == TRANSACTION_HALF_TOPIC:
            raise ProtocolError("it belongs to no consumer: a half message is never delayed")
        target = _Target(self._store.queue(topic, queue_id), self._store.shape(topic, before, key, after))
        self._targets.learn((before, len(key), after), target, text_bytes=len(before) + len(after))
        return target


def _length_at(rest: bytes) -> int:
    """The length of the properties, which stands right behind the topic."""
    return rest[_TOPIC_PART_BYTES - 2] << 8 | rest[_TOPIC_PART_BYTES - 1]


def _cannot_deliver(offset: int, reason: str) -> None:
    logger.error("delayed message cannot be delivered, stepped over", extra={"offset": offset, "reason": reason})
