"""Batches (request 320) as Java's client writes them: messages of one topic, packed into the body of one request."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from benchmarks.broker_frames import BROKER, Traffic
from benchmarks.decks import FIRST_OPAQUE
from benchmarks.frames import encode_frame
from benchmarks.send_shapes import BORN, ID, PROCESS

SEND_BATCH_MESSAGE = 320
BATCH_MESSAGES = 64


def batch_frames(body_bytes: int, traffic: Traffic, count: int) -> Iterator[bytes]:
    """Requests with `BATCH_MESSAGES` messages each, every one with an id and a tag."""
    chance = random.Random(body_bytes)
    for number in range(count):
        ext = {
            "a": f"benchmark-producers-{chance.randrange(traffic.group_count)}",
            "b": chance.choice(traffic.topics),
            "c": "TBW102",
            "d": "4",
            "e": str(chance.randrange(traffic.queue_count)),
            "f": "0",
            "g": BORN,
            "h": "0",
            "i": "WAIT\1true",
            "j": "0",
            "k": "false",
            "m": "true",
            "n": BROKER,
        }
        body = b"".join(_entry(chance.randbytes(body_bytes), chance) for _ in range(BATCH_MESSAGES))
        yield encode_frame(SEND_BATCH_MESSAGE, ext, body, opaque=FIRST_OPAQUE + number)


def _entry(body: bytes, chance: random.Random) -> bytes:
    """| length 4 | magic 4, 0 | checksum 4, 0 | flag 4 | body length 4 | body | properties length 2 | properties |."""
    text = f"UNIQ_KEY\0017F000001{PROCESS}1B4FB44C{ID}\2WAIT\1true\2TAGS\1Tag{chance.choice('ABCD')}".encode()
    length = 22 + len(body) + len(text)
    return struct.pack(">5I", length, 0, 0, 0, len(body)) + body + struct.pack(">H", len(text)) + text
