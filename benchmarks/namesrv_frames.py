"""The frames of the name server benchmark: brokers that register, clients that ask for routes.

Written out by hand, in the form in which Java's brokers and clients send them (see `frames`).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from benchmarks.frames import VERSION_4_9_7, encode_frame, json_bytes

REGISTER_BROKER = 103
GET_ROUTEINFO_BY_TOPIC = 105
VERSION_4_9_3 = 399  # before 4.9.4 routes are answered with unquoted number keys
VERSION_3_0_10 = 35  # before 3.0.11 a registration is just the topics
CLUSTER = "BenchmarkCluster"
FIRST_VERSION_MS = 1_700_000_000_000


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
    return _frame(REGISTER_BROKER, ext, body, form)


def _registration_body(version: dict[str, int], topics: dict[str, dict[str, object]], form: Form) -> bytes:
    if form.compressed:
        rows = [
            f"{name} {t['readQueueNums']} {t['writeQueueNums']} {t['perm']} SINGLE_TAG" for name, t in topics.items()
        ]
        pieces = [_sized(json_bytes(version)), struct.pack(">i", len(rows))]
        pieces += [_sized(row.encode()) for row in rows]
        pieces.append(_sized(b"[]"))
        return zlib.compress(b"".join(pieces), 9)
    wrapper = {"dataVersion": version, "topicConfigTable": topics}
    if form.version == VERSION_3_0_10:
        return json_bytes(wrapper)
    return json_bytes({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def route_query(topic: str, *, form: Form) -> bytes:
    return _frame(GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, b"", form)


def _frame(code: int, ext: dict[str, str], body: bytes, form: Form) -> bytes:
    return encode_frame(code, ext, body, binary=form.binary, version=form.version)


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
