"""Requests and replies as messages: what makes a message a request, how a reply is made from it, and read. Pure.

| property | a request carries | its reply carries |
|---|---|---|
| `CORRELATION_ID` | a text that no other request has | the same: it says which request this answers |
| `REPLY_TO_CLIENT` | the client id of who asked | the same: where brokers pass it on to |
| `TTL` | how long the asker waits, ms | the same |
| `CLUSTER` | put in by the broker that stored it; names the topic of its replies | |
| `MSG_TYPE` | | `reply`: it travels as 325, and brokers pass it on |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import LogOffset, Message, MessageQueue, MessageView, QueueOffset
from skyrocketmq.model import properties as names
from skyrocketmq.model.flags import BODY_COMPRESSED
from skyrocketmq.model.hosts import HOST_BYTES_V4, pack_address
from skyrocketmq.model.names import reply_topic
from skyrocketmq.wire.compression import compression_type, decompress
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_send import PushReplyMessageHeader
from skyrocketmq.wire.properties import decode_properties

__all__ = ["read_pushed_reply", "reply_message", "request_message"]

UNKNOWN_HOST: Final = bytes(HOST_BYTES_V4)
KEPT: Final = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL)  # by the reply, from its request


def request_message(message: Message, *, correlation_id: str, client_id: str, timeout_s: float) -> Message:
    """The message as a request that this client waits for the reply to."""
    asked = {
        names.CORRELATION_ID: correlation_id,
        names.REPLY_TO_CLIENT: client_id,
        names.TTL: str(round(timeout_s * 1000)),
    }
    return message.with_system_properties(asked)


def reply_message(
    request: MessageView,
    body: bytes | bytearray | memoryview,
    *,
    tags: str | None = None,
    keys: str | Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
) -> Message:
    """The reply to a request, to be sent by any producer (`Producer.reply` makes and sends it in one).

    Raises `IllegalArgument` if the message is no request, or lacks what brokers put into messages that they store.
    """
    found = request.properties
    missing = [name for name in (names.CORRELATION_ID, names.REPLY_TO_CLIENT) if not found.get(name)]
    if missing:
        raise IllegalArgument(
            f"the message {request.msg_id} is no request (it has no {' and no '.join(missing)}): only what was sent "
            "with Producer.request can be replied to"
        )
    cluster = found.get(names.CLUSTER)
    if not cluster:
        raise IllegalArgument(
            f"the request {request.msg_id} does not say which cluster it came through (it has no {names.CLUSTER}), so "
            "there is no topic to reply to: reply to the message as it was consumed"
        )
    kept = {name: value for name, value in found.items() if name in KEPT}
    return Message(
        reply_topic(cluster),
        body,
        tags=tags,
        keys=keys,
        properties=properties,
        system_properties={names.MSG_TYPE: names.REPLY_MESSAGE_TYPE, **kept},
    )


def read_pushed_reply(frame: Frame, *, now_ms: int) -> MessageView:
    """The reply in a broker's push (326), its body inflated. Raises `ProtocolError` if it cannot be read."""
    header = decode_header(PushReplyMessageHeader, frame.ext)
    topic, sys_flag = header.topic or "", header.sys_flag or 0
    body = frame.body
    if sys_flag & BODY_COMPRESSED:
        body = decompress(body, compression_type(sys_flag))
    properties = decode_properties(header.properties or "")
    properties[names.ARRIVE_TIME] = str(now_ms)
    return MessageView(
        topic=topic,
        body=body,
        properties=properties,
        queue=MessageQueue(topic, "", header.queue_id or 0),
        queue_offset=QueueOffset(0),  # the asker does not learn where the reply is stored, if it is
        log_offset=LogOffset(0),
        born_timestamp=header.born_timestamp or 0,
        born_host_packed=_packed(header.born_host),
        store_timestamp=header.store_timestamp or 0,
        store_host_packed=_packed(header.store_host),
        flag=header.flag or 0,
        sys_flag=sys_flag,
        reconsume_times=header.reconsume_times or 0,
    )


def _packed(address: str | None) -> bytes:
    """An address as Java prints it: `host/10.0.0.1:10911`, where the name is often missing and the slash is not."""
    try:
        return pack_address((address or "").rpartition("/")[2])
    except IllegalArgument:
        return UNKNOWN_HOST
