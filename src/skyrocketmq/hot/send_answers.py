"""Answers to sends that are stored, written from their tickets.

Cost: 0.1 us an answer compiled, 1.5 us in plain Python (`python -m benchmarks hot`).

Rule 1: an answer has the encoding of its request, and the bytes that `wire.frames.encode_frame` would write.
Rule 2: the code is that of all of them: success, or how safe they are not yet. A send that is not stored is answered in
the general way.
"""

from __future__ import annotations

from struct import Struct

from skyrocketmq.hot.layout import BINARY_BYTES_MIN, FRAME_HEADER_AT, FRAME_LENGTH_BYTES, HEADER_BINARY, TICKET_BINARY

__all__ = ["SendAnswers"]

_TICKET = Struct(">iBiqq")
_START = Struct(">II")  # | length | header word |
_BINARY_HEAD = Struct(">hBhiiii")  # | code | language | version | number | flag | remark length | ext length |
_RESPONSE_BIT = 1


class SendAnswers:
    """What all answers of one broker have in common: where it stores, and what it tells producers about tracing."""

    def __init__(self, *, host_id: bytes, region: bytes, region_json: bytes, trace_on: bytes, version: int) -> None:
        """`host_id` is the part of a message's id that names this broker, `region_json` the region as a JSON text."""
        self._json = (
            b',"extFields":{"MSG_REGION":%b,"TRACE_ON":"%b","msgId":"%b' % (region_json, trace_on, host_id),
            b'","queueId":"',
            b'","queueOffset":"',
            b'"},"flag":1,"language":"PYTHON","opaque":',
            b',"serializeTypeCurrentRPC":"JSON","version":%d}' % version,
        )
        id_bytes = len(host_id) + 16
        self._fields = _field(b"MSG_REGION", region) + _field(b"TRACE_ON", trace_on)
        self._fields += _name(b"msgId") + id_bytes.to_bytes(4, "big") + host_id
        self._version = version

    def write(self, tickets: bytes, code: int, language: int) -> bytes:
        """The answers to the sends of these tickets, one after the other."""
        answers: list[bytes] = []
        for opaque, kind, queue_id, queue_offset, log_offset in _TICKET.iter_unpack(tickets):
            if kind & TICKET_BINARY:
                fields = b"%b%016X" % (self._fields, log_offset)
                fields += _field(b"queueId", b"%d" % queue_id) + _field(b"queueOffset", b"%d" % queue_offset)
                head = _BINARY_HEAD.pack(code, language, self._version, opaque, _RESPONSE_BIT, 0, len(fields))
                header, word = head + fields, HEADER_BINARY << 24
            else:
                start, to_queue, to_offset, to_opaque, end = self._json
                header = b'{"code":%d%b%016X%b%d%b%d%b%d%b' % (
                    code, start, log_offset, to_queue, queue_id, to_offset, queue_offset, to_opaque, opaque, end
                )  # fmt: skip
                word = 0
            length = FRAME_HEADER_AT - FRAME_LENGTH_BYTES + len(header)
            answers += (_START.pack(length, word | len(header)), header)
        return b"".join(answers)


def _name(name: bytes) -> bytes:
    return len(name).to_bytes(2, "big") + name


def _field(name: bytes, value: bytes) -> bytes:
    return _name(name) + len(value).to_bytes(4, "big") + value


assert _BINARY_HEAD.size == BINARY_BYTES_MIN
