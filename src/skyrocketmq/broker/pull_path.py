"""The common pull: nothing filtered, messages in memory, an answer at once.

A hot module: a consumer that keeps up, or catches up, sends hardly anything else. Such a pull is answered from the
received bytes to the parts of its answer, with neither a frame nor a table of fields made on the way.

Rule: this decides nothing of its own. Whatever is not common (a refusal, a filter, nothing there, messages on disk)
is left to `PullHandler`, which looks at the same request from the beginning; so nothing is changed here before it is
sure that the answer is given here.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

import msgspec

from skyrocketmq.broker.pull import PullHandler
from skyrocketmq.errors import BrokerError
from skyrocketmq.model.numbers import Int32
from skyrocketmq.net.outbox import Part
from skyrocketmq.wire.codes import VERSION_4_9_7, RequestCode
from skyrocketmq.wire.frames import FRAME_BYTES_MAX
from skyrocketmq.wire.headers_pull import PullMessageHeader

__all__ = ["PullPath"]

_JSON_START: Final = b'{"code":%d,' % RequestCode.PULL_MESSAGE  # how Java's clients begin; others take the other way
_start: Final = Struct(">ii").pack  # | length | header word |
_ANSWER: Final = (
    b'{"code":0,"extFields":{"suggestWhichBrokerId":"%%d","nextBeginOffset":"%%d","minOffset":"%%d","maxOffset":"%%d"},'
    b'"flag":1,"language":"PYTHON","opaque":%%d,"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":%d}'
    % VERSION_4_9_7
)


class _PullRequest(msgspec.Struct, gc=False):
    opaque: Int32
    flag: Int32
    ext: PullMessageHeader = msgspec.field(name="extFields")


_read: Final = msgspec.json.Decoder(_PullRequest, strict=False).decode


class PullPath:
    """Answers what is common."""

    def __init__(self, handler: PullHandler) -> None:
        self._handler = handler

    def answer_json(self, data: bytes, at: int, end: int) -> Sequence[Part] | None:
        """The parts of the answer to the pull whose header is in these bytes; None if it is no common pull."""
        if not data.startswith(_JSON_START, at):
            return None
        try:
            request = _read(data[at:end])
        except (ValueError, RecursionError):
            return None
        if request.flag:
            return None
        try:
            found = self._handler.pull_at_once(request.ext)
        except BrokerError:
            return None
        if found is None:
            return None
        result, suggested_broker = found
        text = _ANSWER % (
            suggested_broker,
            result.next_offset,
            result.min_offset,
            result.max_offset,
            request.opaque,
        )
        length = 4 + len(text) + result.byte_count
        if length > FRAME_BYTES_MAX:
            return None
        return _start(length, len(text)) + text, *result.parts
