"""A network that fails on demand: connections through it can be refused, delayed, stalled, cut, or lose bytes.

    link = FaultyLink(clock=clock)
    client = Client(link=link, clock=clock)
    link.stall(Direction.IN)         # nothing arrives any more; the peer cannot tell
    link.cut()                       # every connection breaks

Directions are those of the side that uses the link: IN is what it would receive. What is set on the link holds for the
connections it has and for those to come; what is set on one `FaultyConnection` holds for that one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, cast

from skyrocketmq.ports import Bound, Clock, Link, SystemClock, TcpLink, Timer

__all__ = ["Direction", "FaultyConnection", "FaultyLink"]


class Direction(Enum):
    IN = "in"
    OUT = "out"


class FaultyLink:
    """A `Link` around another one. `connections` are those open now, dialled and accepted."""

    def __init__(self, link: Link | None = None, *, clock: Clock | None = None) -> None:
        self._link = link or TcpLink()
        self._clock = clock or SystemClock()
        self._stalled: set[Direction] = set()
        self._delay_s = 0.0
        self.is_refusing = False  # dialling fails, and whoever dials us is hung up on
        self.dial_count = 0
        self.passed_count = 0  # times that a connection was made, or bytes or their end passed, in either direction
        self.connections: list[FaultyConnection] = []

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        self.dial_count += 1
        if self._delay_s:
            await self._clock.sleep(self._delay_s)
        if self.is_refusing:
            raise ConnectionRefusedError(f"{host}:{port} refuses on demand")
        _, wrapper = await self._link.connect(lambda: self._wrap(factory()), host, port)
        connection = cast(FaultyConnection, wrapper)
        return connection.transport, connection.protocol

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], bound: Bound, *, backlog: int
    ) -> asyncio.AbstractServer:
        return await self._link.listen(lambda: self._wrap(factory()), bound, backlog=backlog)

    def bind(self, host: str, port: int, *, backlog: int) -> Bound:
        return self._link.bind(host, port, backlog=backlog)

    async def resolve(self, host: str) -> str:
        return await self._link.resolve(host)

    def _wrap(self, protocol: asyncio.Protocol) -> FaultyConnection:
        connection = FaultyConnection(self, protocol, self._clock)
        connection.delay(self._delay_s)
        for direction in self._stalled:
            connection.stall(direction)
        return connection

    def cut(self) -> None:
        """Break every connection."""
        for connection in list(self.connections):
            connection.cut()

    def delay(self, seconds: float) -> None:
        """Everything takes so much longer, in both directions and when dialling."""
        self._delay_s = seconds
        for connection in self.connections:
            connection.delay(seconds)

    def stall(self, *directions: Direction) -> None:
        """Nothing passes in these directions (both if none is named), and nobody is told."""
        self._stalled |= set(directions or Direction)
        for connection in self.connections:
            connection.stall(*directions)

    def release(self) -> None:
        """Stalled bytes arrive."""
        self._stalled.clear()
        for connection in list(self.connections):
            connection.release()


class FaultyConnection(asyncio.Protocol):
    """One connection through the link: stands between the real transport and the protocol that uses it."""

    def __init__(self, link: FaultyLink, protocol: asyncio.Protocol, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._real: asyncio.Transport
        self.protocol = protocol
        self.transport = _FaultyTransport(self)
        self.incoming = _Way(clock, self._receive, self._incoming_eof)
        self.outgoing = _Way(clock, self._write, self._close)

    def cut(self) -> None:
        """Break this connection: both ends notice at once."""
        self.incoming.stop()
        self.outgoing.stop()
        self._real.abort()

    def delay(self, seconds: float) -> None:
        self.incoming.delay_s = self.outgoing.delay_s = seconds

    def stall(self, *directions: Direction) -> None:
        for direction in directions or Direction:
            self._way(direction).is_stalled = True
        self.transport.update_reading()

    def release(self) -> None:
        for way in (self.incoming, self.outgoing):
            way.is_stalled = False
            way.pump()
        self.transport.update_reading()

    def drop(self, direction: Direction, byte_count: int) -> None:
        """Lose the next so many bytes: what follows no longer makes sense to the receiver."""
        self._way(direction).drop_bytes += byte_count

    def _way(self, direction: Direction) -> _Way:
        return self.incoming if direction is Direction.IN else self.outgoing

    # ---------------------------------------------------------------------------- called by the real transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._real = cast(asyncio.Transport, transport)
        self.transport.real = self._real
        self._link.connections.append(self)
        self._link.passed_count += 1
        self.protocol.connection_made(self.transport)
        self.transport.update_reading()
        if self._link.is_refusing:
            self.cut()

    def data_received(self, data: bytes) -> None:
        self.incoming.put(data)

    def eof_received(self) -> bool:
        self.incoming.put(None)
        return True  # not closed by the transport: the news may be stalled

    def _receive(self, data: bytes) -> None:
        self._link.passed_count += 1
        self.protocol.data_received(data)

    def _incoming_eof(self) -> None:
        self._link.passed_count += 1
        if not self.protocol.eof_received():
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._link.connections.remove(self)
        self.incoming.stop()
        self.outgoing.stop()
        self.protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self.transport.real_is_full = True
        self.transport.tell_protocol()

    def resume_writing(self) -> None:
        self.transport.real_is_full = False
        self.transport.tell_protocol()

    # ------------------------------------------------------------------------------- called by the faulty transport

    def _write(self, data: bytes) -> None:
        self._link.passed_count += 1
        self._real.write(data)
        self.transport.tell_protocol()

    def _close(self) -> None:
        self._link.passed_count += 1
        self._real.close()


class _Way:
    """Bytes in one direction. The end of the stream is the last thing on its way."""

    def __init__(self, clock: Clock, deliver: Callable[[bytes], object], end: Callable[[], object]) -> None:
        self._clock = clock
        self._deliver = deliver
        self._end = end
        self._queue: deque[tuple[float, bytes | None]] = deque()
        self._timer: Timer | None = None
        self.delay_s = 0.0
        self.drop_bytes = 0
        self.is_stalled = False
        self.is_paused = False

    @property
    def queued_bytes(self) -> int:
        return sum(len(data) for _, data in self._queue if data is not None)

    def put(self, data: bytes | None) -> None:
        if data is not None and self.drop_bytes:
            dropped = min(self.drop_bytes, len(data))
            self.drop_bytes -= dropped
            data = data[dropped:]
            if not data:
                return
        self._queue.append((self._clock.monotonic() + self.delay_s, data))
        self.pump()

    def pump(self) -> None:
        """Deliver what is due."""
        while self._queue and not self.is_stalled and not self.is_paused:
            due_at, data = self._queue[0]
            wait_s = due_at - self._clock.monotonic()
            if wait_s > 0:
                if self._timer is None:
                    self._timer = self._clock.call_later(wait_s, self._timer_fired)
                return
            self._queue.popleft()
            if data is None:
                self._end()
            else:
                self._deliver(data)

    def _timer_fired(self) -> None:
        self._timer = None
        self.pump()

    def stop(self) -> None:
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _FaultyTransport(asyncio.Transport):
    """What the protocol sees as its transport."""

    def __init__(self, connection: FaultyConnection) -> None:
        super().__init__()
        self.real: Any = None
        self._is_reading = True
        self._connection = connection
        self._high_bytes = 64 * 1024
        self._low_bytes = 16 * 1024
        self._has_told_full = False
        self._is_closing = False
        self.real_is_full = False

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._connection.outgoing.put(bytes(data))
            self.tell_protocol()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def tell_protocol(self) -> None:
        """Let the protocol know when it should stop writing, and when it may go on."""
        queued_bytes = self._connection.outgoing.queued_bytes
        if not self._has_told_full and (self.real_is_full or queued_bytes > self._high_bytes):
            self._has_told_full = True
            self._connection.protocol.pause_writing()
        elif self._has_told_full and not self.real_is_full and queued_bytes <= self._low_bytes:
            self._has_told_full = False
            self._connection.protocol.resume_writing()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._connection.incoming.stop()
            self._connection.incoming.is_paused = True
            self._connection.outgoing.put(None)

    def abort(self) -> None:
        self._is_closing = True
        self.real.abort()

    def is_closing(self) -> bool:
        return self._is_closing or bool(self.real.is_closing())

    def get_write_buffer_size(self) -> int:
        return self._connection.outgoing.queued_bytes + int(self.real.get_write_buffer_size())

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.real.set_write_buffer_limits(high, low)
        self._low_bytes, self._high_bytes = self.real.get_write_buffer_limits()

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._connection.incoming.is_paused = True
        self.update_reading()

    def resume_reading(self) -> None:
        self._connection.incoming.is_paused = False
        self._connection.incoming.pump()
        self.update_reading()

    def update_reading(self) -> None:
        """Take nothing from the kernel while nothing may pass, so that the peer feels it in the end."""
        way = self._connection.incoming
        should_read = not way.is_paused and not way.is_stalled
        if self.real is None or self.real.is_closing() or should_read is self._is_reading:
            return
        self._is_reading = should_read
        if should_read:
            self.real.resume_reading()
        else:
            self.real.pause_reading()

    def is_reading(self) -> bool:
        return not self._connection.incoming.is_paused

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.real.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        raise NotImplementedError("a faulty connection keeps its protocol")

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._connection.protocol
