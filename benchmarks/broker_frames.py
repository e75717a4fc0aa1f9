r"""The frames of the broker benchmark: sends that never repeat an id, pulls, and a consumer's heartbeat.

Sends of one connection lie one behind the other in one buffer, all of the same length, so that any number of them is
one slice. Messages spread over topics, queues, producer groups and tags as `Traffic` says. Their properties are those
of Java's client, in the order in which its hash map gives them:

    [KEYS \1 <keys> \2] UNIQ_KEY \1 <id> \2 WAIT \1 true \2 TAGS \1 <tag>

A unique id is | address 8 | process 4 | class loader 8 | time 8 | counter 4 | in hexadecimal digits, and a key, where
messages have one, holds the same process, time and counter. When a buffer has been sent and its turn comes again, only
the digits that have to differ are changed, the same one in all frames at once, which costs nothing worth counting:

    time    | turn 6 digits, changed each turn | block 2 digits: so many frames share a time |
    counter | first digit, changed each turn   | number of the frame |
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from itertools import count

from benchmarks.frames import encode_frame, json_bytes

SEND_MESSAGE_V2 = 310
PULL_MESSAGE = 11
HEART_BEAT = 34
BROKER = "broker-a"

PULL_MAY_SUSPEND = 2
PULL_SUSPEND_MS = 15_000
PULL_COUNT = 32

FIRST_OPAQUE = 100_000_000  # nine digits, so that frames have one length
CHUNK_FRAMES = 1024  # what is renewed at once
BLOCK_FRAMES = 64  # share a time: a millisecond of a producer that sends 64,000 a second
POOL_CHUNKS = 16
DIGITS = b"0123456789ABCDEF"
PROCESS_DIGITS = 4
TURN_DIGITS = 6
BLOCK_DIGITS = 2
KEY_START = "order-"

_producers = count(1)


@dataclass(frozen=True)
class Traffic:
    """Where messages go. Names of one kind have one length."""

    topic_count: int = 8
    queue_count: int = 8
    group_count: int = 4
    topic_prefix: str = "BenchmarkTopic"

    def __post_init__(self) -> None:
        assert max(self.topic_count, self.queue_count, self.group_count) <= 10, "one digit each"

    @property
    def topics(self) -> list[str]:
        return [f"{self.topic_prefix}-{number}" for number in range(self.topic_count)]


@dataclass(frozen=True)
class SendForm:
    """What a message looks like."""

    body_bytes: int
    binary: bool = False
    has_keys: bool = False

    @property
    def name(self) -> str:
        size = f"{self.body_bytes // 1024} KB" if self.body_bytes >= 1024 else f"{self.body_bytes} B"
        return f"{size}, {'binary' if self.binary else 'JSON'}{', with keys' if self.has_keys else ''}"


class FramePool:
    """What one connection sends, over and over, with other ids each time."""

    def __init__(self, form: SendForm, traffic: Traffic, *, chunk_count: int = POOL_CHUNKS) -> None:
        self.form = form
        self.frame_count = chunk_count * CHUNK_FRAMES
        self._ids = f"7F000001{next(_producers):04X}1B4FB44C"  # another process for each pool
        self._turn = int(time.time() * 1000) >> 8 & 0xFFFFFF
        # Seeded: both servers, and every run, get the same mix.
        chance = random.Random(form.body_bytes)
        noise = chance.randbytes(form.body_bytes * 64)
        frames = [self._frame(number, traffic, chance, noise) for number in range(self.frame_count)]
        self.frame_bytes = len(frames[0])
        assert all(len(frame) == self.frame_bytes for frame in frames), "frames of one pool have one length"
        self._buffer = bytearray().join(frames)
        self.view = memoryview(self._buffer)
        self._find_changing_places(frames)

    @property
    def chunk_bytes(self) -> int:
        return CHUNK_FRAMES * self.frame_bytes

    def renew(self, chunk: int) -> None:
        """New ids for a chunk whose turn has come again; the first chunk begins a turn."""
        if chunk == 0:
            self._turn += 1
        turn = f"{self._turn & 0xFFFFFF:06X}".encode()
        # All 65,536 values of the counter have their turn, as with a real client.
        first_digits_a_pool = max(self.frame_count >> 12, 1)
        first = (chunk * CHUNK_FRAMES >> 12) + self._turn * first_digits_a_pool
        for at in self._times_at:
            self._set_digits(chunk, at, turn)
        for at in self._counters_at:
            self._set_digits(chunk, at, DIGITS[first % 16 : first % 16 + 1])
        self._set_digits(chunk, self._born_at, b"%d" % int(time.time() * 1000))

    def _set_digits(self, chunk: int, at: int, digits: bytes) -> None:
        start, end = chunk * self.chunk_bytes + at, (chunk + 1) * self.chunk_bytes
        for number in range(len(digits)):
            if self._buffer[start + number] != digits[number]:
                self._buffer[start + number : end : self.frame_bytes] = digits[number : number + 1] * CHUNK_FRAMES

    def _frame(self, number: int, traffic: Traffic, chance: random.Random, noise: bytes) -> bytes:
        at = chance.randrange(len(noise) - self.form.body_bytes)
        properties = f"UNIQ_KEY\1{self._id(number)}\2WAIT\1true\2TAGS\1Tag{chance.choice('ABCD')}"
        if self.form.has_keys:
            unique_id = self._id(number)
            properties = f"KEYS\1{KEY_START}{unique_id[8:12]}{unique_id[20:]}\2{properties}"
        ext = {
            "a": f"benchmark-producers-{chance.randrange(traffic.group_count)}",
            "b": chance.choice(traffic.topics),
            "c": "TBW102",
            "d": "4",
            "e": str(chance.randrange(traffic.queue_count)),
            "f": "0",
            "g": f"{int(time.time() * 1000)}",
            "h": "0",
            "i": properties,
            "j": "0",
            "k": "false",
            "m": "false",
            "n": BROKER,
        }
        body = noise[at : at + self.form.body_bytes]
        return encode_frame(SEND_MESSAGE_V2, ext, body, binary=self.form.binary, opaque=FIRST_OPAQUE + number)

    def _id(self, number: int) -> str:
        return f"{self._ids}{self._turn:06X}{number % CHUNK_FRAMES // BLOCK_FRAMES:02X}{number:04X}"

    def _find_changing_places(self, frames: list[bytes]) -> None:
        frame = frames[0]
        id_at = frame.index(self._ids.encode())
        self._times_at = [id_at + len(self._ids)]
        if self.form.has_keys:
            self._times_at.append(frame.index(KEY_START.encode()) + len(KEY_START) + PROCESS_DIGITS)
        self._counters_at = [at + TURN_DIGITS + BLOCK_DIGITS for at in self._times_at]
        born_mark = b"\0\1g\0\0\0\x0d" if self.form.binary else b'"g":"'
        self._born_at = frame.index(born_mark) + len(born_mark)


def one_send(topic: str, queue_id: int, body: bytes, *, number: int) -> bytes:
    """A single message to one queue, with a JSON header."""
    unique_id = f"7F0000010000DE11{number:016X}"
    properties = f"UNIQ_KEY\1{unique_id}\2WAIT\1true\2TAGS\1TagA"
    now = str(int(time.time() * 1000))
    values = ["benchmark-producer", topic, "TBW102", "4", str(queue_id), "0", now, "0", properties, "0", "false"]
    ext = dict(zip("abcdefghijk", values, strict=True)) | {"m": "false", "n": BROKER}
    return encode_frame(SEND_MESSAGE_V2, ext, body)


def pull(group: str, topic: str, queue_id: int, offset: int, *, may_suspend: bool = False) -> bytes:
    """The next messages of a queue for a group that has sent a heartbeat, as Java's push consumer asks for them."""
    ext = {
        "queueId": str(queue_id),
        "maxMsgNums": str(PULL_COUNT),
        "sysFlag": str(PULL_MAY_SUSPEND if may_suspend else 0),
        "suspendTimeoutMillis": str(PULL_SUSPEND_MS),
        "commitOffset": "0",
        "bname": BROKER,
        "topic": topic,
        "queueOffset": str(offset),
        "expressionType": "TAG",
        "subVersion": "0",
        "consumerGroup": group,
    }
    return encode_frame(PULL_MESSAGE, ext)


def heartbeat(client_id: str, group: str, topics: list[str]) -> bytes:
    """A push consumer that reads everything of these topics."""
    subscriptions = [
        {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": "TAG",
            "subString": "*",
            "subVersion": 1,
            "tagsSet": [],
            "topic": topic,
        }
        for topic in topics
    ]
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
        "groupName": group,
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": subscriptions,
        "unitMode": False,
    }
    return encode_frame(
        HEART_BEAT, {}, json_bytes({"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []})
    )
