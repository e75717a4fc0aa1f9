"""What the tests of connections share: an echo server, raw peers that misbehave, waiting for a condition."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skyrocketmq.net import Connection, Dispatcher, Server
from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.waiting import PATIENCE_S
from tests.waiting import until as until

ECHO = 1001
SLOW = 1002  # answers when the test lets it
BIG = 1003  # answers with as many bytes as `size` says
FAIL = 1004

LOOPBACK = ("127.0.0.1", 0)


def open_descriptors() -> set[str]:
    """This process's open files and sockets, but for a loop's own: unix sockets, and the spare one of libuv."""
    with open("/proc/self/net/unix") as table:
        loops_own = {f"socket:[{line.split()[6]}]" for line in table.readlines()[1:]} | {"/dev/null"}
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the listing itself
        if target not in loops_own:
            found.add(f"{name} -> {target}")
    return found


class EchoService:
    """Handlers for the tests. `released` lets the slow ones answer."""

    def __init__(self) -> None:
        self.dispatcher = Dispatcher()
        self.released = asyncio.Event()
        self.slow_count = 0
        self.received: list[Frame] = []
        self.dispatcher.register(ECHO, self.echo)
        self.dispatcher.register(SLOW, self.slow)
        self.dispatcher.register(BIG, self.big)
        self.dispatcher.register(FAIL, self.fail)

    def echo(self, frame: Frame, connection: Connection) -> Frame:
        self.received.append(frame)
        return frame.reply(body=frame.body)

    async def slow(self, frame: Frame, connection: Connection) -> Frame:
        self.slow_count += 1
        await self.released.wait()
        return frame.reply(body=frame.body)

    def big(self, frame: Frame, connection: Connection) -> Frame:
        assert frame.ext is not None
        return frame.reply(body=bytes(int(frame.ext["size"] or 0)))

    def fail(self, frame: Frame, connection: Connection) -> Frame:
        raise ValueError("this handler always fails")


def address_of(server: Server) -> str:
    return f"127.0.0.1:{server.port}"


class RawPeer:
    """A peer made of a bare socket: sends any bytes, and reads only when told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []

    def send(self, *frames: Frame) -> None:
        self.writer.write(b"".join(encode_frame(frame) for frame in frames))

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> Frame:
        """The next frame that the other end sends."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._frames:
                data = await self.reader.read(262_144)
                if not data:
                    raise EOFError
                self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    async def is_hung_up(self) -> bool:
        """Read until the other end closes; False if it does not in time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await self.reader.read(262_144):
                    pass
            return True
        except TimeoutError:
            return False
        except ConnectionError:
            return True


@asynccontextmanager
async def raw_peer(server: Server, *, read_buffer_bytes: int = 65_536) -> AsyncIterator[RawPeer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=read_buffer_bytes)
    try:
        yield RawPeer(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            pass
