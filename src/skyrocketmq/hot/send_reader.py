r"""Ordinary sends out of received bytes into a batch, in one pass from front to back.

Cost: 1.0 us a message of 1 KB compiled, record and answer included; 15 us in plain Python (`python -m benchmarks hot`).

    reader.topics[b"TopicTest"] = SendTopic(queues)
    at = reader.take(data, at, batch, born_host)      # `stop` says why it went no farther
    tickets = reader.take_tickets()                   # one for each send that wants an answer
    send_answers.write(tickets, code)                 # once they are stored

Rule 1: a send is ordinary if its message only has to be stored: request code 310, a topic and a queue that the caller
has opened, numbers that are numbers, a body within the limit, and properties that ask the broker for nothing. Anything
else stops the reader with `OTHER` and is left to the general way, untouched. So the reader may be strict, but has to be
right about what it takes: the general way would store the same bytes and give the same answer.
Rule 2: headers are read in any order and spacing, and nothing is kept of what clients send.
Rule 3: WAIT is for the broker and is not stored; CLUSTER is the broker's own and is stored last.
"""

from __future__ import annotations

from struct import Struct
from typing import Annotated, Final

import msgspec

from skyrocketmq.hot.layout import (
    BINARY_BYTES_MIN,
    FRAME_HEADER_AT,
    FRAME_LENGTH_BYTES,
    FRAME_LENGTH_MAX,
    HEADER_BINARY,
    HEADER_LENGTH_MASK,
    RECORD_UNQUEUED,
    TICKET_BINARY,
    TICKET_HASTY,
)
from skyrocketmq.hot.record_batch import FULL, QueueTail, RecordBatch

__all__ = ["SendReader", "SendTopic"]

END: Final = 0  # no complete frame is left
OTHER: Final = 1  # a frame that is no ordinary send begins here
NO_ROOM: Final = 2  # the next record, of `needed` bytes, does not fit in this file of the log
UNKNOWN: Final = 3  # a queue that the caller may open: `unknown_topic`, `unknown_queue`
ENOUGH: Final = 4  # so much was taken that others should have their turn

SENDS_AT_ONCE: Final = 1_024
KEYS_AT_ONCE: Final = 2_048
SEND_CODE: Final = 310
RESPONSE_BIT: Final = 1
ONEWAY_BIT: Final = 2

# Properties that ask the broker for something.
DECIDED: Final = frozenset({b"DELAY", b"TRAN_MSG", b"INNER_MULTI_DISPATCH", b"CLUSTER"})

_PLACE = Struct(">II")
_BINARY_HEAD = Struct(">h3xiiii")  # | code | language, version | number | flag | remark length | ext length |
_TICKET = Struct(">iBiqq")

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class SendTopic:
    """A topic that ordinary sends may go to; its queues by their numbers, None for those nobody has opened yet."""

    __slots__ = ("extra_sys_flag", "queues")

    def __init__(self, queue_count: int, extra_sys_flag: int = 0) -> None:
        self.extra_sys_flag = extra_sys_flag
        self.queues: list[QueueTail | None] = [None] * queue_count


class _Fields(msgspec.Struct, gc=False):
    """The fields of a send, by the letters that the wire has for them; the others are not needed."""

    b: str  # topic
    e: Int32  # queue id
    f: Int32  # system flag
    g: Int64  # born time
    h: Int32  # flag
    d: Int32 | None = None  # queues of a new topic: it only has to be a number
    i: str | None = None  # properties
    j: Int32 | None = None  # reconsume times
    l: Int32 | None = None  # noqa: E741  # consume retries: as d
    m: str | None = None  # batch


class _JsonHeader(msgspec.Struct, gc=False):
    code: Int32
    opaque: Int32
    flag: Int32
    fields: _Fields = msgspec.field(name="extFields")


_read_json = msgspec.json.Decoder(_JsonHeader, strict=False).decode


class SendReader:
    """The reader of one broker. `topics` is the caller's to fill, and to empty when a topic changes."""

    def __init__(self, *, cluster: bytes, store_host: bytes, body_bytes_max: int) -> None:
        self.topics: dict[bytes, SendTopic] = {}
        self.cluster = cluster
        self.store_host = store_host
        self.body_bytes_max = body_bytes_max
        self.stop = END
        self.needed = 0
        self.unknown_topic = b""
        self.unknown_queue = 0
        self.has_hasty = False  # among the tickets is one of a sender who does not wait
        self._tickets: list[bytes] = []

    def take(self, data: bytes, at: int, batch: RecordBatch, born_host: bytes, only_one: bool = False) -> int:
        """Add the ordinary sends that stand in `data` from `at` on; returns where it stopped, and `stop` says why."""
        count_max, keys_max = batch.count + SENDS_AT_ONCE, batch.key_count + KEYS_AT_ONCE
        while len(data) - at >= FRAME_HEADER_AT:
            length, word = _PLACE.unpack_from(data, at)
            body_at = at + FRAME_HEADER_AT + (word & HEADER_LENGTH_MASK)
            end = at + FRAME_LENGTH_BYTES + length
            if not at + FRAME_HEADER_AT < body_at <= end or length > FRAME_LENGTH_MAX or word >> 24 > HEADER_BINARY:
                return self._stop(OTHER, at)
            if end > len(data):
                break
            if batch.count >= count_max or batch.key_count > keys_max:
                return self._stop(ENOUGH, at)
            why = self._add(data, at + FRAME_HEADER_AT, body_at, end, bool(word >> 24), batch, born_host)
            if why != END:
                return self._stop(why, at)
            at = end
            if only_one:
                break
        return self._stop(END, at)

    def take_tickets(self) -> bytes:
        """The tickets of all sends since they were last taken."""
        tickets = b"".join(self._tickets)
        self._tickets.clear()
        self.has_hasty = False
        return tickets

    def _stop(self, why: int, at: int) -> int:
        self.stop = why
        return at

    def _add(
        self, data: bytes, at: int, body_at: int, end: int, is_binary: bool, batch: RecordBatch, born_host: bytes
    ) -> int:
        """Add one send; `END`, or why not."""
        try:
            header = _read_binary(data, at, body_at) if is_binary else _read_json(data[at:body_at])
        except (ValueError, RecursionError):
            return OTHER
        fields = header.fields
        topic = self.topics.get(fields.b.encode("utf-8", "replace"))
        if header.code != SEND_CODE or header.flag & RESPONSE_BIT or (fields.m or "false") != "false":
            return OTHER
        if fields.f & RECORD_UNQUEUED or end - body_at > self.body_bytes_max:
            return OTHER
        queue_id = fields.e
        queue = None if topic is None or not 0 <= queue_id < len(topic.queues) else topic.queues[queue_id]
        if topic is None or queue is None:
            self.unknown_topic, self.unknown_queue = fields.b.encode("utf-8", "replace"), queue_id
            return UNKNOWN
        stored = _stored_properties((fields.i or "").encode("utf-8", "replace"), self.cluster)
        if stored is None:
            return OTHER
        properties, waits = stored
        queue_offset = queue.next_offset
        position = batch.position
        log_offset = batch.add(
            queue,
            properties,
            data[body_at:end],
            fields.h,
            fields.f | topic.extra_sys_flag,
            fields.g,
            born_host,
            self.store_host,
            fields.j or 0,
        )
        if log_offset == FULL:
            self.needed = end - body_at + len(properties) + 512  # a record's head, its hosts and its topic take less
            return NO_ROOM
        if log_offset < 0:
            return OTHER
        assert log_offset == position, "records lie one after the other"
        if not header.flag & ONEWAY_BIT:
            kind = TICKET_BINARY * is_binary | TICKET_HASTY * (not waits)
            self.has_hasty = self.has_hasty or not waits
            self._tickets.append(_TICKET.pack(header.opaque, kind, queue_id, queue_offset, log_offset))
        return END


def _read_binary(data: bytes, at: int, end: int) -> _JsonHeader:
    """A binary header, as a JSON one is read. Raises `ValueError` for anything unusual."""
    if end - at < BINARY_BYTES_MIN:
        raise ValueError("too short")
    code, opaque, flag, remark_bytes, ext_bytes = _BINARY_HEAD.unpack_from(data, at)
    at += BINARY_BYTES_MIN
    if code != SEND_CODE or remark_bytes or ext_bytes != end - at:
        raise ValueError("no ordinary send")
    fields: dict[str, str] = {}
    while at < end:
        name_end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        value_at = name_end + 4
        value_end = value_at + int.from_bytes(data[name_end:value_at], "big")
        if value_end > end:
            raise ValueError("an entry that leads out of its header")
        if value_end > value_at:  # an empty value counts as none
            fields[data[at + 2 : name_end].decode()] = data[value_at:value_end].decode()
        else:
            fields.pop(data[at + 2 : name_end].decode(), None)
        at = value_end
    return _JsonHeader(code, opaque, flag, msgspec.convert(fields, _Fields, strict=False))


def _stored_properties(properties: bytes, cluster: bytes) -> tuple[bytes, bool] | None:
    """The properties of the record, and whether the sender waits for disk and slaves; None if they need a decision."""
    pairs = {}
    for pair in properties.split(b"\x02"):
        name, _, value = pair.partition(b"\x01")
        if name and value:
            pairs[name] = value
    if not pairs.keys().isdisjoint(DECIDED):
        return None
    waits = pairs.pop(b"WAIT", b"true").lower() == b"true"
    pairs[b"CLUSTER"] = cluster
    return b"\x02".join([b"%b\x01%b" % pair for pair in pairs.items()]), waits
