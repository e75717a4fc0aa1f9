"""Pulls as Java's push consumer writes them, of queues that are filled first.

The messages of a queue lie together in the log where nothing else was sent meanwhile, or are scattered where messages
to the other queues of the topic came between. A pull asks for 32 messages, and always gets them: consumers go through
the queue again and again, and what follows the last place that they ask for is enough for 32 more.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import count
from pathlib import Path

from benchmarks.broker_frames import BROKER, HEART_BEAT, PULL_COUNT, PULL_MESSAGE, Traffic
from benchmarks.broker_servers import Target
from benchmarks.decks import FIRST_OPAQUE, Deck
from benchmarks.frames import SUCCESS, answer_code, encode_frame, json_bytes
from benchmarks.generator import Load
from benchmarks.load import BadAnswer, ask, connect
from benchmarks.send_shapes import Encoding, SendShape, send_frames
from benchmarks.stage import Stage

LOAD = Load(connections=2, window=4, records=PULL_COUNT)
FILL = Load(connections=1, window=128)
FILL_FRAMES = 2048
QUEUE_MESSAGES = 8_192
SCATTERED_QUEUES = 8
VERSION = 1  # of a subscription
PULL_MAY_SUSPEND = 2
PULL_SUSPEND_MS = 15_000

_groups = count(1)


class Layout(Enum):
    CONTIGUOUS = "contiguous"
    SCATTERED = "scattered"


@dataclass(frozen=True)
class Subscription:
    """What a group wants, and how many messages are looked at for one that it gets."""

    expression: str = "*"
    type: str = "TAG"
    looked_at: int = 1


EVERYTHING = Subscription()


@dataclass(frozen=True)
class Filled:
    """A queue with messages to pull: queue 0 of the topic."""

    topic: str
    count: int


def traffic_of(layout: Layout, body_bytes: int) -> Traffic:
    queues = SCATTERED_QUEUES if layout is Layout.SCATTERED else 1
    return Traffic(topic_count=1, queue_count=queues, topic_prefix=f"{layout.value.capitalize()}{body_bytes}-")


def fill(stage: Stage, target: Target, traffic: Traffic, shape: SendShape, queue_messages: int) -> Filled:
    """From one connection, so that the mix of queues is that of the frames."""
    path = stage.directory / f"fill-{traffic.topic_prefix}.deck"
    deck = Deck.write(path, send_frames(shape, traffic, FILL_FRAMES))
    # Each queue gets its share of a deck: a little more or less than the others, the same each time.
    sent = queue_messages * traffic.queue_count
    stage.run(target, deck, FILL, count=sent)
    return Filled(traffic.topics[0], queue_messages * 9 // 10)


@contextmanager
def pulls(
    target: Target, filled: Filled, path: Path, *, binary: bool = False, wanted: Subscription = EVERYTHING
) -> Iterator[Deck]:
    """A deck of pulls for a group that is there as long as the block lasts."""
    group = f"benchmark-consumers-{next(_groups)}"
    step = PULL_COUNT * wanted.looked_at
    frames = (
        pull_frame(group, filled.topic, offset, opaque=FIRST_OPAQUE + number, binary=binary, wanted=wanted)
        for number, offset in enumerate(range(0, filled.count - 2 * step, step))
    )
    deck = Deck.write(path, frames)
    with subscribed(target, group, filled.topic, wanted):
        yield deck


def pull_frame(
    group: str,
    topic: str,
    offset: int,
    *,
    opaque: int | None = None,
    binary: bool = False,
    wanted: Subscription = EVERYTHING,
    may_suspend: bool = False,
) -> bytes:
    """A pull of the first queue; the fields in the order of Java's hash map, in both encodings."""
    ext = {
        "queueId": "0",
        "maxMsgNums": str(PULL_COUNT),
        "sysFlag": str(PULL_MAY_SUSPEND if may_suspend else 0),
        "suspendTimeoutMillis": str(PULL_SUSPEND_MS),
        "commitOffset": "0",
        "bname": BROKER,
        "topic": topic,
        "queueOffset": str(offset),
        "expressionType": wanted.type,
        "subVersion": str(VERSION),
        "consumerGroup": group,
    }
    return encode_frame(PULL_MESSAGE, ext, binary=binary, opaque=opaque)


@contextmanager
def subscribed(target: Target, group: str, topic: str, wanted: Subscription) -> Iterator[socket.socket]:
    """A consumer whose heartbeat the broker knows."""
    tags = [wanted.expression] if wanted.type == "TAG" and wanted.expression != "*" else []
    subscription = {
        "classFilterMode": False,
        "codeSet": [java_hash(tag) for tag in tags],
        "expressionType": wanted.type,
        "subString": wanted.expression,
        "subVersion": VERSION,
        "tagsSet": tags,
        "topic": topic,
    }
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    beat = json_bytes({"clientID": f"client@{group}", "consumerDataSet": [consumer], "producerDataSet": []})
    [connection] = connect(target.address, 1)
    with connection:
        if answer_code(ask(connection, encode_frame(HEART_BEAT, {}, beat))) != SUCCESS:
            raise BadAnswer("a heartbeat was refused")
        time.sleep(0.1)
        yield connection


def java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def encoding_name(binary: bool) -> str:
    return str((Encoding.BINARY if binary else Encoding.JAVA).value)
