"""Pulls at full speed, and how soon a message reaches a consumer that waits for it.

Two queues hold the same messages. The log of the first lies together: nothing else was sent meanwhile. That of the
second is scattered: messages to it and to the other queues of its topic took turns. Several consumers go through a
queue at the same time, each from another place, with one pull in flight, 32 messages each; at the end of the queue they
begin again. Answers are not kept: their bytes are received into one buffer and stepped over, and their sizes compared
with that of the first one, which is looked at as a whole.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import broker_frames as frames
from benchmarks.broker_frames import PULL_COUNT, FramePool, SendForm, Traffic
from benchmarks.broker_load import Sender, run_count
from benchmarks.frames import SUCCESS, answer_body, answer_code, encode_frame
from benchmarks.load import STALL_TIMEOUT_S, BadAnswer, connect
from benchmarks.meter import Meter, Outcome, Slice, slice_ends

GROUP = "benchmark-consumers"
CONNECTIONS = 2
PULLS_IN_FLIGHT = 4
RECEIVE_BYTES = 1 << 20
ANSWERS_DIFFER_BYTES = 40
"""Answers differ in the digits of numbers in their headers; the records in them have one size."""
FILL_IN_FLIGHT = 128
GET_MAX_OFFSET = 30
NOTICE_S = 0.3
SCATTERED_QUEUES = 8
PAUSE_S = 0.004  # between a pull and the message for it: by then the pull is held
LENGTH = struct.Struct(">I")

CONTIGUOUS = Traffic(topic_count=1, queue_count=1, topic_prefix="ContiguousTopic")
SCATTERED = Traffic(topic_count=1, queue_count=SCATTERED_QUEUES, topic_prefix="ScatteredTopic")
WAITED_TOPIC = "WaitedTopic"


@dataclass(frozen=True)
class Filled:
    """A queue with messages to pull."""

    topic: str
    count: int


class QueueFiller:
    """Sends what is pulled later; its frames serve all rounds."""

    def __init__(self, queue_messages: int, *, body_bytes: int = 1024) -> None:
        self._queue_messages = queue_messages
        self._pools = {
            traffic: FramePool(SendForm(body_bytes, binary=True), traffic, chunk_count=4)
            for traffic in (CONTIGUOUS, SCATTERED)
        }

    @property
    def topics(self) -> dict[str, int]:
        """Topics and their queues, to be made beforehand."""
        return {traffic.topics[0]: traffic.queue_count for traffic in (CONTIGUOUS, SCATTERED)}

    def fill(self, address: str, pid: int, traffic: Traffic) -> Filled:
        """Messages into a topic, from one connection, so that the mix of queues is that of the frames."""
        [connection] = connect(address, 1)
        with connection:
            sender = Sender(connection, self._pools[traffic])
            count = self._queue_messages * traffic.queue_count
            outcome = run_count([sender], in_flight=FILL_IN_FLIGHT, count=count, server_pid=pid)
            # On a busy machine Apache's broker refuses what has waited for long; a few are not missed.
            if outcome.refused.total() > count // 50:
                raise BadAnswer(f"filling a queue was refused: {sender.first_refusal[:300]!r}")
        # Queues are filled by chance; what is pulled is what surely is in each of them.
        return Filled(traffic.topics[0], self._queue_messages * 9 // 10 // PULL_COUNT * PULL_COUNT)


class Puller:
    """One connection with some pulls in flight."""

    def __init__(self, connection: socket.socket, pulls: Sequence[bytes], *, first: int, answer_bytes: int) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.answered = 0
        self.in_flight = 0
        self._pulls = pulls
        self._next = first
        self._answer_bytes = range(answer_bytes - ANSWERS_DIFFER_BYTES, answer_bytes + ANSWERS_DIFFER_BYTES)
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._kept_bytes = 0  # of a length that has not arrived whole
        self._end_at = 0  # from there on in the buffer: the end of the answer that is being received
        self._is_open = False

    def issue(self, count: int) -> None:
        if count:
            picked = [self._pulls[(self._next + number) % len(self._pulls)] for number in range(count)]
            self._next += count
            self.in_flight += count
            data = b"".join(picked)
            # A few hundred bytes: there is always room for them in a socket's buffer.
            assert self.connection.send(data) == len(data), "pulls are small"

    def receive(self) -> int:
        """Read what is there; the number of answers that are now complete."""
        received = self.connection.recv_into(self._buffer[self._kept_bytes :])
        if not received:
            raise BadAnswer("the server closed the connection")
        end, at, count = self._kept_bytes + received, self._end_at, 0
        while at <= end:
            count += self._is_open
            self._is_open = at + 4 <= end
            if not self._is_open:
                break
            (size,) = LENGTH.unpack_from(self._buffer, at)
            if size not in self._answer_bytes:
                raise BadAnswer(f"an answer of {size} bytes: {bytes(self._buffer[at : at + 300])!r}")
            at += 4 + size
        self._kept_bytes = max(end - at, 0)
        self._buffer[: self._kept_bytes] = self._buffer[end - self._kept_bytes : end]
        self._end_at = max(at - end, 0)
        self.answered += count
        self.in_flight -= count
        return count


def run_pulls(
    address: str,
    filled: Filled,
    *,
    seconds: float,
    warm_up_s: float,
    server_pid: int,
    group: str = GROUP,
    pull: Callable[[str, str, int, int], bytes] = frames.pull,
    heartbeat: Callable[[str, str, list[str]], bytes] = frames.heartbeat,
) -> Outcome:
    """As many pulls of one queue as the server takes; the outcome counts messages."""
    groups = [f"{group}-{number}" for number in range(CONNECTIONS)]
    offsets = range(0, filled.count, PULL_COUNT)
    pulls = [[pull(group, filled.topic, 0, offset) for offset in offsets] for group in groups]
    connections = connect(address, CONNECTIONS)
    try:
        for connection, group in zip(connections, groups, strict=True):
            _subscribe(connection, heartbeat(f"client@{group}", group, [filled.topic]))
        answer = _exchange(connections[0], pulls[0][0])
        _check_pulled(answer)
        pullers = [
            Puller(connection, pulls[number], first=number * len(offsets) // CONNECTIONS, answer_bytes=len(answer))
            for number, connection in enumerate(connections)
        ]
        return _run(pullers, seconds=seconds, warm_up_s=warm_up_s, server_pid=server_pid)
    finally:
        for connection in connections:
            connection.close()


def _run(pullers: Sequence[Puller], *, seconds: float, warm_up_s: float, server_pid: int) -> Outcome:
    by_connection = {puller.connection: puller for puller in pullers}

    def turn(until: float, *, refill: bool = True) -> None:
        while (left := until - time.perf_counter()) > 0 and any(puller.in_flight for puller in pullers):
            for connection in select.select(by_connection, (), (), left)[0]:
                puller = by_connection[connection]
                answered = puller.receive()
                if refill:
                    puller.issue(answered)

    for puller in pullers:
        puller.issue(PULLS_IN_FLIGHT)
    turn(time.perf_counter() + warm_up_s)
    meter = Meter(server_pid)
    meter.start()
    slices: list[Slice] = []
    answered = sum(puller.answered for puller in pullers)
    for until in slice_ends(time.perf_counter(), seconds):
        turn(until)
        before, answered = answered, sum(puller.answered for puller in pullers)
        slices.append(meter.cut((answered - before) * PULL_COUNT))
    turn(time.perf_counter() + STALL_TIMEOUT_S, refill=False)
    if any(puller.in_flight for puller in pullers):
        raise BadAnswer("pulls were not answered")
    return Outcome(slices)


def run_delivery(address: str, *, count: int) -> list[float]:
    """A consumer waits, one message comes, again and again: seconds from its sending to the consumer's receiving it."""
    consumer, producer = connect(address, 2)
    taken: list[float] = []
    with consumer, producer:
        _subscribe(consumer, frames.heartbeat(f"client@{GROUP}", GROUP, [WAITED_TOPIC]))
        offset = _end_of_queue(consumer)
        for number in range(count):
            consumer.sendall(frames.pull(GROUP, WAITED_TOPIC, 0, offset, may_suspend=True))
            message = frames.one_send(WAITED_TOPIC, 0, bytes(100), number=number)
            time.sleep(PAUSE_S)
            if select.select([consumer], (), (), 0)[0]:
                raise BadAnswer("a pull was answered before there was a message")
            start = time.perf_counter()
            producer.sendall(message)
            if not select.select([consumer], (), (), STALL_TIMEOUT_S)[0]:
                raise BadAnswer("a message did not reach the consumer that waited for it")
            taken.append(time.perf_counter() - start)
            if answer_code(_answer(consumer)) != SUCCESS or answer_code(_answer(producer)) != SUCCESS:
                raise BadAnswer("a waiting pull was answered without its message")
            offset += 1
    return taken


def _subscribe(connection: socket.socket, heartbeat: bytes) -> None:
    if answer_code(_exchange(connection, heartbeat)) != SUCCESS:
        raise BadAnswer("a heartbeat was refused")
    # The broker tells every member of a group, the new one too, that there is a new member.
    time.sleep(NOTICE_S)
    while select.select([connection], (), (), 0)[0]:
        connection.recv(RECEIVE_BYTES)


def _end_of_queue(connection: socket.socket) -> int:
    answer = _exchange(connection, encode_frame(GET_MAX_OFFSET, {"topic": WAITED_TOPIC, "queueId": "0"}))
    return int(json.loads(answer[4:])["extFields"]["offset"])


def _exchange(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(frame)
    return _answer(connection)


def _answer(connection: socket.socket) -> bytes:
    """The next answer, whole, without its length; requests of the broker's own are stepped over."""
    while True:
        (size,) = LENGTH.unpack(_read(connection, 4))
        answer = _read(connection, size)
        header = json.loads(answer[4 : 4 + LENGTH.unpack_from(answer)[0]])
        if header["flag"] & 1:
            return answer


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise BadAnswer("the server closed the connection")
        data += piece
    return data


def _check_pulled(answer: bytes) -> None:
    """A good answer with 32 records, each of the same size."""
    records, count, at = answer_body(answer), 0, 0
    while at < len(records):
        at += LENGTH.unpack_from(records, at)[0]
        count += 1
    if answer_code(answer) != SUCCESS or count != PULL_COUNT or at != len(records):
        raise BadAnswer(f"not {PULL_COUNT} messages but {count}: {answer[:300]!r}")
