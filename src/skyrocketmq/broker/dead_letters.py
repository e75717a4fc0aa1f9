"""Dead letters: one a message and group, however often the message is given up.

A consumer that hears nothing of a message it has handed back hands it back again, or sends a copy of it; one that dies
before its offset is stored gives the message up once more when it is back; and several copies of one message may go
their ways at the same time. All of them end here, and the first makes the letter.

Rule 1: letters are looked up in the message index, by the unique id that all copies of a message keep: after a restart
too, and as long as the letter is kept. Only so many dead letters are written that this costs nothing.
Rule 2: a producer may send several messages under one unique id, and each of these has its letter. They are told apart
by the id of their first copy; where a client has left that out, by their bodies as they were sent. Only then bodies are
looked at, compressed ones inflated, in a thread and up to `INFLATED_BYTES_MAX`; beyond that other bytes are another
message.
Rule 3: a message without unique id, or a broker without index (messageIndexEnable), is known only while its letter is
among the latest `RECENT_COUNT_MAX`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage
from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import LogOffset, QueueOffset
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.numbers import INT64_MAX
from skyrocketmq.ports import Disk
from skyrocketmq.store import MessageStore, PutResult, PutStatus
from skyrocketmq.wire.compression import compression_type, decompress
from skyrocketmq.wire.records import scan_record

__all__ = ["DeadLetters"]

RECENT_COUNT_MAX: Final = 10_000  # above, the oldest are forgotten: the index has them
SAME_ID_COUNT_MAX: Final = 32  # letters with one unique id that are looked at
ID_BYTES_MAX: Final = 255  # no id that a client of the family gives is longer; such are not kept in memory
INFLATED_BYTES_MAX: Final = 4 * 1024 * 1024  # no producer of the family sends more, unless told to
DAY_MS: Final = 24 * 3600 * 1000
_UNIQ_KEY: Final = names.UNIQ_KEY.encode()
_RETRY_TOPIC: Final = names.RETRY_TOPIC.encode()
_ORIGIN_ID: Final = names.ORIGIN_MESSAGE_ID.encode()

Key = tuple[str, bytes, bytes]
"""The topic of the letters, the unique id of the message, and the topic it was sent to."""


@dataclass(slots=True)
class Letter:
    """What tells letters of one key apart, and where one is."""

    origin_id: bytes  # of the first copy; empty where it is not known
    place: PutResult
    content_hash: int | None = None  # None until it is needed

    def is_of(self, origin_id: bytes, content_hash: int | None) -> bool:
        if self.origin_id and origin_id:
            return self.origin_id == origin_id
        return self.content_hash == content_hash


class DeadLetters:
    """Writes the dead letters of all groups. The topic of a letter has to be there already."""

    def __init__(self, store: MessageStore, writer: MessageWriter, disk: Disk) -> None:
        self._store = store
        self._writer = writer
        self._disk = disk
        self._recent: dict[Key, list[Letter]] = {}

    async def put(self, message: OutgoingMessage) -> PutResult:
        """Store the letter; where the message has one already, nothing is stored, and that one's place is returned."""
        properties = message.properties
        unique_id = properties.get(_UNIQ_KEY) or properties.get(_ORIGIN_ID)
        key = (message.topic, unique_id or b"", properties.get(_RETRY_TOPIC, b""))
        origin_id = _origin_id(message)
        if not unique_id or max(len(unique_id), len(key[2]), len(origin_id)) > ID_BYTES_MAX:
            return self._writer.put(message)  # nothing tells it from another with the same body
        if key not in self._recent:
            self._remember(key, await self._stored(message, key))
        content_hash = await self._compared_hash(message, key, origin_id)
        # From here on nobody else writes: what another request wrote meanwhile is among the recent ones.
        for letter in self._recent.get(key, ()):
            if letter.is_of(origin_id, content_hash):
                return letter.place
        result = self._writer.put(message)
        if result.status.is_stored:
            letters = self._recent.setdefault(key, [])
            letters.append(Letter(origin_id, result, content_hash))
            del letters[:-SAME_ID_COUNT_MAX]
        return result

    def _remember(self, key: Key, letters: list[Letter]) -> None:
        if key in self._recent:
            return  # another request was first
        if len(self._recent) >= RECENT_COUNT_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[key] = letters

    async def _compared_hash(self, message: OutgoingMessage, key: Key, origin_id: bytes) -> int | None:
        """The hash of the message, once all letters that only this tells from it have theirs; None without such."""
        content_hash = None
        while True:  # others may write letters while this waits
            alike = [letter for letter in self._recent.get(key, ()) if not (letter.origin_id and origin_id)]
            unread = [letter for letter in alike if letter.content_hash is None]
            if not unread and (content_hash is not None or not alike):
                return content_hash
            if content_hash is None:
                content_hash = await self._content_hash(message)
            for letter in unread:
                record = await self._store.message_at(letter.place.log_offset)
                # One that is gone is like none.
                letter.content_hash = (
                    hash(("gone", letter.place.log_offset))
                    if record is None
                    else await self._content_hash(OutgoingMessage.copy_of(record))
                )

    async def _content_hash(self, message: OutgoingMessage) -> int:
        if message.sys_flag & BODY_COMPRESSED:
            return await self._disk.run(_inflated_hash, message.body, message.sys_flag)
        return hash(message.body)

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
                letters.append(Letter(_origin_id(letter), _place(record)))
        return letters


def _origin_id(message: OutgoingMessage) -> bytes:
    """The id of the first copy. Java's clients put the unique id there when they send a copy, which says nothing."""
    origin_id = message.properties.get(_ORIGIN_ID, b"")
    return b"" if origin_id == message.properties.get(_UNIQ_KEY) else origin_id


def _inflated_hash(body: bytes, sys_flag: int) -> int:
    """Of the body as it was sent: a client that sends a copy may compress it in another way."""
    try:
        return hash(decompress(body, compression_type(sys_flag), bytes_max=INFLATED_BYTES_MAX))
    except ProtocolError:
        return hash(body)  # whatever it is, it is the same only where the bytes are


def _place(record: bytes | memoryview) -> PutResult:
    scanned = scan_record(record, 0, len(record), check_crc=False)
    assert scanned is not None, "what was read as a message is one"
    return PutResult(
        PutStatus.PUT_OK, LogOffset(scanned.log_offset), QueueOffset(scanned.queue_offset), scanned.store_ms
    )
