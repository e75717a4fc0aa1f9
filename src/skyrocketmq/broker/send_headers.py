r"""Headers of plain sends, read in few steps.

A hot module: it trades objects for slices and dictionaries. What it does not recognise at once (None) takes the general
way, so it may be strict: it has to be right only about what it accepts.

JSON, however it is spaced and ordered, goes straight into a struct that has the needed fields only, with the numbers
read from text.

Binary headers of one producer differ little. What it repeats is looked up whole, and the parts between are cut out:

    | group, topic, defaults: `starts` | queue, system flag: `routes` | born time | flag | properties | rest: `ends` |

A header whose parts are not known is read field by field in the general way; then its parts are known (`learn`). Only
headers that are good in general become known: whatever the tables say, a header is answered as if they were empty. The
tables have one budget of bytes; when it is used up, all is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

import msgspec

from skyrocketmq.broker.send_topics import LEARNT_BYTES_MAX, SendQueue, SendShape, SendTopic
from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.store.learnt import LearntBudget
from skyrocketmq.wire.frames import RESPONSE_BIT, Encoding, Frame
from skyrocketmq.wire.headers_codec import Ext, decode_header
from skyrocketmq.wire.headers_send import SendMessageHeaderV2

__all__ = ["PlainSend", "SendHeaders"]

HEADER_BYTES_MAX: Final = 64 * 1024  # nothing is learnt from longer ones: properties alone may have half of that

_JSON_CODE: Final = b"310"  # what has it nowhere is no send; what has it elsewhere is read in vain
_BINARY_CODE: Final = b"\x01\x36"
_EXT_AT: Final = 21  # where the fields of a binary header without a remark begin
_UNQUEUED: Final = 0x4  # a system flag with this bit is part of a transaction, and never plain
_binary_head: Final = Struct(">5xiiii").unpack_from  # | code .. version | number | flag | remark length | ext length |
_value_bytes: Final = Struct(">i").unpack_from
_QUEUE_MARK: Final = b"\0\1e\0\0\0"
_BORN_MARK: Final = b"\0\1g\0\0\0\x0d"  # thirteen digits: until the year 2286
_BORN_END: Final = len(_BORN_MARK) + 13
_PROPERTIES_MARK: Final = b"\0\1i"
_PROPERTIES_HEAD: Final = 7
_LETTERS_BEFORE_REST: Final = list("abcdefghi")
_REST_FROM: Final = len(_LETTERS_BEFORE_REST)


PlainSend = tuple[SendQueue, SendShape, bytes, int, int, int, int, int, int]
"""(queue, shape, unique id, request number, flag of the frame, system flag, born time, user flag, reconsume times)"""


class _SendFields(msgspec.Struct, gc=False):
    """The fields of a send that matter once its topic is known; their names are the wire's."""

    b: str  # topic
    e: Int32  # queue id
    f: Int32  # system flag
    g: Int64  # born time
    h: Int32  # user flag
    d: Int32 = 0  # queues of a new topic: it only has to be a number
    i: str = ""  # properties
    j: Int32 = 0  # reconsume times
    l: Int32 = 0  # noqa: E741  # the wire's name; as d
    m: str = "false"  # batch


class _SendHeader(msgspec.Struct, gc=False):
    code: int
    opaque: Int32
    flag: Int32
    ext: _SendFields = msgspec.field(name="extFields")


_read_json: Final = msgspec.json.Decoder(_SendHeader, strict=False).decode


class SendHeaders:
    """The tables of one broker.

    `open_topic` is asked once for each topic that was sent to, and says whether plain sends may go there.
    """

    def __init__(self, open_topic: Callable[[str], SendTopic | None]) -> None:
        self._open_topic = open_topic
        self._topics: dict[str, SendTopic] = {}
        self._starts: dict[bytes, SendTopic] = {}
        self._ends: dict[bytes, int] = {}  # the rest of a header -> reconsume times
        self._flags: dict[bytes, int] = {}
        self._budget = LearntBudget(LEARNT_BYTES_MAX)

    def forget(self, topics: frozenset[str] | None = None) -> None:
        """Drop what was kept about some topics, or about all."""
        if topics is None:
            self._topics.clear()
            self._starts.clear()
            self._ends.clear()
            self._flags.clear()
            self._budget.reset()
        elif not topics.isdisjoint(self._topics):
            for topic in topics:
                self._topics.pop(topic, None)
            self._starts = {text: topic for text, topic in self._starts.items() if topic.name not in topics}

    def read_json(self, data: bytes, at: int, end: int) -> PlainSend | None:
        if data.find(_JSON_CODE, at, end) < 0:
            return None
        try:
            read = _read_json(data[at:end])
        except (ValueError, RecursionError):
            return None
        fields = read.ext
        topic = self._topics.get(fields.b)
        if topic is None or read.code != 310 or fields.m != "false" or read.flag & RESPONSE_BIT or fields.f & _UNQUEUED:
            return None
        queue = topic.find_queue(fields.e)
        if queue is None:
            return None
        shape, key = topic.shape(fields.i.encode("utf-8", "replace"))
        sys_flag = fields.f | topic.extra_sys_flag
        if self._budget.is_full:
            self.forget()
        return queue, shape, key, read.opaque, read.flag, sys_flag, fields.g, fields.h, fields.j

    def read_binary(self, data: bytes, at: int, end: int) -> PlainSend | None:
        if not data.startswith(_BINARY_CODE, at):
            return None
        fields_at = at + _EXT_AT
        queue_at = data.find(_QUEUE_MARK, fields_at, end)
        topic = self._starts.get(data[fields_at:queue_at])
        if topic is None:
            return None
        born_at = data.find(_BORN_MARK, queue_at, end)
        route = topic.routes.get(data[queue_at:born_at])
        if route is None or born_at < 0:
            return None
        flag_at = born_at + _BORN_END
        properties_at = data.find(_PROPERTIES_MARK, flag_at, end)
        flag = self._flags.get(data[flag_at:properties_at])
        if flag is None or not 0 <= properties_at <= end - _PROPERTIES_HEAD:
            return None
        opaque, frame_flag, remark_bytes, ext_bytes = _binary_head(data, at)
        (length,) = _value_bytes(data, properties_at + 3)
        properties_at += _PROPERTIES_HEAD
        rest_at = properties_at + length
        reconsumed = self._ends.get(data[rest_at:end])
        born = data[flag_at - 13 : flag_at]
        if (
            reconsumed is None
            or remark_bytes
            or not properties_at <= rest_at <= end
            or ext_bytes != end - fields_at
            or frame_flag & RESPONSE_BIT
            or not born.isdigit()
        ):
            return None
        shape, key = topic.shape(data[properties_at:rest_at])
        queue, sys_flag = route
        if self._budget.is_full:
            self.forget()
        return queue, shape, key, opaque, frame_flag, sys_flag, int(born), flag, reconsumed

    def learn(self, frame: Frame, data: bytes, at: int, end: int) -> None:
        """Remember the topic of a send that was handled in the general way, and the parts of its binary header."""
        ext = frame.ext
        if frame.code != 310 or not ext or (ext.get("m") or "false") != "false" or end - at > HEADER_BYTES_MAX:
            return
        topic = self.find_topic(ext.get("b") or "")
        if topic is not None and frame.encoding is Encoding.BINARY and frame.remark is None:
            self._learn_parts(topic, ext, data[at + _EXT_AT : end])
            if self._budget.is_full:
                self.forget()
                topic.routes.clear()
                self._learn_parts(topic, ext, data[at + _EXT_AT : end])

    def find_topic(self, name: str) -> SendTopic | None:
        """The topic, if sends to it need no decision."""
        topic = self._topics.get(name) or self._open_topic(name)
        if topic is not None:
            topic.budget = self._budget
            self._topics[name] = topic
        return topic

    def _learn_parts(self, topic: SendTopic, ext: Ext, fields: bytes) -> None:
        if list(ext)[:_REST_FROM] != _LETTERS_BEFORE_REST:
            return
        texts = [_field(letter, value) for letter, value in ext.items()]
        if b"".join(texts) != fields:
            return  # fields twice, or what is no UTF-8: what is looked up must be all there is
        try:
            header = decode_header(SendMessageHeaderV2, ext)
        except ProtocolError:
            return
        queue_id, sys_flag, flag = header.queue_id, header.sys_flag, header.flag
        if queue_id is None or sys_flag is None or flag is None or sys_flag & _UNQUEUED:
            return
        queue = topic.find_queue(queue_id)
        if queue is None:
            return
        start, rest = b"".join(texts[:4]), b"".join(texts[_REST_FROM:])
        if not self._budget.take(len(start) + len(texts[7]) + len(rest)):
            return
        self._starts[start] = topic
        topic.learn_route(texts[4] + texts[5], queue, sys_flag | topic.extra_sys_flag)
        self._flags[texts[7]] = flag
        self._ends[rest] = header.reconsume_times or 0


def _field(name: str, value: str | None) -> bytes:
    key, text = name.encode(), (value or "").encode("utf-8", "replace")
    return len(key).to_bytes(2, "big") + key + len(text).to_bytes(4, "big") + text
