"""The requests that producers and consumers send, as frames and, where a test wants odd ones, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skyrocketmq.model.heartbeats import ConsumerData, HeartbeatData
from skyrocketmq.model.tables import SubscriptionData
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.java import string_hash

TOPIC = "TopicTest"
GROUP = "readers"
BORN_MS = 1_700_000_000_123


def send_fields(
    topic: str = TOPIC,
    queue_id: object = 0,
    *,
    properties: str | None = "",
    sys_flag: object = 0,
    flag: object = 0,
    born_ms: object = BORN_MS,
    reconsume_times: object = 0,
    **others: object,
) -> dict[str, str | None]:
    """The fields of a send in the order of Java's client; `others` by their letters, None for those left out."""
    fields: dict[str, object] = {
        "a": "writers",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": sys_flag,
        "g": born_ms,
        "h": flag,
        "i": properties,
        "j": reconsume_times,
        "k": "false",
        "m": "false",
    }
    return {letter: str(value) for letter, value in (fields | others).items() if value is not None}


def send_frame(
    topic: str = TOPIC,
    queue_id: object = 0,
    *,
    body: bytes = b"hello",
    opaque: int = 1,
    is_binary: bool = False,
    is_oneway: bool = False,
    code: int = RequestCode.SEND_MESSAGE_V2,
    **fields: Any,
) -> Frame:
    return Frame(
        code,
        opaque,
        2 if is_oneway else 0,
        send_fields(topic, queue_id, **fields),
        body,
        language=0,
        encoding=Encoding.BINARY if is_binary else Encoding.JSON,
    )


V1_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "bname",
}


def as_version_1(frame: Frame) -> Frame:
    """The same send with the long names: it always takes the general way."""
    assert frame.ext is not None
    ext = {V1_NAMES.get(letter, letter): value for letter, value in frame.ext.items()}
    return Frame(
        RequestCode.SEND_MESSAGE, frame.opaque, frame.flag, ext, frame.body, language=0, encoding=frame.encoding
    )


def binary_bytes(
    code: int,
    fields: Iterable[tuple[str, bytes]],
    body: bytes = b"",
    *,
    opaque: int = 1,
    flag: int = 0,
    remark: bytes = b"",
    ext_bytes: int | None = None,
) -> bytes:
    """A binary frame with any fields: repeated, in any order, not UTF-8. `ext_bytes` may lie about their length."""
    ext = b"".join(
        struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value)) + value for name, value in fields
    )
    header = struct.pack(">hBhiii", code, 0, 407, opaque, flag, len(remark)) + remark
    header += struct.pack(">i", len(ext) if ext_bytes is None else ext_bytes) + ext
    return struct.pack(">iI", 4 + len(header) + len(body), 0x01000000 | len(header)) + header + body


def json_bytes(header: bytes, body: bytes = b"") -> bytes:
    """A frame with any JSON header."""
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


def pull_frame(
    topic: str = TOPIC,
    queue_id: object = 0,
    offset: object = 0,
    *,
    count: object = 32,
    group: str = GROUP,
    subscription: str | None = "*",
    hold_ms: int | None = None,
    commit: int | None = None,
    version: object = 0,
    opaque: int = 1,
    is_binary: bool = False,
    **others: str | None,
) -> Frame:
    """A pull that brings its subscription along, unless that is None."""
    sys_flag = (4 if subscription is not None else 0) | (2 if hold_ms is not None else 0) | (1 if commit else 0)
    ext: dict[str, str | None] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(sys_flag),
        "commitOffset": str(commit or 0),
        "suspendTimeoutMillis": str(hold_ms or 0),
        "subscription": subscription,
        "subVersion": str(version),
        "expressionType": "TAG",
    }
    fields: dict[str, str | None] = {name: text for name, text in (ext | others).items() if text is not None}
    encoding = Encoding.BINARY if is_binary else Encoding.JSON
    return Frame(RequestCode.PULL_MESSAGE, opaque, 0, fields, language=0, encoding=encoding)


def heartbeat_frame(
    *subscriptions: SubscriptionData, group: str = GROUP, client_id: str = "client-1", opaque: int = 1, **data: Any
) -> Frame:
    consumer = ConsumerData(group_name=group, subscription_data_set=subscriptions, **data)
    beat = HeartbeatData(client_id=client_id, consumer_data_set=(consumer,))
    return Frame(RequestCode.HEART_BEAT, opaque, body=encode_body(beat), language=0)


def properties_text(pairs: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return "\x02".join(f"{name}\x01{value}" for name, value in items)


def unique_id(number: int) -> str:
    return f"0A000001C35018B4AAC2{number // 100:08X}{number % 65536:04X}"


def subscription(tags: str, *, version: int = 1, topic: str = TOPIC, **fields: Any) -> SubscriptionData:
    """What a consumer's heartbeat says about a topic."""
    names = frozenset(part.strip() for part in tags.split("||") if part.strip() != "*")
    values: dict[str, Any] = {"topic": topic, "sub_string": tags, "tags_set": names, "sub_version": version}
    return SubscriptionData(**(values | {"code_set": frozenset(map(string_hash, names))} | fields))
