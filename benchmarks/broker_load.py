"""Sends at full speed and at a given rate.

Rule 1: what is done for one message is a few steps of one loop over the received bytes: its answer's length is read to
find the next one, and the first bytes of its header are compared with those of a good answer. Everything else is done
for many messages at once, and nothing is encoded. Both servers are treated alike.
Rule 2: an answer that does not begin like a good one is decoded and counted under its code; it is no acknowledgement.
Rule 3: at a given rate, message number n is due at n / rate, whatever became of the messages before it, and its latency
counts from then on: a server that stalls pays for all who would have come meanwhile.
"""

from __future__ import annotations

import gc
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.broker_frames import FIRST_OPAQUE, FramePool
from benchmarks.frames import SUCCESS, answer_code
from benchmarks.load import BadAnswer
from benchmarks.meter import Meter, Outcome, Slice, slice_ends

RECEIVE_BYTES = 1 << 20
STALL_TIMEOUT_S = 20.0
TICK_S = 0.0002  # at a given rate, what is due within this time leaves together
OPAQUE_DIGITS = 9
GOOD_JSON = b'{"code":0,'
GOOD_BINARY = b"\0\0"
BINARY_OPAQUE = struct.Struct(">13xi")  # | length 4 | word 4 | code 2 | language 1 | version 2 | request number |
JSON_OPAQUE = b'"opaque":'


class Sender:
    """One connection and its frames."""

    def __init__(self, connection: socket.socket, pool: FramePool) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.pool = pool
        self.issued = 0  # messages that may leave, ever
        self.answered = 0  # good or bad
        self.refused: Counter[int] = Counter()
        self.first_refusal = b""
        self._position = 0  # in the pool, of the next byte to leave
        self._unsent_bytes = 0
        self._buffer = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._kept_bytes = 0
        self._good = GOOD_BINARY if pool.form.binary else GOOD_JSON
        self._head = struct.Struct(f">I4x{len(self._good)}s")

    @property
    def in_flight(self) -> int:
        return self.issued - self.answered

    @property
    def wants_write(self) -> bool:
        return self._unsent_bytes > 0

    def issue(self, count: int) -> None:
        """Let so many more messages leave; as many as the socket takes leave now."""
        self.issued += count
        self._unsent_bytes += count * self.pool.frame_bytes
        self.send()

    def send(self) -> None:
        pool = self.pool
        while self._unsent_bytes:
            chunk, inside = divmod(self._position, pool.chunk_bytes)
            if not inside:
                pool.renew(chunk)
            end = min(self._position + self._unsent_bytes, (chunk + 1) * pool.chunk_bytes)
            try:
                sent = self.connection.send(pool.view[self._position : end])
            except BlockingIOError:
                return
            self._unsent_bytes -= sent
            self._position = (self._position + sent) % len(pool.view)

    def receive(self) -> int:
        """Read what is there; the number of answers in it."""
        end = self._read()
        buffer, unpack, good = self._buffer, self._head.unpack_from, self._good
        at = count = 0
        whole = end - self._head.size
        while at <= whole:
            size, head = unpack(buffer, at)
            after = at + 4 + size
            if after > end:
                break
            if head != good:
                self._refused(at, after)
            at = after
            count += 1
        self._keep(at, end)
        self.answered += count
        return count

    def receive_numbers(self) -> list[int]:
        """The same, with the places of the answered messages in the pool."""
        end = self._read()
        buffer, unpack, good = self._buffer, self._head.unpack_from, self._good
        is_binary = self.pool.form.binary
        numbers: list[int] = []
        at = 0
        whole = end - self._head.size
        while at <= whole:
            size, head = unpack(buffer, at)
            after = at + 4 + size
            if after > end:
                break
            if head != good:
                self._refused(at, after)
            if head == GOOD_BINARY and is_binary:
                numbers.append(BINARY_OPAQUE.unpack_from(buffer, at)[0] - FIRST_OPAQUE)
            else:  # a refusal may come in JSON whatever was asked
                opaque_at = buffer.index(JSON_OPAQUE, at, after) + len(JSON_OPAQUE)
                numbers.append(int(buffer[opaque_at : opaque_at + OPAQUE_DIGITS]) - FIRST_OPAQUE)
            at = after
        self._keep(at, end)
        self.answered += len(numbers)
        return numbers

    def _read(self) -> int:
        """Receive behind what was kept; the end of what is there."""
        received = self.connection.recv_into(self._view[self._kept_bytes :])
        if not received:
            raise BadAnswer("the server closed the connection")
        return self._kept_bytes + received

    def _keep(self, at: int, end: int) -> None:
        self._kept_bytes = end - at
        if at and at < end:
            self._buffer[: end - at] = self._buffer[at:end]

    def _refused(self, at: int, after: int) -> None:
        answer = bytes(self._buffer[at + 4 : after])
        code = answer_code(answer)
        if code != SUCCESS:  # else a good answer with its fields in another order
            self.refused[code] += 1
            self.first_refusal = self.first_refusal or answer


def run_full(
    senders: Sequence[Sender], *, in_flight: int, seconds: float, warm_up_s: float, server_pid: int
) -> Outcome:
    """As many as the server takes, `in_flight` on each connection."""

    def turn(until: float) -> None:
        while (left := until - time.perf_counter()) > 0:
            for sender in _ready(senders, left):
                sender.issue(sender.receive())

    with _measuring(senders, server_pid) as measured:
        for sender in senders:
            sender.issue(in_flight)
        turn(time.perf_counter() + warm_up_s)
        measured.start()
        for until in slice_ends(time.perf_counter(), seconds):
            turn(until)
            measured.cut()
    return Outcome(measured.slices)


def run_count(senders: Sequence[Sender], *, in_flight: int, count: int, server_pid: int) -> Outcome:
    """So many messages and no more; returns when all are answered."""
    with _measuring(senders, server_pid) as measured:
        measured.start()
        share = count // len(senders)
        last = {sender: sender.issued + share for sender in senders}
        for sender in senders:
            sender.issue(min(in_flight, share))
        while any(sender.in_flight for sender in senders):
            for sender in _ready(senders, STALL_TIMEOUT_S, must=True):
                answered = sender.receive()
                sender.issue(min(answered, last[sender] - sender.issued))
        measured.cut()
    return Outcome(measured.slices)


def run_paced(senders: Sequence[Sender], *, rate: float, seconds: float, warm_up_s: float, server_pid: int) -> Outcome:
    """So many a second, evenly, the connections in turn; latencies count from the time a message was due."""
    latencies: list[float] = []
    step_s = len(senders) / rate  # between two messages of one connection
    before = [sender.issued for sender in senders]
    start = time.perf_counter() + 0.01

    def turn(until: float) -> None:
        while (now := time.perf_counter()) < until:
            for number, sender in enumerate(senders):
                due = int((now - start) / step_s - number / len(senders)) + 1 - (sender.issued - before[number])
                # Messages are told apart by their place in the pool, so less than a pool may be in flight.
                room = sender.pool.frame_count - 1 - sender.in_flight
                if due > 0 and room > 0:
                    sender.issue(min(due, room))
            for sender in _ready(senders, TICK_S):
                places = sender.receive_numbers()
                note(sender, places, time.perf_counter() - start)

    def note(sender: Sender, places: list[int], now: float) -> None:
        number = senders.index(sender)
        newest, pool_frames = sender.issued - 1, sender.pool.frame_count
        offset = before[number]
        first = number / len(senders)
        latencies.extend(
            [now - (newest - (newest - place) % pool_frames - offset + first) * step_s for place in places]
        )

    with _measuring(senders, server_pid) as measured:
        turn(start + warm_up_s)
        latencies.clear()
        measured.start()
        for until in slice_ends(start + warm_up_s, seconds):
            turn(until)
            measured.cut(latencies)
            latencies.clear()
    return Outcome(measured.slices)


def _ready(senders: Sequence[Sender], timeout_s: float, *, must: bool = False) -> list[Sender]:
    """Those with something to read; what can be written is written on the way."""
    writing = {sender.connection: sender for sender in senders if sender.wants_write}
    reading = {sender.connection: sender for sender in senders}
    readable, writable, _ = select.select(reading, writing, (), timeout_s)
    if must and not readable and not writable:
        raise BadAnswer(f"no answer within {timeout_s:g} s to {sum(sender.in_flight for sender in senders)} messages")
    for connection in writable:
        writing[connection].send()
    return [reading[connection] for connection in readable]


class _Measured:
    def __init__(self, senders: Sequence[Sender], server_pid: int) -> None:
        self.slices: list[Slice] = []
        self._senders = senders
        self._meter = Meter(server_pid)

    def start(self) -> None:
        self._meter.start()
        self._answered, self._refused = self._counts()

    def cut(self, latencies_s: Sequence[float] = ()) -> None:
        answered, refused = self._counts()
        newly_refused = refused - self._refused
        count = answered - self._answered - newly_refused.total()
        self.slices.append(self._meter.cut(count, refused=newly_refused, latencies_s=latencies_s))
        self._answered, self._refused = answered, refused

    def _counts(self) -> tuple[int, Counter[int]]:
        answered = sum(sender.answered for sender in self._senders)
        return answered, sum((sender.refused for sender in self._senders), Counter())


@contextmanager
def _measuring(senders: Sequence[Sender], server_pid: int) -> Iterator[_Measured]:
    """Without the garbage collector's pauses; at the end, wait until nothing is in flight."""
    gc.disable()
    try:
        yield _Measured(senders, server_pid)
        while any(sender.in_flight for sender in senders):
            for sender in _ready(senders, STALL_TIMEOUT_S, must=True):
                sender.receive()
    finally:
        gc.enable()
