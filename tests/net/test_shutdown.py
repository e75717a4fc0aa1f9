"""Closing a server: what is being answered is answered, and then nothing is left."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from skyrocketmq.errors import ConnectFailed, ConnectionLost
from skyrocketmq.net import Client, Connection, Dispatcher, Server, ServerOptions
from skyrocketmq.testing import Direction, FaultyLink, ManualClock
from skyrocketmq.wire.frames import Frame
from tests.net.support import ECHO, LOOPBACK, SLOW, EchoService, address_of, raw_peer, until
from tests.waiting import PATIENCE_S, breathe

MIB = 1024 * 1024


async def test_requests_in_progress_are_answered_before_the_server_is_gone() -> None:
    service = EchoService()
    server = await Server.start(LOOPBACK, service.dispatcher)
    async with Client() as client:
        requests = [
            asyncio.create_task(client.request(address_of(server), Frame(SLOW, body=b"%d" % number), 10))
            for number in range(200)
        ]
        await until(lambda: service.slow_count == 200)
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0.02)
        assert not closing.done()
        service.released.set()
        await closing
        replies = await asyncio.gather(*requests)
    assert [reply.body for reply in replies] == [b"%d" % number for number in range(200)]
    assert (len(server.connections), server.task_count) == (0, 0)


async def test_a_closing_server_accepts_nobody_and_takes_no_new_request() -> None:
    service = EchoService()
    server = await Server.start(LOOPBACK, service.dispatcher)
    async with Client() as client, Client() as newcomer:
        slow = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 10))
        await until(lambda: service.slow_count == 1)
        closing = asyncio.create_task(server.close())
        await breathe()
        with pytest.raises(ConnectFailed):
            await newcomer.request(address_of(server), Frame(ECHO), 3)
        late = asyncio.create_task(client.request(address_of(server), Frame(ECHO), 10))
        await breathe()
        service.released.set()
        await closing
        await slow
        with pytest.raises(ConnectionLost):
            await late
    assert service.received == []


async def test_what_does_not_finish_within_the_grace_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    cleaned_up: list[bool] = []

    async def never(frame: Frame, connection: Connection) -> Frame:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up.append(True)
        raise AssertionError

    dispatcher = Dispatcher()
    dispatcher.register(1, never)
    server = await Server.start(LOOPBACK, dispatcher, clock=clock, options=ServerOptions(grace_s=10))
    async with Client() as client:
        request = asyncio.create_task(client.request(address_of(server), Frame(1), 60))
        await until(lambda: server.task_count == 1)
        closing = asyncio.create_task(server.close())
        await clock.advance(9.9)
        assert not closing.done()
        await clock.advance(0.2)
        await closing
        with pytest.raises(ConnectionLost):
            await request
    assert cleaned_up == [True]
    assert dispatcher.in_flight_count == 0
    assert "requests cut off by closing" in [record.message for record in caplog.records]


async def test_a_handler_cancelled_before_its_first_step_leaves_no_trace() -> None:
    service = EchoService()
    fed: list[int] = []

    def feed(data: bytes, connection: Connection) -> tuple[int, list[bytes]]:
        used_bytes, replies = service.dispatcher.feed(data, connection)
        fed.append(service.dispatcher.in_flight_count)
        for task in server._tasks._running:
            task.cancel()
        return used_bytes, replies

    async with await Server.start(LOOPBACK, feed, clock=ManualClock()) as server, raw_peer(server) as peer:
        peer.send(*[Frame(SLOW, opaque=number) for number in range(5)])
        await until(lambda: fed)
    gc.collect()  # a coroutine that was never awaited would warn here
    assert (fed, service.slow_count, service.dispatcher.in_flight_count) == ([5], 0, 0)


async def test_a_handler_goes_on_after_its_peer_has_gone() -> None:
    """A one-way request is carried out to its end, though its sender leaves as soon as it is sent."""
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server:
        async with raw_peer(server) as peer:
            peer.send(Frame(SLOW, opaque=1, flag=2))
            await until(lambda: service.slow_count == 1)
        await until(lambda: not server.connections)
        assert server.task_count == 1
        service.released.set()
        await until(lambda: server.task_count == 0)


async def test_unsent_answers_leave_before_the_close_and_a_peer_that_does_not_read_only_delays_it() -> None:
    service, clock = EchoService(), ManualClock()
    server = await Server.start(LOOPBACK, service.dispatcher, options=ServerOptions(linger_s=0.2), clock=clock)
    async with raw_peer(server) as reads, raw_peer(server) as does_not_read:
        await until(lambda: len(server.connections) == 2)
        for connection in server.connections:
            connection.send_later(Frame(0, opaque=1, flag=1, body=bytes(15 * MIB)))
        closing = asyncio.create_task(server.close())
        assert len((await reads.receive()).body) == 15 * MIB
        await breathe()
        assert not closing.done(), "the other peer has its time to read too"
        await clock.advance(0.3)
        await asyncio.wait_for(closing, PATIENCE_S)
        assert await does_not_read.is_hung_up()
    assert not server.connections


async def test_what_was_sent_before_a_close_arrives_even_in_the_same_turn_of_the_loop() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        assert connection.send_later(Frame(0, opaque=1, flag=1, body=b"goodbye"))
        connection.close()
        assert not connection.send_later(Frame(0, opaque=2, flag=1, body=b"too late"))
        assert not connection.write([b"too late"])
        assert (await peer.receive()).body == b"goodbye"
        assert await peer.is_hung_up()


async def test_a_closing_client_finishes_what_it_is_asked_and_takes_no_more() -> None:
    callee = EchoService()
    asked: list[Connection] = []
    server = await Server.start(LOOPBACK, EchoService().dispatcher, on_open=asked.append)
    async with server:
        client = Client(callee.dispatcher)
        await client.connect(address_of(server), 3)
        await until(lambda: asked)
        first = asyncio.create_task(asked[0].request(Frame(SLOW, body=b"first"), 5))
        await until(lambda: callee.slow_count == 1)
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0.01)
        second = asyncio.create_task(asked[0].request(Frame(SLOW), 5))
        await asyncio.sleep(0.02)
        assert callee.slow_count == 1
        callee.released.set()
        await closing
        assert (await first).body == b"first"
        with pytest.raises(ConnectionLost):
            await second


async def test_a_peer_that_hangs_up_one_way_and_does_not_read_is_let_go() -> None:
    options = ServerOptions(linger_s=0.2, write_high_bytes=32 * MIB)  # unsent bytes, but not so many that it is paused
    server = await Server.start(LOOPBACK, EchoService().dispatcher, options=options)
    async with server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        connection.send_later(Frame(0, opaque=1, flag=1, body=bytes(15 * MIB)))
        await asyncio.sleep(0.05)
        peer.writer.write_eof()
        await asyncio.sleep(0.05)
        assert server.connections  # its answer may yet leave
        await until(lambda: not server.connections)
        assert connection.close_reason == "closed by the peer"


async def test_a_stalled_link_does_not_hold_a_closing_server() -> None:
    clock = ManualClock()
    link = FaultyLink()
    server = await Server.start(LOOPBACK, EchoService().dispatcher, link=link, clock=clock)
    async with raw_peer(server) as peer:
        peer.send(Frame(ECHO))
        await peer.receive()
        link.stall(Direction.OUT)
        (connection,) = server.connections
        connection.send_later(Frame(0, flag=1, body=b"stuck"))
        closing = asyncio.create_task(server.close())
        await clock.advance(4.9)
        assert not closing.done()
        await clock.advance(0.2)
        await closing


async def test_closing_twice_is_harmless_and_the_port_is_free_again() -> None:
    service = EchoService()
    server = await Server.start(LOOPBACK, service.dispatcher)
    port = server.port
    await asyncio.gather(server.close(), server.close())
    await server.close()
    async with await Server.start(("127.0.0.1", port), service.dispatcher) as again:
        assert again.port == port


async def test_a_server_closes_a_thousand_connections_at_once() -> None:
    service = EchoService()
    server = await Server.start(LOOPBACK, service.dispatcher)
    writers = [(await asyncio.open_connection("127.0.0.1", server.port))[1] for _ in range(1000)]
    await until(lambda: len(server.connections) == 1000)
    await server.close()
    assert not server.connections
    for writer in writers:
        writer.close()


async def test_a_closed_connection_is_freed_at_once_and_not_by_the_next_collection() -> None:
    """Cycles would keep thousands of dead connections until the collector's next long run."""
    seen: list[weakref.ref[Connection]] = []
    service = EchoService()
    gc.disable()
    try:
        server = await Server.start(LOOPBACK, service.dispatcher, on_open=lambda made: seen.append(weakref.ref(made)))
        async with server:
            for _ in range(5):
                async with raw_peer(server) as peer:
                    peer.send(Frame(ECHO))
                    await peer.receive()
            await until(lambda: not server.connections)
            await until(lambda: not any(connection() for connection in seen))
            assert len(seen) == 5
    finally:
        gc.enable()
