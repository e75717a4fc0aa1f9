"""The common pull: of all messages or of those that an SQL92 expression wants, all in memory, an answer at once.

A hot module: a consumer that keeps up, or catches up, sends hardly anything else. Such a pull is answered from the
received bytes to the parts of its answer, with neither a frame nor a table of fields made on the way.

Rule: this decides nothing of its own. Whatever is not common (a refusal, tags, nothing there, messages on disk) is left
to `PullHandler`, which looks at the same request from the beginning; so nothing is changed here before it is sure that
the answer is given here.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from skyrocketmq.broker.pull import PullHandler
from skyrocketmq.errors import BrokerError
from skyrocketmq.model.numbers import Int32
from skyrocketmq.net import Connection
from skyrocketmq.net.dispatch import REPLY_BYTES_TOGETHER_MAX
from skyrocketmq.net.outbox import Part
from skyrocketmq.store.statuses import GetStatus
from skyrocketmq.wire.codes import VERSION_4_9_7, RequestCode, ResponseCode
from skyrocketmq.wire.frames import FRAME_BYTES_MAX
from skyrocketmq.wire.headers_pull import PullMessageHeader

__all__ = ["PullPath", "is_pull"]

_JSON_START: Final = b'{"code":%d,' % RequestCode.PULL_MESSAGE  # how Java's clients begin; others take the other way
_HEADER_AT: Final = 8  # behind the length and the header word
_start: Final = Struct(">ii").pack
_read_start: Final = Struct(">II").unpack_from
_ANSWER: Final = (
    b'{"code":%%d,"extFields":{"suggestWhichBrokerId":"%%d","nextBeginOffset":"%%d","minOffset":"%%d","maxOffset":"%%d"},'
    b'"flag":1,"language":"PYTHON","opaque":%%d,"remark":"%%b","serializeTypeCurrentRPC":"JSON","version":%d}'
    % VERSION_4_9_7
)


class _PullRequest(msgspec.Struct, gc=False):
    opaque: Int32
    flag: Int32
    ext: PullMessageHeader = msgspec.field(name="extFields")


_FOUND: Final = (int(ResponseCode.SUCCESS), b"FOUND")
_NO_MATCH: Final = (int(ResponseCode.PULL_RETRY_IMMEDIATELY), GetStatus.NO_MATCHED_MESSAGE.name.encode())
_read: Final = msgspec.json.Decoder(_PullRequest, strict=False).decode


def is_pull(data: bytes, at: int) -> bool:
    """Whether the frame that begins here is a pull as Java's clients write it."""
    return data.startswith(_JSON_START, at + _HEADER_AT)


class PullPath:
    """Answers what is common."""

    def __init__(self, handler: PullHandler) -> None:
        self._handler = handler

    def feed(self, data: bytes, connection: Connection) -> tuple[int, list[Part]]:
        """Answer the common pulls that a buffer begins with: the bytes used, and the parts of the answers."""
        parts: list[Part] = []
        at = part_bytes = 0
        while data.startswith(_JSON_START, at + _HEADER_AT):
            length, word = _read_start(data, at)
            end = at + 4 + length
            if end > len(data) or end != at + _HEADER_AT + word:  # it has no body
                break
            answered_bytes = self.answer(data[at + _HEADER_AT : end], parts)
            if not answered_bytes:
                break
            at = end
            part_bytes += answered_bytes
            if part_bytes > REPLY_BYTES_TOGETHER_MAX or connection.is_turn_over():
                break
        return at, parts

    def answer(self, header: bytes, parts: list[Part]) -> int:
        """Add the answer to the parts, and tell its size; 0 if this is no common pull."""
        try:
            request = _read(header)
            found = None if request.flag else self._handler.pull_at_once(request.ext)
        except (ValueError, RecursionError, BrokerError):
            return 0
        if found is None:
            return 0
        result, suggested_broker = found
        code, remark = _FOUND if result.count else _NO_MATCH
        text = _ANSWER % (
            code,
            suggested_broker,
            result.next_offset,
            result.min_offset,
            result.max_offset,
            request.opaque,
            remark,
        )
        length = 4 + len(text) + result.byte_count
        if length > FRAME_BYTES_MAX:
            return 0
        parts.append(_start(length, len(text)) + text)
        parts += result.parts
        return length
