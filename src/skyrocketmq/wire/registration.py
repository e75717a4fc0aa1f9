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
from collections.abc import Generator
from typing import NoReturn

import msgspec

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.flags import CompressionType
from skyrocketmq.model.numbers import INT32_MAX, INT32_MIN
from skyrocketmq.model.tables import DataVersion, TopicConfig, TopicFilterType
from skyrocketmq.wire.bodies import decode_request, encode_body
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.codes import FULL_REGISTRATION_VERSION, VERSION_4_9_7
from skyrocketmq.wire.compression import compress, decompress
from skyrocketmq.wire.java import body_crc

__all__ = [
    "INFLATED_BYTES_MAX",
    "RegisterBrokerBody",
    "decode_in_steps",
    "decode_registration",
    "encode_registration",
]

INFLATED_BYTES_MAX = 16 * 1024 * 1024  # some hundred thousand topics; deflate can grow a thousandfold
TOPICS_MAX = 100_000  # of one broker: several times as many as the largest clusters have
_MEMBERS_A_TOPIC = 10  # it has eight
_OTHER_OBJECTS = 8  # those around the topics
_OTHER_MEMBERS = 10_000  # filter servers, which nobody has any more
_LARGE_BYTES = 65_536  # of the JSON form: a larger one is read in steps
_TOPICS_A_STEP = 256
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
    steps = decode_in_steps(body, version=version, compressed=compressed, checksum=checksum)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            read: RegisterBrokerBody = stop.value
            return read


def decode_in_steps(
    body: bytes, *, version: int, compressed: bool = False, checksum: int = 0
) -> Generator[None, None, RegisterBrokerBody]:
    """The same in steps of some hundred topics, between which others may be served."""
    if checksum and checksum != body_crc(body):
        raise ProtocolError(f"a registration has the checksum {body_crc(body)}, its header says {checksum}")
    if not body:
        return RegisterBrokerBody()
    if version < FULL_REGISTRATION_VERSION:
        return RegisterBrokerBody(filter_server_list=None, topics=decode_request(TopicConfigTable, body))
    if compressed:
        return (yield from _decompress(body))
    if len(body) > _LARGE_BYTES:
        objects = body.count(b"{")
        _check_count(objects - _OTHER_OBJECTS)
        if body.count(b",") > _MEMBERS_A_TOPIC * objects + _OTHER_MEMBERS:
            raise ProtocolError(f"a registration of {len(body)} bytes does not consist of topics")
        try:
            rough = _read_rough(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            return (yield from _refine(rough))
    return decode_request(RegisterBrokerBody, body)


class _RoughTable(msgspec.Struct, frozen=True, rename="camel"):
    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, msgspec.Raw] = {}


class _RoughBody(msgspec.Struct, frozen=True, rename="camel"):
    """A registration whose topics have not been looked at: reading all of a large one takes long."""

    filter_server_list: list[str] | None = []
    topics: _RoughTable = msgspec.field(default=_RoughTable(), name="topicConfigSerializeWrapper")


_read_rough = msgspec.json.Decoder(_RoughBody, strict=False).decode


def _refine(rough: _RoughBody) -> Generator[None, None, RegisterBrokerBody]:
    lines = rough.topics.topic_config_table
    _check_count(len(lines))
    topics: dict[str, TopicConfig] = {}
    for number, (name, raw) in enumerate(lines.items()):
        topics[name] = decode_request(TopicConfig, bytes(raw))
        if number % _TOPICS_A_STEP == 0:
            yield
    table = TopicConfigTable(data_version=rough.topics.data_version, topic_config_table=topics)
    return RegisterBrokerBody(filter_server_list=rough.filter_server_list, topics=table)


def _check_count(topic_count: int) -> None:
    if topic_count > TOPICS_MAX:
        raise ProtocolError(f"a registration announces {topic_count} topics, at most {TOPICS_MAX} may be")


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


def _decompress(body: bytes) -> Generator[None, None, RegisterBrokerBody]:
    reader = _Reader(decompress(body, CompressionType.ZLIB, bytes_max=INFLATED_BYTES_MAX))
    version = decode_request(DataVersion, reader.take_text())
    topic_count = reader.take_int()
    _check_count(topic_count)
    if not 0 <= topic_count <= reader.left_bytes // _INT32.size:
        raise ProtocolError(f"a registration announces {topic_count} topics, more than it has room for")
    topics = {}
    for number in range(topic_count):
        topic = _read_topic_line(reader.take_text())
        topics[topic.topic_name] = topic
        if number % _TOPICS_A_STEP == 0:
            yield
    servers = decode_request(list[str], reader.take_text())
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
