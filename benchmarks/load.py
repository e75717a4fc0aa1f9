"""The load generator: ready-made frames on many connections, a fixed number of them in flight on each.

Rule 1: nothing is encoded while the clock runs, and of the answers only the lengths are read, so that the generator
costs a small part of what the server does. That answers are good is checked apart: `ask` reads one whole beforehand,
and under load every answer's size must lie within the bounds that the caller got from it.
Rule 2: one thread, one epoll. What the generator used of the CPU is part of the outcome.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import observe
from benchmarks.frames import is_answer

RECEIVE_BYTES = 1 << 20
STALL_TIMEOUT_S = 10.0
LENGTH = struct.Struct(">I")


class BadAnswer(Exception):
    """An answer that does not look like the good ones, or none at all."""


@dataclass(frozen=True)
class Outcome:
    """What a stretch of load came to."""

    count: int
    seconds: float
    generator_share: float  # of one core
    server_cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def server_cpu_us(self) -> float:
        """CPU time of the server for one request."""
        return self.server_cpu_s * 1e6 / self.count


@dataclass
class Stream:
    """A connection and the frames it sends, over and over, in their order."""

    connection: socket.socket
    frames: Sequence[bytes]
    next_frame: int = 0
    unsent: deque[memoryview] = field(default_factory=deque)
    rest: bytes = b""
    wants_write: bool = False

    def take(self, count: int) -> None:
        """Put the next frames on their way out."""
        start, end = self.next_frame, self.next_frame + count
        size = len(self.frames)
        picked = [self.frames[number % size] for number in range(start, end)]
        self.next_frame = end % size
        self.unsent.append(memoryview(b"".join(picked)))

    def send(self) -> None:
        """Write as much as the socket takes."""
        while self.unsent:
            data = self.unsent[0]
            try:
                sent = self.connection.send(data)
            except BlockingIOError:
                return
            if sent == len(data):
                self.unsent.popleft()
            else:
                self.unsent[0] = data[sent:]


class Load:
    """Streams under load. It may run again and again; nothing is in flight between two runs."""

    def __init__(self, streams: Sequence[Stream], *, in_flight: int, answer_bytes: tuple[int, int]) -> None:
        """`in_flight` requests on each stream; `answer_bytes` are the smallest and largest good answers."""
        self._streams = {stream.connection.fileno(): stream for stream in streams}
        self._in_flight = in_flight
        self._answer_bytes_min, self._answer_bytes_max = answer_bytes

    def run_for(self, seconds: float, *, warm_up_s: float, server_pid: int) -> Outcome:
        """Load for a time; what comes during the warm-up is not counted. All answers are awaited at the end."""
        with self._opened() as poll:
            self._fill()
            self._turn(poll, until=time.perf_counter() + warm_up_s, refill=True)
            server_cpu_s = observe.cpu_s(server_pid)
            start, start_cpu = time.perf_counter(), time.process_time()
            count = self._turn(poll, until=start + seconds, refill=True)
            took, used = time.perf_counter() - start, time.process_time() - start_cpu
            server_cpu_s = observe.cpu_s(server_pid) - server_cpu_s
            self._drain(poll)
        return Outcome(count=count, seconds=took, generator_share=used / took, server_cpu_s=server_cpu_s)

    def run_once(self) -> Outcome:
        """Send the next `in_flight` frames of every stream, and return when all are answered."""
        with self._opened() as poll:
            start, start_cpu = time.perf_counter(), time.process_time()
            self._fill()
            count = self._drain(poll)
            took, used = time.perf_counter() - start, time.process_time() - start_cpu
        return Outcome(count=count, seconds=took, generator_share=used / took)

    def _opened(self) -> select.epoll:
        poll = select.epoll()
        for number, stream in self._streams.items():
            stream.connection.setblocking(False)
            stream.wants_write = False
            poll.register(number, select.EPOLLIN)
        return poll

    def _fill(self) -> None:
        self._waiting = 0
        for stream in self._streams.values():
            stream.take(self._in_flight)
            self._waiting += self._in_flight

    def _drain(self, poll: select.epoll) -> int:
        return self._turn(poll, until=time.perf_counter() + STALL_TIMEOUT_S, refill=False)

    def _turn(self, poll: select.epoll, *, until: float, refill: bool) -> int:
        """Keep the window full until the time is up, or, without refilling, until nothing is in flight."""
        for number, stream in self._streams.items():
            self._flush(poll, number, stream)
        total = 0
        while True:
            left = until - time.perf_counter()
            if left <= 0:
                if refill:
                    return total
                raise BadAnswer(f"{self._waiting} requests were not answered")
            for number, event in poll.poll(left):
                stream = self._streams[number]
                if event & select.EPOLLIN:
                    answered = self._receive(stream)
                    total += answered
                    if refill:
                        stream.take(answered)
                    else:
                        self._waiting -= answered
                self._flush(poll, number, stream)
            if not refill and not self._waiting:
                return total

    def _flush(self, poll: select.epoll, number: int, stream: Stream) -> None:
        stream.send()
        wants_write = bool(stream.unsent)
        if wants_write != stream.wants_write:
            stream.wants_write = wants_write
            poll.modify(number, select.EPOLLIN | (select.EPOLLOUT if wants_write else 0))

    def _receive(self, stream: Stream) -> int:
        """Read what is there and count the whole answers in it."""
        data = stream.connection.recv(RECEIVE_BYTES)
        if not data:
            raise BadAnswer("the server closed the connection")
        if stream.rest:
            data = stream.rest + data
        at = count = 0
        end = len(data)
        smallest, largest = self._answer_bytes_min, self._answer_bytes_max
        unpack = LENGTH.unpack_from
        while at + 4 <= end:
            size = unpack(data, at)[0]
            if at + 4 + size > end:
                break
            if not smallest <= size <= largest:
                raise BadAnswer(f"an answer of {size} bytes: {data[at : at + 300]!r}")
            at += 4 + size
            count += 1
        stream.rest = data[at:]
        return count


def ask(connection: socket.socket, frame: bytes) -> bytes:
    """One request and its whole answer, without the length in front; requests of the server's own are passed over."""
    connection.setblocking(True)
    connection.settimeout(STALL_TIMEOUT_S)
    connection.sendall(frame)
    return receive(connection)


def receive(connection: socket.socket) -> bytes:
    """The next answer, whole, without its length."""
    while not is_answer(answer := _read(connection, LENGTH.unpack(_read(connection, LENGTH.size))[0])):
        pass
    return answer


def _read(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(count - len(data), RECEIVE_BYTES))
        if not piece:
            raise BadAnswer("the server closed the connection")
        data += piece
    return bytes(data)


def connect(address: str, count: int) -> list[socket.socket]:
    host, _, port = address.rpartition(":")
    connections = []
    for _ in range(count):
        connection = socket.create_connection((host, int(port)), timeout=STALL_TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections.append(connection)
    return connections
