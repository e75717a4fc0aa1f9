"""A producer's part of a send: the request into bytes, and the answers out of them.

Cost (`python -m benchmarks hot`): compiled 0.3 us a request of 1 KB and 0.3 us an answer, in plain Python 1.3 and 2.

Rule 1: a request is byte for byte what `wire.frames.encode_frame` writes. What all messages to a queue have in common
        comes from there too, in three pieces: see `client.outgoing`.
Rule 2: only the usual answer is read here: stored, its header in JSON and ASCII without escapes, no remark, no body.
        Whatever else comes is left to the caller, and so is everything after it.
"""

from __future__ import annotations

from struct import Struct
from typing import Annotated, Final, TypeAlias

import msgspec

from skyrocketmq.errors import FrameTooLarge
from skyrocketmq.hot.layout import FRAME_BYTES_MAX, FRAME_HEADER_AT, FRAME_LENGTH_BYTES, FRAME_LENGTH_MAX

__all__ = ["encode_send", "read_send_answers"]

SendAnswer: TypeAlias = tuple[int, str, int, int, str | None, str | None, bool]
"""(request number, message id, queue id, queue offset, transaction id, region, whether to trace)"""

RESPONSE_BIT: Final = 1
QUEUE_ID_MAX: Final = 0x7FFF_FFFF
QUEUE_OFFSET_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
NUMBER_DIGITS_MAX: Final = 19
_start = Struct(">II")  # | length | header word |
_to_json = msgspec.json.Encoder().encode


def encode_send(
    head: bytes,
    tail: bytes,
    end: bytes,
    opaque: int,
    sys_flag: int,
    born_ms: int,
    flag: int,
    properties: str,
    body: bytes,
) -> bytes:
    """The request that sends a message. Its header is written as `head`, the fields f to i, `tail`, the request number,
    `end`. Half a surrogate pair in the properties becomes a question mark. Raises `FrameTooLarge`."""
    try:
        text = _to_json(properties)
    except UnicodeEncodeError:
        text = _to_json(properties.encode("utf-8", "replace").decode())
    header = b'%b"f":"%d","g":"%d","h":"%d","i":%b%b%d%b' % (head, sys_flag, born_ms, flag, text, tail, opaque, end)
    size = FRAME_HEADER_AT + len(header) + len(body)
    if size > FRAME_BYTES_MAX:
        raise FrameTooLarge(f"a frame of {size} bytes, the limit is {FRAME_BYTES_MAX}")
    return _start.pack(size - FRAME_LENGTH_BYTES, len(header)) + header + body


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _Header(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    code: _Int32
    flag: _Int32
    opaque: _Int32
    ext_fields: dict[str, str]
    language: str = ""
    version: _Int32 = 0
    remark: None = None
    encoding: str = msgspec.field(name="serializeTypeCurrentRPC", default="")


_read_header = msgspec.json.Decoder(_Header).decode


def read_send_answers(data: bytes) -> tuple[list[SendAnswer], int]:
    """The answers at the beginning of a buffer, and where the first frame begins that is not a usual one."""
    answers: list[SendAnswer] = []
    at = 0
    while len(data) - at > FRAME_HEADER_AT:
        length, word = _start.unpack_from(data, at)
        stop = at + FRAME_LENGTH_BYTES + length
        # A header word that is this length says: JSON, and no body.
        if length > FRAME_LENGTH_MAX or stop > len(data) or word != length - FRAME_LENGTH_BYTES:
            break
        answer = _read_answer(data[at + FRAME_HEADER_AT : stop])
        if answer is None:
            break
        answers.append(answer)
        at = stop
    return answers, at


def _read_answer(text: bytes) -> SendAnswer | None:
    if not text.isascii() or b"\\" in text:
        return None
    try:
        header = _read_header(text)
    except msgspec.DecodeError:
        return None
    find = header.ext_fields.get
    msg_id = find("msgId")
    queue_id = _number(find("queueId", ""), QUEUE_ID_MAX)
    queue_offset = _number(find("queueOffset", ""), QUEUE_OFFSET_MAX)
    if header.code or not header.flag & RESPONSE_BIT or msg_id is None or queue_id is None or queue_offset is None:
        return None
    trace_on = find("TRACE_ON") != "false"
    return header.opaque, msg_id, queue_id, queue_offset, find("transactionId"), find("MSG_REGION"), trace_on


def _number(text: str, highest: int) -> int | None:
    if not text.isdigit() or len(text) > NUMBER_DIGITS_MAX or int(text) > highest:
        return None
    return int(text)
