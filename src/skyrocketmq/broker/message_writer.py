"""Storing one message that the broker makes or changes itself: the general way into the store.

Sends that need a decision, messages that consumers hand back, delayed ones that are due: all become an
`OutgoingMessage` and pass here. Rule 1: properties are pairs of bytes until the very end, so that nothing a producer put
in is changed by decoding. Rule 2: a delay level sends the message to the schedule topic, with the way back in its
properties. Rule 3: the plain send path (`send`) and this one write the same bytes for the same message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import TransactionType, transaction_type
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.store import MessageStore
from skyrocketmq.store.appender import REFUSED
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.record_shape import RecordShape
from skyrocketmq.store.statuses import PutStatus

__all__ = ["MessageWriter", "OutgoingMessage", "Stored", "delay_level_of"]

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

    @property
    def waits(self) -> bool:
        """Whether its sender wants to hear only after flush and replication; it does unless it says otherwise."""
        return self.properties.get(_WAIT, b"true").lower() == b"true"


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a message: the places where `status.is_stored`, else a remark for its sender."""

    status: PutStatus
    log_offset: int = -1
    queue_offset: int = -1
    end_offset: int = -1  # where its record, or the last of its batch, ends in the log
    remark: str = ""


class MessageWriter:
    """Puts single messages into the store, each with a commit of its own."""

    def __init__(self, store: MessageStore, *, delay_levels_ms: tuple[int, ...]) -> None:
        self._store = store
        self._delay_levels_ms = delay_levels_ms

    def put(self, message: OutgoingMessage) -> Stored:
        """Store the message now; flushing and replicating are the caller's to wait for."""
        properties = dict(message.properties)
        topic, queue_id = message.topic, message.queue_id
        level = delay_level_of(properties)
        if level > 0 and transaction_type(message.sys_flag) in _DELAYABLE:
            level = min(level, len(self._delay_levels_ms))
            properties[_DELAY] = b"%d" % level
            properties[_REAL_TOPIC] = topic.encode()
            properties[_REAL_QUEUE_ID] = b"%d" % queue_id
            topic, queue_id = SCHEDULE_TOPIC, level - 1
        else:
            properties.pop(_WAIT, None)
        appender = self._store.appender
        if not appender.begin():
            return self._refused()
        text = b"\x02".join([b"%b\x01%b" % pair for pair in properties.items()])
        shape, key = RecordShape.of(TopicKeys(topic), text, delay_levels_ms=self._delay_levels_ms)
        queue = self._store.queue(topic, queue_id)
        queue_offset = queue.next_offset
        log_offset = appender.add_special(
            queue,
            shape,
            key,
            message.body,
            message.flag,
            message.sys_flag,
            message.born_ms,
            message.born_host,
            message.reconsume_times,
            message.prepared_offset,
            message.store_host,
        )
        if log_offset == REFUSED or not appender.commit():
            return self._refused()
        return Stored(PutStatus.PUT_OK, log_offset, queue_offset, int(self._store.log.max_offset))

    def _refused(self) -> Stored:
        refusal = self._store.appender.refusal
        assert refusal is not None, "whoever refuses says why"
        return Stored(refusal.status, remark=refusal.remark)


def delay_level_of(properties: dict[bytes, bytes]) -> int:
    """The delay level that properties ask for; 0 where they ask for none, or for nonsense."""
    text = properties.get(_DELAY, b"")
    return int(text) if text.isdigit() and len(text) < 10 else 0
