"""Dead letters: one a message and group, however often the message is given up.

A consumer that hears nothing of a message it has handed back hands it back again, or sends a copy of it; one that dies
before its offset is stored gives the message up once more when it is back; and several copies of one message may go
their ways at the same time. All of them end here, and the first makes the letter.

Rule 1: letters are looked up in the message index, by the unique id that all copies of a message keep: after a restart
too, and as long as the letter is kept. Only so many dead letters are written that this costs nothing.
Rule 2: a producer may send several messages under one unique id, and each of these has its letter. They are told apart
by the id of their first copy; where a client has left that out, by their bodies.
Rule 3: a message without unique id, or a broker without index (messageIndexEnable), is known only while its letter is
among the latest `RECENT_COUNT_MAX`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage
from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import LogOffset, QueueOffset
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.numbers import INT64_MAX
from skyrocketmq.store import MessageStore, PutResult, PutStatus
from skyrocketmq.wire.compression import compression_type, decompress
from skyrocketmq.wire.records import scan_record

__all__ = ["DeadLetters"]

RECENT_COUNT_MAX: Final = 10_000  # above, the oldest are forgotten: the index has them
SAME_ID_COUNT_MAX: Final = 32  # letters with one unique id that are looked at
DAY_MS: Final = 24 * 3600 * 1000
_UNIQ_KEY: Final = names.UNIQ_KEY.encode()
_RETRY_TOPIC: Final = names.RETRY_TOPIC.encode()
_ORIGIN_ID: Final = names.ORIGIN_MESSAGE_ID.encode()

Key = tuple[str, bytes, bytes]
"""The topic of the letters, the unique id of the message, and the topic it was sent to."""


class Letter(NamedTuple):
    """What tells letters of one key apart, and where one is."""

    origin_id: bytes  # of the first copy; empty where it is not known
    content_hash: int
    place: PutResult

    def is_of(self, origin_id: bytes, content_hash: int) -> bool:
        if self.origin_id and origin_id:
            return self.origin_id == origin_id
        return self.content_hash == content_hash


class DeadLetters:
    """Writes the dead letters of all groups. The topic of a letter has to be there already."""

    def __init__(self, store: MessageStore, writer: MessageWriter) -> None:
        self._store = store
        self._writer = writer
        self._recent: dict[Key, list[Letter]] = {}

    async def put(self, message: OutgoingMessage) -> PutResult:
        """Store the letter; where the message has one already, nothing is stored, and that one's place is returned."""
        properties = message.properties
        unique_id = properties.get(_UNIQ_KEY) or properties.get(_ORIGIN_ID)
        if not unique_id:
            return self._writer.put(message)  # nothing tells it from another with the same body
        key = (message.topic, unique_id, properties.get(_RETRY_TOPIC, b""))
        origin_id, content_hash = _origin_id(message), _content_hash(message)
        stored: list[Letter] = [] if key in self._recent else await self._stored(message, key)
        # What is written meanwhile by another request is among the recent ones.
        for letter in [*self._recent.get(key, []), *stored]:
            if letter.is_of(origin_id, content_hash):
                return letter.place
        result = self._writer.put(message)
        if result.status.is_stored:
            self._remember(key, [*stored, Letter(origin_id, content_hash, result)])
        return result

    def _remember(self, key: Key, letters: list[Letter]) -> None:
        if len(self._recent) >= RECENT_COUNT_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent.setdefault(key, []).extend(letters)

    async def _stored(self, message: OutgoingMessage, key: Key) -> list[Letter]:
        """The letters of this key that the index knows."""
        topic, unique_id, first_topic = key
        if not self._store.max_offset(topic, 0):
            return []
        found = await self._store.query(
            topic,
            unique_id.decode("utf-8", "replace"),
            count_max=SAME_ID_COUNT_MAX,
            # A copy that a client sends is younger than the message, and the clocks of the two may differ.
            begin_ms=max(0, message.born_ms - DAY_MS),
            end_ms=INT64_MAX,
        )
        letters = []
        for record in found.records:
            letter = OutgoingMessage.copy_of(record)
            of = letter.properties
            if (letter.topic, of.get(_UNIQ_KEY), of.get(_RETRY_TOPIC, b"")) == (topic, unique_id, first_topic):
                letters.append(Letter(_origin_id(letter), _content_hash(letter), _place(record)))
        return letters


def _origin_id(message: OutgoingMessage) -> bytes:
    """The id of the first copy. Java's clients put the unique id there when they send a copy, which says nothing."""
    origin_id = message.properties.get(_ORIGIN_ID, b"")
    return b"" if origin_id == message.properties.get(_UNIQ_KEY) else origin_id


def _content_hash(message: OutgoingMessage) -> int:
    """Of the body as it was sent: a client that sends a copy may compress it in another way."""
    if message.sys_flag & BODY_COMPRESSED:
        try:
            return hash(decompress(message.body, compression_type(message.sys_flag)))
        except ProtocolError:
            pass  # whatever it is, it is the same only where the bytes are
    return hash(message.body)


def _place(record: bytes | memoryview) -> PutResult:
    scanned = scan_record(record, 0, len(record), check_crc=False)
    assert scanned is not None, "what was read as a message is one"
    _, _, _, queue_offset, log_offset, _, store_ms, _, _ = scanned
    return PutResult(PutStatus.PUT_OK, LogOffset(log_offset), QueueOffset(queue_offset), store_ms)
