"""The body of REGISTER_BROKER: what a broker announces to every name server, in one of four forms.

    full        {"filterServerList":[...],"topicConfigSerializeWrapper":{"dataVersion":{...},"topicConfigTable":{...}}}
    compressed  zlib of | length 4 | data version as JSON | topic count 4 | each: length 4, line | length 4 | servers |
    old         only the inner topicConfigSerializeWrapper, from brokers older than 3.0.11
    none        no body: no topics, data version 0

A line of the compressed form is `name readQueueNums writeQueueNums perm topicFilterType`; the other members of a topic
do not travel this way. A compressed body may grow to `INFLATED_BYTES_MAX` and no further, whatever it claims.
"""

from __future__ import annotations

import struct
from typing import NoReturn

import msgspec

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.flags import CompressionType
from skyrocketmq.model.numbers import INT32_MAX, INT32_MIN
from skyrocketmq.model.topics import TopicConfig, TopicFilterType
from skyrocketmq.model.versions import DataVersion
from skyrocketmq.wire.bodies import decode_body, encode_body
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.codes import FULL_REGISTRATION_VERSION, VERSION_4_9_7
from skyrocketmq.wire.compression import compress, decompress
from skyrocketmq.wire.java import body_crc

__all__ = [
    "INFLATED_BYTES_MAX",
    "RegisterBrokerBody",
    "decode_registration",
    "encode_registration",
]

INFLATED_BYTES_MAX = 16 * 1024 * 1024  # some hundred thousand topics; deflate can grow a thousandfold
_COMPRESSION_LEVEL = 9  # Java's; a registration is written once and sent to every name server
_INT32 = struct.Struct(">i")


class RegisterBrokerBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is registered. `filter_server_list` is None where the form has no place for it: then nothing changes."""

    filter_server_list: list[str] | None = []
    topics: TopicConfigTable = msgspec.field(default=TopicConfigTable(), name="topicConfigSerializeWrapper")


def encode_registration(
    registered: RegisterBrokerBody, *, compressed: bool = False, version: int = VERSION_4_9_7
) -> bytes:
    """The body that a broker of this version sends; its `java.body_crc` belongs into the header."""
    if version < FULL_REGISTRATION_VERSION:
        return encode_body(registered.topics)
    return _compress(registered) if compressed else encode_body(registered)


def decode_registration(
    body: bytes, *, version: int, compressed: bool = False, checksum: int = 0
) -> RegisterBrokerBody:
    """What a registration says; `checksum` 0 means unchecked. `ProtocolError` if any part of it cannot be used."""
    if checksum and checksum != body_crc(body):
        raise ProtocolError(f"a registration has the checksum {body_crc(body)}, its header says {checksum}")
    if not body:
        return RegisterBrokerBody()
    if version < FULL_REGISTRATION_VERSION:
        return RegisterBrokerBody(filter_server_list=None, topics=decode_body(TopicConfigTable, body))
    return _decompress(body) if compressed else decode_body(RegisterBrokerBody, body)


def _compress(registered: RegisterBrokerBody) -> bytes:
    topics = registered.topics.topic_config_table
    plain = b"".join(
        [
            _with_length(encode_body(registered.topics.data_version)),
            _INT32.pack(len(topics)),
            *(_with_length(_topic_line(topic)) for topic in topics.values()),
            _with_length(msgspec.json.encode(registered.filter_server_list or [])),
        ]
    )
    return compress(plain, CompressionType.ZLIB, level=_COMPRESSION_LEVEL)


def _with_length(item: bytes) -> bytes:
    return _INT32.pack(len(item)) + item


def _topic_line(topic: TopicConfig) -> bytes:
    filter_type = topic.topic_filter_type.name
    numbers = f"{topic.read_queue_nums} {topic.write_queue_nums} {topic.perm}"
    return f"{topic.topic_name} {numbers} {filter_type}".encode("utf-8", "replace")


def _decompress(body: bytes) -> RegisterBrokerBody:
    reader = _Reader(decompress(body, CompressionType.ZLIB, bytes_max=INFLATED_BYTES_MAX))
    version = decode_body(DataVersion, reader.take_text())
    topic_count = reader.take_int()
    if not 0 <= topic_count <= reader.left_bytes // _INT32.size:
        raise ProtocolError(f"a registration announces {topic_count} topics, more than it has room for")
    topics = {}
    for _ in range(topic_count):
        topic = _read_topic_line(reader.take_text())
        topics[topic.topic_name] = topic
    servers = decode_body(list[str], reader.take_text())
    return RegisterBrokerBody(
        filter_server_list=servers, topics=TopicConfigTable(data_version=version, topic_config_table=topics)
    )


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left_bytes(self) -> int:
        return len(self.data) - self.at

    def take_int(self) -> int:
        if self.left_bytes < _INT32.size:
            self.fail()
        (value,) = _INT32.unpack_from(self.data, self.at)
        self.at += _INT32.size
        return int(value)

    def take_text(self) -> bytes:
        length = self.take_int()
        if not 0 <= length <= self.left_bytes:
            self.fail()
        self.at += length
        return self.data[self.at - length : self.at]

    def fail(self) -> NoReturn:
        raise ProtocolError(f"a compressed registration ends at byte {len(self.data)}, inside an item")


_FILTER_TYPES = {kind.name: kind for kind in TopicFilterType}


def _read_topic_line(line: bytes) -> TopicConfig:
    fields = line.decode("utf-8", "replace").split(" ")
    try:
        name, read_queues, write_queues, perm, filter_type = fields
        numbers = int(read_queues), int(write_queues), int(perm)
        kind = _FILTER_TYPES[filter_type]
    except (ValueError, KeyError):
        raise ProtocolError(f"a registration has a topic that cannot be read: {line[:200]!r}") from None
    if min(numbers) < INT32_MIN or max(numbers) > INT32_MAX:
        raise ProtocolError(f"a registration has a topic with numbers out of range: {line[:200]!r}")
    return TopicConfig(name, *numbers, kind)
