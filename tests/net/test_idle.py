"""120 seconds without a read and without a write end a connection; either one keeps it."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.net import Client, ClientOptions, Server, ServerOptions
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.frames import Frame, encode_frame
from tests.net.support import ECHO, LOOPBACK, EchoService, address_of, raw_peer, until


async def test_a_server_closes_a_connection_that_is_idle_for_120_seconds() -> None:
    clock = ManualClock()
    async with await Server.start(LOOPBACK, EchoService().dispatcher, clock=clock) as server, raw_peer(server) as peer:
        peer.send(Frame(ECHO))
        await peer.receive()
        (connection,) = server.connections
        await clock.advance(119)
        assert not connection.is_closed
        await clock.advance(11)  # one interval of the timer later at most
        assert connection.close_reason == "idle for 120 s"
        assert await peer.is_hung_up()


async def test_reads_keep_a_connection_even_half_a_frame() -> None:
    clock = ManualClock()
    frame, patient = encode_frame(Frame(ECHO)), ServerOptions(frame_s=1000)
    server = await Server.start(LOOPBACK, EchoService().dispatcher, clock=clock, options=patient)
    async with server, raw_peer(server) as peer:
        for byte in frame[:5]:
            peer.send_bytes(bytes([byte]))
            await asyncio.sleep(0.01)
            await clock.advance(100)
        (connection,) = server.connections
        assert not connection.is_closed
        await clock.advance(130)
        assert connection.is_closed


async def test_writes_keep_a_connection() -> None:
    clock = ManualClock()
    async with await Server.start(LOOPBACK, EchoService().dispatcher, clock=clock) as server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        for number in range(5):
            connection.send_oneway(Frame(40, opaque=number))
            await clock.advance(100)
            await peer.receive()
        assert not connection.is_closed


async def test_a_large_answer_on_a_slow_line_keeps_a_connection_as_long_as_it_moves() -> None:
    clock = ManualClock()
    options = ServerOptions(idle_s=120, write_stall_s=10_000, socket_send_bytes=64 << 10)
    server = await Server.start(LOOPBACK, EchoService().dispatcher, clock=clock, options=options)
    async with server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        connection.send_later(Frame(0, opaque=1, flag=1, body=bytes(15 << 20)))
        await clock.settle()
        for _ in range(4):
            await clock.advance(100)
            unsent_bytes = connection.unsent_bytes
            while connection.unsent_bytes == unsent_bytes:
                assert await peer.reader.read(65_536)
                await asyncio.sleep(0)
        assert not connection.is_closed
        assert connection._outbox.write_count == 1
        await clock.advance(130)
        assert connection.close_reason == "idle for 120 s"
        peer.writer.transport.abort()


@pytest.mark.parametrize("idle_s", [0.0, 10.0])
async def test_the_limit_is_an_option_and_0_means_never(idle_s: float) -> None:
    clock = ManualClock()
    options = ServerOptions(idle_s=idle_s)
    server = await Server.start(LOOPBACK, EchoService().dispatcher, clock=clock, options=options)
    async with server, raw_peer(server):
        await until(lambda: server.connections)
        (connection,) = server.connections
        await clock.advance(1000)
        assert connection.is_closed == bool(idle_s)


async def test_a_client_closes_its_idle_connection_and_makes_a_new_one_when_needed() -> None:
    clock = ManualClock()
    client = Client(clock=clock, options=ClientOptions(idle_s=120))
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, client:
        await client.request(address_of(server), Frame(ECHO), 3)
        first = client.find(address_of(server))
        await clock.advance(130)
        assert client.find(address_of(server)) is None
        await client.request(address_of(server), Frame(ECHO), 3)
        assert client.find(address_of(server)) is not first


async def test_a_closed_connection_leaves_no_timer() -> None:
    clock = ManualClock()
    async with await Server.start(LOOPBACK, EchoService().dispatcher, clock=clock) as server:
        async with Client(clock=clock) as client:
            await client.request(address_of(server), Frame(ECHO), 3)
        await until(lambda: not server.connections)
    assert clock.timer_count == 0
