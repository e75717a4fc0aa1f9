"""What requests to a broker have in common: codes, names, where messages go, and a single message."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.frames import encode_frame

SEND_MESSAGE_V2 = 310
PULL_MESSAGE = 11
GET_MAX_OFFSET = 30
HEART_BEAT = 34
BROKER = "broker-a"
PULL_COUNT = 32


@dataclass(frozen=True)
class Traffic:
    """Where messages go."""

    topic_count: int = 8
    queue_count: int = 8
    group_count: int = 4
    topic_prefix: str = "BenchmarkTopic"

    @property
    def topics(self) -> list[str]:
        return [f"{self.topic_prefix}-{number}" for number in range(self.topic_count)]


def one_send(topic: str, queue_id: int, body: bytes, *, number: int) -> bytes:
    """A single message to one queue, with a JSON header."""
    unique_id = f"7F0000010000DE11{number:016X}"
    properties = f"UNIQ_KEY\1{unique_id}\2WAIT\1true\2TAGS\1TagA"
    now = str(int(time.time() * 1000))
    values = ["benchmark-producer", topic, "TBW102", "4", str(queue_id), "0", now, "0", properties, "0", "false"]
    ext = dict(zip("abcdefghijk", values, strict=True)) | {"m": "false", "n": BROKER}
    return encode_frame(SEND_MESSAGE_V2, ext, body)
