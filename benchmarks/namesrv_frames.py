"""The frames of the name server benchmark: brokers that register, clients that ask for routes.

Written out by hand, in the form in which Java's brokers and clients send them, and without our own encoder: the load is
the same for both servers, whatever our encoder does.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from itertools import count

REGISTER_BROKER = 103
GET_ROUTEINFO_BY_TOPIC = 105
VERSION_4_9_7 = 407
VERSION_4_9_3 = 399  # before 4.9.4 routes are answered with unquoted number keys
VERSION_3_0_10 = 35  # before 3.0.11 a registration is just the topics
CLUSTER = "BenchmarkCluster"
FIRST_VERSION_MS = 1_700_000_000_000
JAVA = 0

_opaques = count(1)


@dataclass(frozen=True)
class Plan:
    """Which topics live on which brokers: every topic on `spread` brokers that follow one another."""

    broker_count: int
    topic_count: int
    spread: int

    @property
    def topics(self) -> list[str]:
        return [f"BenchmarkTopic-{number:06}" for number in range(self.topic_count)]

    def topics_of(self, broker: int) -> list[str]:
        return [
            topic for number, topic in enumerate(self.topics) if (broker - number) % self.broker_count < self.spread
        ]


@dataclass(frozen=True)
class Form:
    """How a request is written."""

    binary: bool = False
    version: int = VERSION_4_9_7
    compressed: bool = False


def registration(plan: Plan, broker: int, *, counter: int, form: Form) -> bytes:
    """Broker number `broker` with all its topics. Another counter is another data version, with one topic changed."""
    topics = {
        topic: {
            "order": False,
            "perm": 6,
            "readQueueNums": 8,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": 8,
        }
        for topic in plan.topics_of(broker)
    }
    names = list(topics)
    changed = names[counter % len(names)]
    topics[changed] = {**topics[changed], "readQueueNums": 16, "writeQueueNums": 16}
    body = _registration_body({"counter": counter, "timestamp": FIRST_VERSION_MS}, topics, form)
    name, address = f"broker-{broker:03}", f"127.0.0.1:{20_000 + broker}"
    ext = {
        "bodyCrc32": str(zlib.crc32(body) & 0x7FFF_FFFF),
        "brokerAddr": address,
        "brokerId": "0",
        "brokerName": name,
        "clusterName": CLUSTER,
        "compressed": "true" if form.compressed else "false",
        "haServerAddr": f"127.0.0.1:{40_000 + broker}",
    }
    return frame(REGISTER_BROKER, ext, body, form)


def _registration_body(version: dict[str, int], topics: dict[str, dict[str, object]], form: Form) -> bytes:
    if form.compressed:
        rows = [
            f"{name} {t['readQueueNums']} {t['writeQueueNums']} {t['perm']} SINGLE_TAG" for name, t in topics.items()
        ]
        pieces = [_sized(_json(version)), struct.pack(">i", len(rows))]
        pieces += [_sized(row.encode()) for row in rows]
        pieces.append(_sized(b"[]"))
        return zlib.compress(b"".join(pieces), 9)
    wrapper = {"dataVersion": version, "topicConfigTable": topics}
    if form.version == VERSION_3_0_10:
        return _json(wrapper)
    return _json({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def route_query(topic: str, *, form: Form) -> bytes:
    return frame(GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, b"", form)


def frame(code: int, ext: dict[str, str], body: bytes, form: Form) -> bytes:
    """| length 4 B | encoding 1 B, header length 3 B | header | body |."""
    opaque = next(_opaques)
    header = _binary_header(code, ext, opaque, form) if form.binary else _json_header(code, ext, opaque, form)
    word = (1 << 24 if form.binary else 0) | len(header)
    return struct.pack(">II", 4 + len(header) + len(body), word) + header + body


def _json_header(code: int, ext: dict[str, str], opaque: int, form: Form) -> bytes:
    return _json(
        {
            "code": code,
            "extFields": ext,
            "flag": 0,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": form.version,
        }
    )


def _binary_header(code: int, ext: dict[str, str], opaque: int, form: Form) -> bytes:
    fields = b"".join(
        struct.pack(">h", len(key)) + key.encode() + struct.pack(">i", len(value)) + value.encode()
        for key, value in ext.items()
    )
    # | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | fields length 4 | fields |
    return struct.pack(">hbhiiii", code, JAVA, form.version, opaque, 0, 0, len(fields)) + fields


def answer_code(answer: bytes) -> int:
    """The response code of an answer (without its length) in either encoding."""
    (word,) = struct.unpack_from(">I", answer)
    if word >> 24:
        code: int = struct.unpack_from(">h", answer, 4)[0]
        return code
    header = json.loads(answer[4 : 4 + (word & 0xFF_FFFF)])
    return int(header["code"])


def answer_body(answer: bytes) -> bytes:
    (word,) = struct.unpack_from(">I", answer)
    return answer[4 + (word & 0xFF_FFFF) :]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
