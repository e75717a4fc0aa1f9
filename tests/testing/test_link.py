from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from skyrocketmq.net.listeners import bind
from skyrocketmq.ports import Link, TcpLink
from skyrocketmq.testing import Direction, FaultyLink, ManualClock


class Talker(asyncio.Protocol):
    """Notes what happens to it."""

    def __init__(self) -> None:
        self.received = b""
        self.events: list[str] = []
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> None:
        self.events.append("eof")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set()


class Echo(Talker):
    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Network:
    """An echo server on an honest network, and a faulty link to it."""

    def __init__(self, port: int, clock: ManualClock, link: FaultyLink, servers: list[Echo]) -> None:
        self.port = port
        self.clock = clock
        self.link = link
        self.servers = servers

    async def dial(self) -> Talker:
        _, protocol = await self.link.connect(Talker, "127.0.0.1", self.port)
        return cast(Talker, protocol)


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    servers: list[Echo] = []

    def accept() -> Echo:
        servers.append(Echo())
        return servers[-1]

    clock = ManualClock()
    bound = bind("127.0.0.1", 0)
    listener = await TcpLink().listen(accept, bound, backlog=16)
    link = FaultyLink(clock=clock)
    yield Network(bound.port, clock, link, servers)
    link.cut()
    listener.close()
    for server in servers:
        await asyncio.wait_for(server.lost.wait(), 3)
    await listener.wait_closed()
    assert link.connections == []


async def settle() -> None:
    """Long enough for a loopback connection to carry what was written."""
    await asyncio.sleep(0.02)


def test_it_is_a_link() -> None:
    assert isinstance(FaultyLink(), Link)


async def test_left_alone_it_carries_everything(network: Network) -> None:
    talker = await network.dial()
    talker.transport.writelines([b"a", b"b", memoryview(b"c")])
    await settle()
    assert talker.received == b"abc"
    assert talker.transport.get_extra_info("peername") == ("127.0.0.1", network.port)


async def test_it_refuses_on_demand(network: Network) -> None:
    network.link.is_refusing = True
    with pytest.raises(ConnectionRefusedError):
        await network.dial()
    network.link.is_refusing = False
    await network.dial()
    assert network.link.dial_count == 2


async def test_delayed_bytes_come_in_order_after_their_delay(network: Network) -> None:
    talker = await network.dial()
    network.link.delay(1.0)
    talker.transport.write(b"first ")
    talker.transport.write(b"second")
    await network.clock.advance(0.9)
    await settle()
    assert talker.received == b""
    await network.clock.advance(0.1)  # out
    await settle()
    await network.clock.advance(1.0)  # and back
    await settle()
    assert talker.received == b"first second"


async def test_a_stalled_direction_holds_bytes_until_it_is_released(network: Network) -> None:
    talker = await network.dial()
    network.link.stall(Direction.IN)
    talker.transport.write(b"echo me")
    await settle()
    assert talker.received == b""
    network.link.release()
    await settle()
    assert talker.received == b"echo me"
    network.link.stall(Direction.OUT)
    later = await network.dial()  # connections to come are stalled too
    later.transport.write(b"held")
    await settle()
    assert later.received == b""
    assert later.transport.get_write_buffer_size() == 4
    network.link.release()
    await settle()
    assert later.received == b"held"


async def test_a_stalled_writer_is_told_to_stop_and_to_go_on(network: Network) -> None:
    talker = await network.dial()
    talker.transport.set_write_buffer_limits(high=1000, low=100)
    network.link.stall(Direction.OUT)
    talker.transport.write(bytes(500))
    assert talker.events == []
    talker.transport.write(bytes(600))
    assert talker.events == ["pause"]
    network.link.release()
    await settle()
    assert talker.events == ["pause", "resume"]
    assert len(talker.received) == 1100


async def test_a_stalled_reader_fills_the_pipe_behind_it(network: Network) -> None:
    """Nothing is taken from the kernel, so the peer feels it once the kernel's buffers are full."""
    talker = await network.dial()
    network.link.stall(Direction.IN)
    (server,) = network.servers
    server.transport.write(bytes(64 * 1024 * 1024))
    await settle()
    assert server.transport.get_write_buffer_size() > 0
    assert talker.received == b""


async def test_dropped_bytes_are_lost_and_the_rest_arrives(network: Network) -> None:
    talker = await network.dial()
    network.link.connections[0].drop(Direction.OUT, 3)
    talker.transport.write(b"ab")
    talker.transport.write(b"cdef")
    await settle()
    assert talker.received == b"def"


async def test_a_cut_is_noticed_at_both_ends(network: Network) -> None:
    talker = await network.dial()
    await settle()
    network.link.cut()
    await asyncio.wait_for(talker.lost.wait(), 3)
    await asyncio.wait_for(network.servers[0].lost.wait(), 3)
    assert network.link.connections == []


async def test_a_close_waits_for_stalled_bytes_and_the_end_of_the_stream_is_stalled_too(network: Network) -> None:
    talker = await network.dial()
    await settle()
    network.link.stall()
    network.servers[0].transport.write_eof()
    await settle()
    assert talker.events == []
    talker.transport.write(b"last words")
    talker.transport.close()
    await settle()
    assert talker.events == []
    network.link.release()
    await asyncio.wait_for(talker.lost.wait(), 3)


async def test_one_connection_can_be_faulty_among_good_ones(network: Network) -> None:
    good, bad = await network.dial(), await network.dial()
    network.link.connections[1].stall()
    good.transport.write(b"good")
    bad.transport.write(b"bad")
    await settle()
    assert (good.received, bad.received) == (b"good", b"")


async def test_pausing_holds_delayed_bytes_back(network: Network) -> None:
    talker = await network.dial()
    talker.transport.pause_reading()
    assert not talker.transport.is_reading()
    talker.transport.write(b"later")
    await settle()
    assert talker.received == b""
    talker.transport.resume_reading()
    await settle()
    assert talker.received == b"later"
