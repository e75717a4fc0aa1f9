"""A peer that is slow is served slowly; one that stands still is cut off; memory stays where it was."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.errors import RequestTimeout, TooManyRequests
from skyrocketmq.net import Client, ClientOptions, Pause, Server, ServerOptions
from skyrocketmq.testing import Direction, FaultyLink, ManualClock
from skyrocketmq.wire.frames import Frame
from tests.net.support import BIG, ECHO, LOOPBACK, SLOW, EchoService, RawPeer, address_of, raw_peer, until
from tests.waiting import breathe

KIB = 1024
MIB = 1024 * KIB


def ask_for(size: int, count: int) -> list[Frame]:
    return [Frame(BIG, opaque=number, ext={"size": str(size)}) for number in range(count)]


async def stop_reading(server: Server, peer: RawPeer) -> None:
    """Ask for far more than the kernel's buffers hold, read nothing, and wait until the server no longer reads."""
    (connection,) = server.connections
    for _ in range(200):
        peer.send(*ask_for(256 * KIB, 10))
        await asyncio.sleep(0.005)
        if connection.is_paused:
            return
    pytest.fail("the server goes on reading from a peer that does not read")


async def test_a_peer_that_does_not_read_is_not_read_from_and_memory_stays_bounded() -> None:
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        await stop_reading(server, peer)
        peer.send(*ask_for(1 * MIB, 200))
        await asyncio.sleep(0.1)
        (connection,) = server.connections
        assert connection.unsent_bytes < 4 * MIB
        peer.writer.transport.abort()


async def test_a_slow_peer_gets_everything_once_it_reads() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        peer.send(*ask_for(256 * KIB, 200))
        (connection,) = server.connections
        await until(lambda: connection.is_paused)
        bodies = [len((await peer.receive()).body) for _ in range(200)]
        assert bodies == [256 * KIB] * 200
        await until(lambda: not connection.is_paused)


async def test_what_is_collected_leaves_at_the_high_mark_and_not_only_at_the_end_of_the_turn() -> None:
    options = ServerOptions(write_high_bytes=100 * KIB, write_low_bytes=1 * KIB)
    server = await Server.start(LOOPBACK, EchoService().dispatcher, options=options)
    async with server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        answers = [Frame(0, opaque=number, flag=1, body=bytes(60 * KIB)) for number in range(3)]
        written = [connection.send_later(frame) and connection._outbox.write_count for frame in answers]
        assert written == [0, 1, 1], "nothing is awaited here: all of it is one turn of the loop"
        assert [(await peer.receive()).opaque for _ in answers] == [0, 1, 2]


async def test_a_peer_that_takes_nothing_for_the_stall_limit_is_cut_off() -> None:
    clock = ManualClock()
    options = ServerOptions(write_stall_s=30)
    service = EchoService()
    server = await Server.start(LOOPBACK, service.dispatcher, clock=clock, options=options)
    async with server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        peer.send(*ask_for(1 * MIB, 60))
        await until(lambda: connection.is_paused)
        await asyncio.sleep(0.1)  # until the kernel's buffers are full and nothing moves
        await clock.advance(29)
        assert connection.close_reason == ""
        await clock.advance(4)
        assert connection.close_reason == "the peer is too slow: it has read nothing for 30 s"
        async with raw_peer(server) as good:
            good.send(Frame(ECHO, body=b"goes on"))
            assert (await good.receive()).body == b"goes on"


async def test_writing_more_to_a_peer_that_takes_nothing_does_not_make_it_look_alive() -> None:
    clock = ManualClock()
    server = await Server.start(LOOPBACK, EchoService().dispatcher, clock=clock)
    async with server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        peer.send(*ask_for(1 * MIB, 60))
        await until(lambda: connection.is_paused)
        await asyncio.sleep(0.1)
        for number in range(33):
            connection.send_later(Frame(0, opaque=number, flag=1))
            await clock.advance(1)
        assert connection.close_reason == "the peer is too slow: it has read nothing for 30 s"


async def test_a_peer_that_takes_a_little_now_and_then_is_not_cut_off() -> None:
    clock = ManualClock()
    options = ServerOptions(write_stall_s=30, socket_send_bytes=64 * KIB)
    server = await Server.start(LOOPBACK, EchoService().dispatcher, clock=clock, options=options)
    async with server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        peer.send(*ask_for(15 * MIB, 1))
        await until(lambda: connection.is_paused)
        await asyncio.sleep(0.1)  # until the kernel's buffers are full
        for _ in range(4):
            unsent_bytes = connection.unsent_bytes
            while connection.unsent_bytes == unsent_bytes:
                await peer.reader.read(65_536)
            await clock.advance(25)
        assert connection.is_paused
        assert not connection.is_closed
        peer.writer.transport.abort()


async def test_a_peer_that_lets_too_many_bytes_pile_up_is_cut_off_at_once() -> None:
    """Answers that were held back do not ask whether there is room: a limit in bytes is their end."""
    options = ServerOptions(write_bytes_max=8 * MIB)
    server = await Server.start(LOOPBACK, EchoService().dispatcher, options=options)
    async with server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        for number in range(100):
            connection.send_later(Frame(0, opaque=number, flag=1, body=bytes(1 * MIB)))
            await asyncio.sleep(0)
        assert connection.is_closed
        assert connection.close_reason.startswith("the peer is too slow: it left ")
        assert await peer.is_hung_up()


async def test_senders_wait_while_the_peer_is_slow_and_go_on_in_turn() -> None:
    link = FaultyLink()
    client = Client(link=link, options=ClientOptions(write_high_bytes=256 * KIB, write_low_bytes=64 * KIB))
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, client:
        await client.request(address_of(server), Frame(ECHO), 3)
        connection = client.find(address_of(server))
        assert connection is not None
        link.stall(Direction.OUT)
        requests = [
            asyncio.create_task(client.request(address_of(server), Frame(ECHO, body=bytes(100 * KIB)), 10))
            for _ in range(50)
        ]
        await breathe()
        assert connection.is_full
        assert connection.unsent_bytes < 600 * KIB  # and not 5 MB
        with pytest.raises(TooManyRequests, match="not sent"):
            connection.send_oneway(Frame(ECHO))
        link.release()
        replies = await asyncio.gather(*requests)
    assert [len(reply.body) for reply in replies] == [100 * KIB] * 50


async def test_oneway_senders_wait_too_and_need_no_answer_to_go_on() -> None:
    link = FaultyLink()
    client = Client(link=link, options=ClientOptions(write_high_bytes=256 * KIB, write_low_bytes=64 * KIB))
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, client:
        await client.request(address_of(server), Frame(ECHO), 3)
        link.stall(Direction.OUT)
        senders = [
            asyncio.create_task(client.oneway(address_of(server), Frame(ECHO, body=bytes(100 * KIB)), 10))
            for _ in range(200)
        ]
        await asyncio.sleep(0.02)
        assert sum(sender.done() for sender in senders) < 5
        link.release()
        await asyncio.gather(*senders)
        await until(lambda: len(service.received) == 201)


async def test_a_sender_that_finds_no_room_gives_up_at_its_deadline() -> None:
    clock = ManualClock()
    link = FaultyLink()
    options = ClientOptions(write_high_bytes=10 * KIB, write_low_bytes=1 * KIB, close_if_timeout=False)
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher) as server,
        Client(clock=clock, link=link, options=options) as client,
    ):
        await client.request(address_of(server), Frame(ECHO), 3)
        link.stall(Direction.OUT)
        first = asyncio.create_task(client.request(address_of(server), Frame(ECHO, body=bytes(20 * KIB)), 3))
        await clock.settle()
        second = asyncio.create_task(client.request(address_of(server), Frame(ECHO), 3))
        third = asyncio.create_task(client.oneway(address_of(server), Frame(ECHO), 3))
        await clock.advance(3)
        with pytest.raises(RequestTimeout):
            await first
        for task in (second, third):
            with pytest.raises(TooManyRequests):
                await task
        link.release()


async def test_a_client_goes_on_reading_while_it_cannot_write() -> None:
    """If both ends stopped reading because they cannot write, neither would ever go on."""
    link = FaultyLink()
    options = ClientOptions(write_high_bytes=10 * KIB, write_low_bytes=1 * KIB)
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client(link=link, options=options) as client:
        slow = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 10))
        await until(lambda: service.slow_count == 1)
        link.stall(Direction.OUT)
        large = asyncio.create_task(client.request(address_of(server), Frame(ECHO, body=bytes(20 * KIB)), 10))
        connection = client.find(address_of(server))
        assert connection is not None
        await until(lambda: connection.is_full)
        service.released.set()
        await slow
        link.release()
        await large


async def test_a_peer_with_too_many_requests_in_progress_is_not_read_from_until_half_are_done() -> None:
    service = EchoService()
    options = ServerOptions(handlers_max=10)
    async with await Server.start(LOOPBACK, service.dispatcher, options=options) as server, raw_peer(server) as peer:
        peer.send(*[Frame(SLOW, opaque=number) for number in range(100)])
        await until(lambda: service.slow_count == 10)
        await breathe()
        (connection,) = server.connections
        assert (service.slow_count, connection.handler_count, connection.is_paused) == (10, 10, True)
        service.released.set()
        assert sorted([(await peer.receive()).opaque for _ in range(100)]) == list(range(100))
        assert not connection.is_paused


async def test_an_owner_may_pause_a_connection_and_nothing_is_lost() -> None:
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        connection.pause_reading()
        connection.pause_reading(Pause.HANDLERS)
        peer.send(Frame(ECHO, body=b"patience"))
        await asyncio.sleep(0.02)
        assert service.received == []
        connection.resume_reading()
        await asyncio.sleep(0.02)
        assert service.received == []  # the other reason still holds
        connection.resume_reading(Pause.HANDLERS)
        assert (await peer.receive()).body == b"patience"
