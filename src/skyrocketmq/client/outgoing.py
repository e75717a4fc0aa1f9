"""A message as it travels: its unique id, its properties as one text, its body maybe compressed. Pure.

Hot: every message sent passes here once, and `SendRequests.request` once for each attempt. What is the same for all
messages to a queue is made once, as bytes too; of a common message only the rest is written (`hot.sends`).

Rule 1: a message keeps its unique id over all attempts, and gets one only if it has none: a message that is sent again
        is the same message.
Rule 2: what the protocol forbids is refused here with a text that says what to change; nothing has been sent then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.hot import encode_send
from skyrocketmq.hot.layout import FRAME_HEADER_AT
from skyrocketmq.model import CompressionType, Message, MessageQueue, TransactionType
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import is_retry_topic, with_namespace
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.compression import (
    COMPRESS_FROM_BYTES,
    COMPRESS_LEVEL,
    COMPRESS_LEVELS,
    compress,
    compression_bits,
)
from skyrocketmq.wire.frames import Frame, encode_head
from skyrocketmq.wire.ids import UniqueIdGenerator
from skyrocketmq.wire.properties import PROPERTIES_BYTES_MAX

__all__ = ["MESSAGE_BYTES_MAX", "Compression", "Outgoing", "SendRequests", "join_packed", "pack_batch", "pack_message"]

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
PROPERTIES_LENGTH_SAFE: Final = PROPERTIES_BYTES_MAX // 4  # so many characters fit: none takes more than 4 bytes
SEND: Final = RequestCode.SEND_MESSAGE_V2  # here, because looking up a member of an enum takes a tenth of a microsecond
QUEUES_MAX: Final = 4096  # for which what is common to their messages is kept


class Compression(msgspec.Struct, frozen=True):
    """Which bodies a producer compresses, and how."""

    from_bytes: int = COMPRESS_FROM_BYTES
    kind: CompressionType = CompressionType.ZLIB
    level: int = COMPRESS_LEVEL

    @classmethod
    def checked(cls, from_bytes: int, kind: CompressionType | str, level: int) -> Compression:
        """What a producer's options mean; `IllegalArgument` for what cannot be."""
        if isinstance(kind, str):
            name = kind.upper()
            if name not in CompressionType.__members__:
                known = ", ".join(member.name.lower() for member in CompressionType)
                raise IllegalArgument(f"the compression {kind!r} is not known: use one of {known}")
            kind = CompressionType[name]
        levels = COMPRESS_LEVELS[kind]
        if levels is not None and level not in levels:
            raise IllegalArgument(
                f"compress_level = {level!r} is not from {levels[0]} to {levels[-1]}, as {kind.name} has"
            )
        if from_bytes < 0:
            raise IllegalArgument(f"compress_from_bytes = {from_bytes} is below 0")
        return cls(from_bytes, kind, level)


class Outgoing(msgspec.Struct, gc=False):
    """What is sent, whatever the queue. `topic` is the name on the wire."""

    code: RequestCode
    topic: str
    body: bytes
    properties: str
    msg_id: str  # of a batch all ids, with commas between
    sys_flag: int = 0
    flag: int = 0
    reconsume_times: str = "0"
    reconsume_times_max: str | None = None
    is_batch: bool = False


def pack_message(
    message: Message, *, ids: UniqueIdGenerator, now_ms: int, bytes_max: int = MESSAGE_BYTES_MAX, namespace: str = ""
) -> Outgoing:
    """The message, not compressed yet: see `compressed`."""
    body = message.body
    if len(body) > bytes_max:
        raise IllegalArgument(
            f"the body has {len(body)} bytes, the limit is {bytes_max}: send less, or raise message_bytes_max here and "
            "maxMessageSize on the brokers"
        )
    if namespace or message.system_properties:
        return _pack_special(message, ids=ids, now_ms=now_ms, namespace=namespace)
    # The order is that in which Java's map happens to give them.
    msg_id = ids.next_id(now_ms)
    text = (
        f"UNIQ_KEY\x01{msg_id}\x02WAIT\x01true" if message.wait_for_store else f"UNIQ_KEY\x01{msg_id}\x02WAIT\x01false"
    )
    if message.tags:
        text += f"\x02TAGS\x01{message.tags}"
    if message.keys:
        text = f"KEYS\x01{names.KEY_SEPARATOR.join(message.keys)}\x02{text}"
    if message.delay_level:
        text += f"\x02DELAY\x01{message.delay_level}"
    if message.properties:
        text += "".join([f"\x02{name}\x01{value}" for name, value in message.properties.items()])
    if len(text) > PROPERTIES_LENGTH_SAFE:
        _check_length(text)
    return Outgoing(SEND, message.topic, body, text, msg_id, 0, message.flag)


def _pack_special(message: Message, *, ids: UniqueIdGenerator, now_ms: int, namespace: str) -> Outgoing:
    """A message that the client library gave properties, or that belongs to a namespace."""
    pairs = message.all_properties()
    msg_id = pairs.get(names.UNIQ_KEY)
    if msg_id is None:
        msg_id = pairs[names.UNIQ_KEY] = ids.next_id(now_ms)
    topic = message.topic
    if namespace:
        if pairs.get(names.MSG_TYPE) != names.REPLY_MESSAGE_TYPE:  # the topic of replies is the cluster's, for all
            topic = with_namespace(topic, namespace=namespace)
        pairs[names.INSTANCE_ID] = namespace
    outgoing = Outgoing(SEND, topic, message.body, "", msg_id, 0, message.flag)
    if message.system_properties:
        _heed_system_properties(outgoing, pairs)
    outgoing.properties = _properties_text(pairs)
    return outgoing


def _heed_system_properties(outgoing: Outgoing, pairs: dict[str, str]) -> None:
    if pairs.get(names.TRAN_MSG) == "true":
        outgoing.sys_flag |= TransactionType.PREPARED
    if pairs.get(names.MSG_TYPE) == names.REPLY_MESSAGE_TYPE:
        outgoing.code = RequestCode.SEND_REPLY_MESSAGE_V2
    if is_retry_topic(outgoing.topic):
        # A message that a consumer sends back itself says in its header how often it was tried.
        outgoing.reconsume_times = pairs.pop(names.RECONSUME_TIME, "0")
        outgoing.reconsume_times_max = pairs.pop(names.MAX_RECONSUME_TIMES, None)


def compressed(outgoing: Outgoing, compression: Compression) -> Outgoing:
    """The same with its body compressed, if it is large enough; batches never are. Slow for large bodies."""
    if len(outgoing.body) >= compression.from_bytes and not outgoing.is_batch:
        outgoing.body = compress(outgoing.body, compression.kind, level=compression.level)
        outgoing.sys_flag |= compression_bits(compression.kind)
    return outgoing


def pack_batch(
    messages: Sequence[Message],
    *,
    ids: UniqueIdGenerator,
    now_ms: int,
    bytes_max: int = MESSAGE_BYTES_MAX,
    namespace: str = "",
) -> Outgoing:
    """Several messages of one topic as one request."""
    if not messages:
        raise IllegalArgument("the batch is empty: send one message at least")
    first = messages[0]
    for message in messages:
        _check_batched(message, first)
    packed = [
        pack_message(message, ids=ids, now_ms=now_ms, bytes_max=bytes_max, namespace=namespace) for message in messages
    ]
    outgoing = join_packed(packed, wait_for_store=first.wait_for_store)
    if len(outgoing.body) > bytes_max:
        raise IllegalArgument(
            f"the batch of {len(messages)} messages takes {len(outgoing.body)} bytes, the limit is {bytes_max}: "
            "send it in parts"
        )
    return outgoing


def join_packed(packed: Sequence[Outgoing], *, wait_for_store: bool) -> Outgoing:
    """Packed messages of one topic, none of them compressed, as one request."""
    return Outgoing(
        code=RequestCode.SEND_BATCH_MESSAGE,
        topic=packed[0].topic,
        body=encode_batch((one.flag, one.body, one.properties.encode("utf-8", "replace")) for one in packed),
        properties=_properties_text({names.WAIT: "true" if wait_for_store else "false"}),
        msg_id=",".join([one.msg_id for one in packed]),
        is_batch=True,
    )


def _check_batched(message: Message, first: Message) -> None:
    if message.topic != first.topic:
        raise IllegalArgument(f"a batch has one topic, this one has {first.topic} and {message.topic}")
    if message.wait_for_store != first.wait_for_store:
        raise IllegalArgument("the messages of a batch must agree on wait_for_store")
    if message.delay_level:
        raise IllegalArgument("a message of a batch cannot be delayed: send it alone")
    if is_retry_topic(message.topic):
        raise IllegalArgument(f"{message.topic} is a retry topic, which takes no batches")
    if names.TRAN_MSG in message.system_properties or names.MSG_TYPE in message.system_properties:
        raise IllegalArgument("neither a part of a transaction nor a reply can be in a batch: send it alone")


def _properties_text(pairs: Mapping[str, str]) -> str:
    # What is in here was checked when the message was made, or comes from this library.
    text = "\x02".join([f"{name}\x01{value}" for name, value in pairs.items()])
    _check_length(text)
    return text


def _check_length(text: str) -> None:
    size = len(text.encode("utf-8", "replace"))
    if size > PROPERTIES_BYTES_MAX:
        raise IllegalArgument(f"the properties take {size} bytes, a message can carry {PROPERTIES_BYTES_MAX}")


class _SameForQueue(msgspec.Struct, gc=False):
    """What all messages to a queue have in common: the fields, with those of a common message among them, and the
    pieces of its header as JSON, between which the rest is written."""

    fields: dict[str, str | None]
    head: bytes
    tail: bytes
    end: bytes


class SendRequest(msgspec.Struct, gc=False):
    """A common message on its way to a queue."""

    same: _SameForQueue
    outgoing: Outgoing
    born_ms: int
    code: int = SEND

    def encode(self, opaque: int) -> bytes:
        same, outgoing = self.same, self.outgoing
        return encode_send(
            same.head,
            same.tail,
            same.end,
            opaque,
            outgoing.sys_flag,
            self.born_ms,
            outgoing.flag,
            outgoing.properties,
            outgoing.body,
        )

    def frame(self) -> Frame:
        outgoing = self.outgoing
        ext = self.same.fields.copy()
        ext["f"] = str(outgoing.sys_flag)
        ext["g"] = str(self.born_ms)
        ext["h"] = str(outgoing.flag)
        ext["i"] = outgoing.properties
        return Frame(outgoing.code, ext=ext, body=outgoing.body)


class SendRequests:
    """The requests of one group's sends. The letters are those of the header's second form; see `headers_send`."""

    def __init__(self, group: str, *, template: str, template_queue_nums: int, unit_mode: bool) -> None:
        self._group = group
        self._template = template
        self._template_queue_nums = str(template_queue_nums)
        self._unit_mode = "true" if unit_mode else "false"
        self._same: dict[MessageQueue, _SameForQueue] = {}

    def request(self, outgoing: Outgoing, queue: MessageQueue, *, born_ms: int) -> SendRequest | Frame:
        """The request that sends a message to a queue."""
        request = SendRequest(self._same.get(queue) or self._add_queue(queue), outgoing, born_ms)
        if outgoing.code is SEND and outgoing.reconsume_times_max is None and outgoing.reconsume_times == "0":
            return request
        frame = request.frame()
        assert frame.ext is not None
        frame.ext["j"] = outgoing.reconsume_times
        if outgoing.reconsume_times_max is not None:
            frame.ext["l"] = outgoing.reconsume_times_max
        frame.ext["m"] = "true" if outgoing.is_batch else "false"
        return frame

    def _add_queue(self, queue: MessageQueue) -> _SameForQueue:
        if len(self._same) >= QUEUES_MAX:
            self._same.clear()
        fields: dict[str, str | None] = {
            "a": self._group,
            "b": queue.topic,
            "c": self._template,
            "d": self._template_queue_nums,
            "e": str(queue.queue_id),
            "f": "0",
            "g": "0",
            "h": "0",
            "i": "",
            "j": "0",
            "k": self._unit_mode,
            "m": "false",
            "n": queue.broker_name,
        }
        # Inside a text quotation marks are escaped, so that each of the two marks is found once.
        header = encode_head(Frame(SEND, ext=fields), 0)[FRAME_HEADER_AT:]
        head, _, rest = header.partition(b'"f":"0","g":"0","h":"0","i":""')
        tail, mark, end = rest.partition(b'"opaque":')
        same = self._same[queue] = _SameForQueue(fields, head, tail + mark, end.removeprefix(b"0"))
        return same
