r"""What sends to a topic have in common, worked out once: its queues, its answers, the shapes of its messages.

A hot module's data: the send path looks here for every message. Rule 1: a topic is here only if plain sends to it need
no decision: it exists, clients may send to it, and it is no retry topic. Everything else takes the general way.
Rule 2: whatever is kept here follows from the topic table and the configuration. When either changes, it is dropped.
Rule 3: what clients send is kept within a budget of bytes, which all topics share; nothing long is kept.
Rule 4: producers repeat themselves but for the unique id, and often the keys, of a message. Properties that differ in
nothing else share a shape:

    UNIQ_KEY \x01 <32 characters> <after>
    KEYS \x01 <keys> \x02 UNIQ_KEY \x01 <32 characters> <after>          the order in which Java's clients write them
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

import msgspec

from skyrocketmq.model import TopicConfig, TopicFilterType
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import MULTI_TAGS
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.learnt import LearntBudget
from skyrocketmq.store.record_shape import KEYS_MAX, RecordShape, split_unique_key
from skyrocketmq.wire.codes import VERSION_4_9_7, Language
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.properties import split_properties

__all__ = ["AnswerTexts", "SendQueue", "SendShape", "SendTopic"]

LEARNT_BYTES_MAX: Final = 32 * 1024 * 1024  # kept in all tables of the send path; above, they are learnt again
UNIQUE_ID_BYTES: Final = 32

_UNIQ_MARK: Final = names.UNIQ_KEY.encode() + b"\x01"
_KEYS_MARK: Final = names.KEYS.encode() + b"\x01"
_KEY_AT: Final = len(_UNIQ_MARK)
_KEY_END: Final = _KEY_AT + UNIQUE_ID_BYTES
_CLUSTER: Final = names.CLUSTER.encode()
_WAIT: Final = names.WAIT.encode()
_DELAY: Final = names.DELAY.encode()
_TRAN_MSG: Final = names.TRAN_MSG.encode()
_MULTI_DISPATCH: Final = names.INNER_MULTI_DISPATCH.encode()
_BINARY_WORD: Final = 0x01000000
_answer_start: Final = Struct(">iIhBh").pack  # | length | header word | code | language | version |
_json_start: Final = Struct(">ii").pack  # | length | header word |
_number: Final = Struct(">i").pack
_answer_rest: Final = Struct(">iii").pack  # | flag | remark length | ext length |
_BINARY_HEADER_BYTES: Final = 21


class SendShape(RecordShape):
    """A record's shape, and what the properties ask of the broker. A `is_plain` message needs nothing but storing."""

    __slots__ = ("is_plain", "waits")

    is_plain: bool
    waits: bool  # for flush and replication, unless the producer says otherwise

    @classmethod
    def make(cls, topic: TopicKeys, properties: bytes, *, cluster: bytes) -> tuple[SendShape, bytes]:
        """The shape of what is stored for these properties: without WAIT, with CLUSTER, the unique id in front."""
        pairs = split_properties(properties)
        waits = pairs.pop(_WAIT, b"true").lower() == b"true"
        key = pairs.pop(_UNIQ_MARK[:-1], b"")
        pairs[_CLUSTER] = cluster
        rest = b"\x02".join([b"%b\x01%b" % pair for pair in pairs.items()])
        shape = cls(topic, _UNIQ_MARK if key else b"", key, b"\x02" + rest if key else rest)
        shape.waits = waits
        shape.is_plain = shape.refusal is None and pairs.keys().isdisjoint((_DELAY, _TRAN_MSG, _MULTI_DISPATCH))
        return shape, key

    def with_keys(self, keys: bytes) -> SendShape:
        """The same with these KEYS in front: a cheap copy, for producers that give each message a key of its own."""
        before = b"%b%b\x02%b" % (_KEYS_MARK, keys, _UNIQ_MARK)
        properties_bytes = len(before) + UNIQUE_ID_BYTES + len(self.after)
        topic = self.topic.topic.encode()
        copy = SendShape.__new__(SendShape)
        copy.topic = self.topic
        copy.before = before
        copy.after = self.after
        copy.fixed_bytes = self.fixed_bytes + len(before) - len(self.before)
        copy.middle = b"%c%b%b%b" % (len(topic), topic, (properties_bytes & 0x7FFF).to_bytes(2, "big"), before)
        copy.tags_code = self.tags_code
        copy.keys = tuple([key for key in keys.split(b" ") if key])
        copy.delay_ms = None
        copy.refusal = None
        copy.has_nul = self.has_nul or b"\0" in keys
        copy.is_special = copy.has_nul
        copy.waits = self.waits
        copy.is_plain = properties_bytes < 0x8000 and len(copy.keys) <= KEYS_MAX
        return copy


class AnswerTexts:
    """The constant parts of all answers to sends: where this broker stores, and what it tells about tracing."""

    def __init__(self, *, store_host: bytes, region: str, trace_on: bool) -> None:
        self.store_host = store_host.hex().upper().encode()
        self.region = region.encode("utf-8", "replace")
        self.region_json = msgspec.json.encode(self.region.decode())
        self.trace_on = b"true" if trace_on else b"false"


class SendQueue:
    """One queue of a topic, and the answers to sends into it, as formats that lack three numbers.

    `json` takes the log offset, the queue offset and the request's number; `binary` takes the packed number first. The
    binary form holds lengths: it serves queue offsets from `binary_from` to before `binary_until`, which have as many
    digits, and is made again for others. They go down too: when a write fails, and when a topic is deleted.
    """

    __slots__ = ("_texts", "binary", "binary_from", "binary_until", "json", "queue")

    def __init__(self, queue: ConsumeQueue, texts: AnswerTexts) -> None:
        self.queue = queue
        self._texts = texts
        self.json = (
            b'{"code":0,"extFields":{"MSG_REGION":%b,"TRACE_ON":"%b","msgId":"%b%%016X","queueId":"%d",'
            b'"queueOffset":"%%d"},"flag":1,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON",'
            b'"version":%d}'
            % (_escaped(texts.region_json), texts.trace_on, texts.store_host, queue.queue_id, VERSION_4_9_7)
        )
        self.binary = b""
        self.binary_from = self.binary_until = 0

    def answer(self, frame: Frame, log_offset: int, queue_offset: int) -> bytes:
        """The answer to a send that was stored at these places; the send path formats its own."""
        if frame.encoding is Encoding.JSON:
            text = self.json % (log_offset, queue_offset, frame.opaque)
            return _json_start(4 + len(text), len(text)) + text
        is_fitting = self.binary_from <= queue_offset < self.binary_until
        binary = self.binary if is_fitting else self.make_binary(queue_offset)
        return binary % (_number(frame.opaque), log_offset, queue_offset)

    def make_binary(self, queue_offset: int) -> bytes:
        """The binary answer for offsets with as many digits as this one."""
        texts, digits = self._texts, len(str(queue_offset))
        queue_id = b"%d" % self.queue.queue_id
        fields = (
            (b"msgId", b"%b%%016X" % texts.store_host, len(texts.store_host) + 16),
            (b"queueId", queue_id, len(queue_id)),
            (b"queueOffset", b"%d", digits),
            (b"MSG_REGION", _escaped(texts.region), len(texts.region)),
            (b"TRACE_ON", texts.trace_on, len(texts.trace_on)),
        )
        ext = b"".join([_ext_field(name, text, size) for name, text, size in fields])
        ext_bytes = sum(6 + len(name) + size for name, _, size in fields)
        header_bytes = _BINARY_HEADER_BYTES + ext_bytes
        start = _answer_start(4 + header_bytes, _BINARY_WORD | header_bytes, 0, Language.PYTHON, VERSION_4_9_7)
        self.binary = _escaped(start) + b"%b" + _escaped(_answer_rest(1, 0, ext_bytes)) + ext
        self.binary_from = 10 ** (digits - 1) if digits > 1 else 0
        self.binary_until = 10**digits
        return self.binary


def _ext_field(name: bytes, text: bytes, size: int) -> bytes:
    return _escaped(len(name).to_bytes(2, "big") + name + size.to_bytes(4, "big")) + text


def _escaped(data: bytes) -> bytes:
    """Bytes that stand for themselves in a format."""
    return data.replace(b"%", b"%%")


class SendTopic:
    """A topic as the send path sees it.

    `routes` maps the beginning of a header's changing part (queue id and system flag, as bytes) to its meaning.
    """

    __slots__ = (
        "_cluster",
        "_open_queue",
        "_queues",
        "_shapes",
        "_texts",
        "budget",
        "extra_sys_flag",
        "keys",
        "name",
        "routes",
    )

    def __init__(
        self, topic: TopicConfig, *, cluster: str, texts: AnswerTexts, open_queue: Callable[[str, int], ConsumeQueue]
    ) -> None:
        self.name = topic.topic_name
        self.budget = LearntBudget(LEARNT_BYTES_MAX)  # whoever has many topics gives them one
        self.keys = TopicKeys(topic.topic_name)
        self.routes: dict[bytes, tuple[SendQueue, int]] = {}
        self.extra_sys_flag = MULTI_TAGS if topic.topic_filter_type is TopicFilterType.MULTI_TAG else 0
        self._cluster = cluster.encode()
        self._texts = texts
        self._open_queue = open_queue
        count = max(topic.read_queue_nums, topic.write_queue_nums)
        self._queues: list[SendQueue | None] = [None] * count
        self._shapes: dict[bytes, SendShape] = {}  # by what follows a unique id that stands first

    def find_queue(self, queue_id: int) -> SendQueue | None:
        """The queue; None for a number that the topic does not have."""
        if not 0 <= queue_id < len(self._queues):
            return None
        queue = self._queues[queue_id]
        if queue is None:
            queue = self._queues[queue_id] = SendQueue(self._open_queue(self.name, queue_id), self._texts)
        return queue

    def shape(self, properties: bytes) -> tuple[SendShape, bytes]:
        """The shape of a message with these properties, and its unique id (empty if it has none)."""
        if properties.startswith(_UNIQ_MARK):
            shape = self._shapes.get(properties[_KEY_END:])
            key = properties[_KEY_AT:_KEY_END]
            if shape is not None and len(key) == UNIQUE_ID_BYTES and b"\x02" not in key and key.isascii():
                return shape, key
        elif properties.startswith(_KEYS_MARK):
            keys_end = properties.find(b"\x02")
            key_at = keys_end + 1 + _KEY_AT
            key_end = key_at + UNIQUE_ID_BYTES
            shape = self._shapes.get(properties[key_end:])
            key = properties[key_at:key_end]
            if (
                shape is not None
                and properties.startswith(_UNIQ_MARK, keys_end + 1)
                and len(key) == UNIQUE_ID_BYTES
                and b"\x02" not in key
            ):
                keys = properties[len(_KEYS_MARK) : keys_end]
                if keys and keys.isascii() and key.isascii():
                    return shape.with_keys(keys), key
        return self._learn(properties)

    def _learn(self, properties: bytes) -> tuple[SendShape, bytes]:
        if not properties.isascii():
            # Bytes that are no text become replacement characters, as in the general way. Above, whatever is not ASCII
            # is looked up as it is: only text is ever kept, so nothing else is found.
            properties = properties.decode("utf-8", "replace").encode()
        shape, key = SendShape.make(self.keys, properties, cluster=self._cluster)
        before, found, after = split_unique_key(properties)
        # A shape serves other messages only if nothing but the id, or keys in front of it, can differ.
        if found == key and len(key) == UNIQUE_ID_BYTES and shape.is_plain:
            if before == _UNIQ_MARK:
                self._keep(after, shape)
            elif before.startswith(_KEYS_MARK) and before.find(b"\x02") == len(before) - _KEY_AT - 1:
                self._keep(after, SendShape.make(self.keys, _UNIQ_MARK + key + after, cluster=self._cluster)[0])
        return shape, key

    def _keep(self, after: bytes, shape: SendShape) -> None:
        if shape.keys:
            return  # further keys behind the id: then the text in front is not all there is to them
        if self.budget.take(len(after)):
            self._shapes[after] = shape

    def learn_route(self, text: bytes, queue: SendQueue, sys_flag: int) -> None:
        """Remember what a header's queue id and system flag mean."""
        if self.budget.take(len(text)):
            self.routes[text] = (queue, sys_flag)
