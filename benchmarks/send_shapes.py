r"""Sends as real clients write them: four ways to write a header, three kinds of properties, two sizes.

Headers, field by field and in their order:

- `BINARY` and `JAVA`: request 310 of Apache's Java client 4.9.7, in its binary form and as JSON. Properties come in the
  order of its hash map, without a separator after the last: `amount orderId KEYS UNIQ_KEY WAIT TAGS`.
- `GO`: request 10 of Apache's Go client 2.1.2: long names, a `remark`, no `bname`, no WAIT. Fields and properties come
  in the order of Go's maps, which is another one for each message, and a separator follows the last property. The end
  of its unique ids has lower-case digits.
- `SPACED`: Java's fields as a client writes them whose JSON has a blank after each `:` and `,`.

Properties: those every message has; a key of its own in addition; or two properties of the user's, both different for
each message. Messages spread over topics, queues, producer groups and tags.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from benchmarks.broker_frames import BROKER, SEND_MESSAGE_V2, Traffic
from benchmarks.decks import FIRST_OPAQUE, MARKS, Change, Deck
from benchmarks.frames import VERSION_4_9_7, encode_frame

SEND_MESSAGE = 10
GO_VERSION = 317
DECK_FRAMES = 4096
ID, ID_LOWER, PROCESS, BORN = (
    MARKS[change].decode() for change in (Change.ID_UPPER, Change.ID_LOWER, Change.PROCESS, Change.BORN)
)
NOISE_BODIES = 64


class Encoding(Enum):
    BINARY = "binary"
    JAVA = "Java's JSON"
    GO = "Go's JSON"
    SPACED = "spaced JSON"


class Properties(Enum):
    USUAL = "usual"
    KEY = "key"
    USER = "two user properties"


@dataclass(frozen=True)
class SendShape:
    """What a message and its request look like."""

    body_bytes: int
    encoding: Encoding = Encoding.JAVA
    properties: Properties = Properties.USUAL

    @property
    def name(self) -> str:
        return f"{size_name(self.body_bytes)}, {self.encoding.value}, {self.properties.value}"

    @property
    def file_name(self) -> str:
        return f"send-{self.body_bytes}-{self.encoding.name}-{self.properties.name}".lower()


SIZES = (128, 1024)
SHAPES = [SendShape(size, encoding, properties) for size in SIZES for encoding in Encoding for properties in Properties]


def size_name(body_bytes: int) -> str:
    return f"{body_bytes // 1024} KB" if body_bytes >= 1024 else f"{body_bytes} B"


class SendDecks:
    """Decks of sends in a directory, each made when it is first asked for."""

    def __init__(self, directory: Path, traffic: Traffic) -> None:
        self._directory = directory
        self._traffic = traffic
        self._made: dict[SendShape, Deck] = {}

    @property
    def topics(self) -> dict[str, int]:
        """With their queues, to be made beforehand."""
        return dict.fromkeys(self._traffic.topics, self._traffic.queue_count)

    def deck(self, shape: SendShape) -> Deck:
        if shape not in self._made:
            path = self._directory / f"{self._traffic.topic_prefix}-{shape.file_name}.deck"
            self._made[shape] = Deck.write(path, send_frames(shape, self._traffic, DECK_FRAMES))
        return self._made[shape]


def send_frames(shape: SendShape, traffic: Traffic, count: int) -> Iterator[bytes]:
    """Frames with marks where something changes; seeded, so that every server and every run gets the same mix."""
    chance = random.Random(shape.body_bytes)
    noise = chance.randbytes(shape.body_bytes * NOISE_BODIES)
    for number in range(count):
        at = chance.randrange(len(noise) - shape.body_bytes + 1)
        yield _frame(shape, traffic, FIRST_OPAQUE + number, chance, noise[at : at + shape.body_bytes])


def _frame(shape: SendShape, traffic: Traffic, opaque: int, chance: random.Random, body: bytes) -> bytes:
    tag = f"Tag{chance.choice('ABCD')}"
    group = f"benchmark-producers-{chance.randrange(traffic.group_count)}"
    topic, queue_id = chance.choice(traffic.topics), chance.randrange(traffic.queue_count)
    amount = chance.randrange(1, 100_000)
    if shape.encoding is Encoding.GO:
        header = _go_header(
            opaque, group, topic, queue_id, _go_properties(shape.properties, tag, amount, chance), chance
        )
        return _framed(header, body)
    ext = {
        "a": group,
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue_id),
        "f": "0",
        "g": BORN,
        "h": "0",
        "i": _java_properties(shape.properties, tag, amount),
        "j": "0",
        "k": "false",
        "m": "false",
        "n": BROKER,
    }
    if shape.encoding is Encoding.SPACED:
        return _framed(_spaced_header(opaque, ext), body)
    return encode_frame(SEND_MESSAGE_V2, ext, body, binary=shape.encoding is Encoding.BINARY, opaque=opaque)


def _framed(header: bytes, body: bytes) -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def _java_properties(kind: Properties, tag: str, amount: int) -> str:
    named = {"UNIQ_KEY": f"7F000001{PROCESS}1B4FB44C{ID}", "WAIT": "true", "TAGS": tag}
    if kind is Properties.KEY:
        named = {"KEYS": f"order-{PROCESS}{ID}", **named}
    elif kind is Properties.USER:
        named = {"amount": str(amount), "orderId": f"{PROCESS}{ID}", **named}
    return "\2".join(f"{name}\1{value}" for name, value in named.items())


def _spaced_header(opaque: int, ext: dict[str, str]) -> bytes:
    header = {
        "code": SEND_MESSAGE_V2,
        "extFields": ext,
        "flag": 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": VERSION_4_9_7,
    }
    return json.dumps(header, separators=(", ", ": ")).encode()


def _go_properties(kind: Properties, tag: str, amount: int, chance: random.Random) -> str:
    named = [("UNIQ_KEY", f"7F000001{PROCESS}00000000{ID_LOWER}"), ("TAGS", tag)]
    if kind is Properties.KEY:
        named.append(("KEYS", f"order-{PROCESS}{ID_LOWER}"))
    elif kind is Properties.USER:
        named += [("amount", str(amount)), ("orderId", f"{PROCESS}{ID_LOWER}")]
    chance.shuffle(named)
    return "".join(f"{name}\1{value}\2" for name, value in named)


def _go_header(opaque: int, group: str, topic: str, queue_id: int, properties: str, chance: random.Random) -> bytes:
    fields = [
        ("producerGroup", group),
        ("topic", topic),
        ("queueId", str(queue_id)),
        ("sysFlag", "0"),
        ("bornTimestamp", BORN),
        ("flag", "0"),
        ("properties", properties),
        ("reconsumeTimes", "0"),
        ("unitMode", "false"),
        ("maxReconsumeTimes", "0"),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("batch", "false"),
    ]
    chance.shuffle(fields)
    header = {
        "code": SEND_MESSAGE,
        "language": "GO",
        "version": GO_VERSION,
        "opaque": opaque,
        "flag": 0,
        "remark": "",
        "extFields": dict(fields),
    }
    return json.dumps(header, separators=(",", ":")).encode()
