"""Storing one message that the broker makes or changes itself: the general way into the store.

Sends that need a decision, messages that consumers hand back, the broker's own: all become an `OutgoingMessage` and
pass here. (Delayed messages that are due are copied as they are, many at once: `delay_delivery`.)

Rule 1: properties are pairs of bytes until the very end, so that nothing of what a producer put in is changed by
decoding.
Rule 2: a delay level sends the message to the schedule topic, the way back in its properties, and wakes that level.
Rule 3: the plain send path (`send`) and this one write the same for the same message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import TransactionType, transaction_type
from skyrocketmq.model.names import SCHEDULE_TOPIC, check_topic
from skyrocketmq.store import MessageStore, NewMessage, PutResult, PutStatus
from skyrocketmq.store.new_message import read_stored
from skyrocketmq.wire.batches import BatchEntry
from skyrocketmq.wire.properties import split_properties

__all__ = ["MessageWriter", "OutgoingMessage", "delay_level_of", "properties_text"]

_WAIT: Final = names.WAIT.encode()
_DELAY: Final = names.DELAY.encode()
_REAL_TOPIC: Final = names.REAL_TOPIC.encode()
_REAL_QUEUE_ID: Final = names.REAL_QUEUE_ID.encode()
_DELAYABLE: Final = (TransactionType.NONE, TransactionType.COMMIT)


@dataclass(slots=True, kw_only=True)
class OutgoingMessage:
    """A message on its way into the store. Hosts are packed; without `store_host` it is this broker's."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[bytes, bytes]
    born_ms: int
    born_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0
    store_host: bytes | None = None
    is_sent: bool = False  # by a client: its wish to wait is for the broker, and is not stored with the message

    @classmethod
    def copy_of(cls, record: bytes | memoryview) -> OutgoingMessage:
        """A message with everything that a stored record says; `ProtocolError` if it is none."""
        message, _, _ = read_stored(record, check_crc=False)
        return cls(
            topic=message.topic,
            queue_id=message.queue_id,
            body=message.body,
            properties=split_properties(message.properties),
            born_ms=message.born_timestamp,
            born_host=message.born_host,
            flag=message.flag,
            sys_flag=message.sys_flag,
            reconsume_times=message.reconsume_times,
            prepared_offset=message.prepared_transaction_offset,
            store_host=message.store_host,
        )

    @property
    def waits(self) -> bool:
        """Whether its sender wants to hear only after flush and replication; it does unless it says otherwise."""
        return self.properties.get(_WAIT, b"true").lower() == b"true"


class MessageWriter:
    """Puts messages into the store, each call with a commit of its own.

    `on_delayed` is called with the level of each delayed message that was stored.
    """

    def __init__(self, store: MessageStore, *, on_delayed: Callable[[int], object] | None = None) -> None:
        self._store = store
        self._on_delayed = on_delayed

    def put(self, message: OutgoingMessage) -> PutResult:
        """Store the message now; flushing and replicating are the caller's to wait for."""
        properties = dict(message.properties)
        topic, queue_id = message.topic, message.queue_id
        level = min(delay_level_of(properties), len(self._store.config.delay_levels_ms))
        if level > 0 and transaction_type(message.sys_flag) in _DELAYABLE:
            try:
                check_topic(topic)  # later there would be nobody left to tell
            except IllegalArgument as error:
                return PutResult(PutStatus.MESSAGE_ILLEGAL, remark=str(error))
            properties[_DELAY] = b"%d" % level
            properties[_REAL_TOPIC] = topic.encode()
            properties[_REAL_QUEUE_ID] = b"%d" % queue_id
            topic, queue_id = SCHEDULE_TOPIC, level - 1
        else:
            level = 0
            if message.is_sent:
                properties.pop(_WAIT, None)
        result = self._store.put(_new_message(message, topic, queue_id, properties_text(properties)))
        if level and self._on_delayed is not None and result.status.is_stored:
            self._on_delayed(level)
        return result

    def put_batch(self, batch: OutgoingMessage, entries: Sequence[BatchEntry]) -> tuple[PutResult, list[int]]:
        """Store the messages of a batch, all or none, one after the other in its queue.

        Returns how it ended, with the place of the first, and the log offsets of all.
        """
        common = _new_message(batch, batch.topic, batch.queue_id, properties_text(batch.properties))
        return self._store.put_batch(common, entries)


def _new_message(message: OutgoingMessage, topic: str, queue_id: int, properties: bytes) -> NewMessage:
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties=properties,
        born_timestamp=message.born_ms,
        born_host=message.born_host,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_offset,
        store_host=message.store_host,
    )


def properties_text(properties: dict[bytes, bytes]) -> bytes:
    """The text of a record for these pairs."""
    return b"\x02".join([b"%b\x01%b" % pair for pair in properties.items()])


def delay_level_of(properties: dict[bytes, bytes]) -> int:
    """The delay level that properties ask for; 0 where they ask for none, or for nonsense."""
    text = properties.get(_DELAY, b"")
    return int(text) if text.isdigit() and len(text) < 10 else 0
