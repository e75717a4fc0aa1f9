"""Requests and answers on one connection, in both directions."""

from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.errors import ConnectionLost, FrameTooLarge, RequestTimeout, TooManyRequests
from skyrocketmq.net import Client, ClientOptions, Connection, Dispatcher, Server, ServerOptions
from skyrocketmq.testing import Direction, FaultyLink, ManualClock
from skyrocketmq.wire.frames import Encoding, Frame, encode_frame
from tests.net.support import ECHO, LOOPBACK, SLOW, EchoService, address_of, raw_peer, until


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_a_request_gets_its_answer_in_the_encoding_it_was_written_in(encoding: Encoding) -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, Client() as client:
        reply = await client.request(address_of(server), Frame(ECHO, body=b"hello", encoding=encoding), 3)
    assert (reply.code, reply.body, reply.flag, reply.encoding) == (0, b"hello", 1, encoding)


async def test_a_thousand_requests_are_in_flight_at_once_and_each_gets_its_own_answer() -> None:
    service = EchoService()
    options = ServerOptions(handlers_max=2000)
    async with await Server.start(LOOPBACK, service.dispatcher, options=options) as server, Client() as client:
        slow = [
            asyncio.create_task(client.request(address_of(server), Frame(SLOW, body=b"%d" % number), 5))
            for number in range(1000)
        ]
        await until(lambda: service.slow_count == 1000)
        fast = await client.request(address_of(server), Frame(ECHO, body=b"overtakes"), 5)
        service.released.set()
        replies = await asyncio.gather(*slow)
    assert fast.body == b"overtakes"
    assert [reply.body for reply in replies] == [b"%d" % number for number in range(1000)]


async def test_whoever_asks_for_something_else_gets_the_answer_to_a_send_as_a_frame() -> None:
    ext: dict[str, str | None] = {"msgId": "AB", "queueId": "3", "queueOffset": "12", "TRACE_ON": "false"}
    dispatcher = Dispatcher()
    dispatcher.register(77, lambda frame, connection: frame.reply(ext=ext))
    dispatcher.register(78, lambda frame, connection: frame.reply(ext=ext, body=b"more"))
    async with await Server.start(LOOPBACK, dispatcher) as server, Client() as client:
        like_a_send, other = await asyncio.gather(*[client.request(address_of(server), Frame(c), 3) for c in (77, 78)])
        as_it_was_read = await client.call(address_of(server), Frame(77), 3)
    assert like_a_send.ext == ext | {"transactionId": None, "MSG_REGION": None}
    assert (like_a_send.code, like_a_send.is_response, like_a_send.body) == (0, True, b"")
    assert (other.ext, other.body) == (ext, b"more")
    assert as_it_was_read == (as_it_was_read[0], "AB", 3, 12, None, None, False)  # type: ignore[index]


async def test_both_ends_of_a_connection_may_ask() -> None:
    callee = EchoService()

    async def ask_back(frame: Frame, connection: Connection) -> Frame:
        answer = await connection.request(Frame(ECHO, body=b"who are you?"), 3)
        return frame.reply(body=b"you said: " + answer.body)

    dispatcher = Dispatcher()
    dispatcher.register(77, ask_back)
    async with await Server.start(LOOPBACK, dispatcher) as server, Client(callee.dispatcher) as client:
        reply = await client.request(address_of(server), Frame(77), 3)
    assert reply.body == b"you said: who are you?"


async def test_a_oneway_request_arrives_and_is_not_answered() -> None:
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, raw_peer(server) as peer:
        peer.send(Frame(ECHO, opaque=5, flag=2, body=b"one-way"), Frame(ECHO, opaque=6, body=b"answered"))
        reply = await peer.receive()
        assert reply.opaque == 6
    assert [frame.body for frame in service.received] == [b"one-way", b"answered"]


async def test_a_client_sends_oneway_requests_with_their_flag_set() -> None:
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client() as client:
        await client.oneway(address_of(server), Frame(ECHO, body=b"one"), 3)
        connection = client.find(address_of(server))
        assert connection is not None
        connection.send_oneway(Frame(ECHO, body=b"two"))
        await until(lambda: len(service.received) == 2)
    assert [(frame.body, frame.is_oneway) for frame in service.received] == [(b"one", True), (b"two", True)]


async def test_a_request_without_an_answer_ends_at_its_deadline() -> None:
    clock = ManualClock()
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client(clock=clock) as client:
        request = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 3))
        await until(lambda: service.slow_count == 1)
        await clock.advance(2.99)
        assert not request.done()
        await clock.advance(0.02)
        with pytest.raises(
            RequestTimeout, match=rf"no answer from 127.0.0.1:{server.port} to request {SLOW} within 3 s"
        ):
            await request
        service.released.set()


async def test_an_answer_that_comes_after_the_deadline_is_ignored() -> None:
    clock = ManualClock()
    service = EchoService()
    options = ClientOptions(close_if_timeout=False)
    client = Client(clock=clock, options=options)
    async with await Server.start(LOOPBACK, service.dispatcher) as server, client:
        request = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 3))
        await until(lambda: service.slow_count == 1)
        await clock.advance(3)
        with pytest.raises(RequestTimeout):
            await request
        service.released.set()
        await asyncio.sleep(0.05)
        reply = await client.request(address_of(server), Frame(ECHO, body=b"still here"), 3)
    assert reply.body == b"still here"


async def test_strays_are_dropped_and_the_connection_goes_on() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, raw_peer(server) as peer:
        peer.send(Frame(0, opaque=12345, flag=1), Frame(ECHO, opaque=1, body=b"next"))
        assert (await peer.receive()).body == b"next"


async def test_a_hasty_request_closes_a_silent_connection_after_three_seconds_only() -> None:
    clock = ManualClock()
    link = FaultyLink()
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher) as server,
        Client(clock=clock, link=link) as client,
    ):
        await client.request(address_of(server), Frame(ECHO), 3)
        connection = client.find(address_of(server))
        for is_slow_only in (True, False):
            link.stall()
            requests = [asyncio.create_task(client.request(address_of(server), Frame(ECHO), 0.1)) for _ in range(2)]
            await clock.advance(0.1)
            for outcome in await asyncio.gather(*requests, return_exceptions=True):
                assert isinstance(outcome, RequestTimeout)
            if is_slow_only:
                link.release()
                await asyncio.sleep(0.05)
            await clock.advance(2.8)
            assert client.find(address_of(server)) is connection
            await clock.advance(0.1)
            assert client.find(address_of(server)) is (connection if is_slow_only else None)
        link.release()


async def test_a_silent_connection_is_closed_when_a_request_on_it_times_out() -> None:
    clock = ManualClock()
    link = FaultyLink()
    async with (
        await Server.start(LOOPBACK, EchoService().dispatcher) as server,
        Client(clock=clock, link=link) as client,
    ):
        await client.request(address_of(server), Frame(ECHO), 3)
        link.stall()
        request = asyncio.create_task(client.request(address_of(server), Frame(ECHO), 3))
        await clock.advance(3)
        with pytest.raises(RequestTimeout):
            await request
        assert client.find(address_of(server)) is None
        link.release()
        assert (await client.request(address_of(server), Frame(ECHO, body=b"anew"), 3)).body == b"anew"
        assert link.dial_count == 2


async def test_a_connection_that_answers_others_is_kept_when_one_request_times_out() -> None:
    clock = ManualClock()
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client(clock=clock) as client:
        slow = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 3))
        await until(lambda: service.slow_count == 1)
        connection = client.find(address_of(server))
        await client.request(address_of(server), Frame(ECHO), 3)
        await clock.advance(3)
        with pytest.raises(RequestTimeout):
            await slow
        assert client.find(address_of(server)) is connection
        service.released.set()


async def test_a_cut_connection_fails_every_request_on_it_at_once() -> None:
    link = FaultyLink()
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client(link=link) as client:
        requests = [asyncio.create_task(client.request(address_of(server), Frame(SLOW), 60)) for _ in range(20)]
        await until(lambda: service.slow_count == 20)
        link.cut()
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        service.released.set()
    assert [type(outcome) for outcome in outcomes] == [ConnectionLost] * 20


async def test_a_cancelled_request_is_forgotten() -> None:
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client() as client:
        request = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 60))
        await until(lambda: service.slow_count == 1)
        connection = client.find(address_of(server))
        assert connection is not None
        assert connection.waiting_count == 1
        request.cancel()
        await asyncio.wait([request])
        assert connection.waiting_count == 0
        service.released.set()


async def test_a_frame_that_is_too_large_is_refused_before_it_is_sent() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, Client() as client:
        with pytest.raises(FrameTooLarge):
            await client.request(address_of(server), Frame(ECHO, body=bytes(16 * 1024 * 1024)), 3)
        largest = Frame(ECHO, body=bytes(16 * 1024 * 1024 - 200))
        assert len((await client.request(address_of(server), largest, 10)).body) == len(largest.body)


async def test_more_requests_than_the_limit_wait_for_room_until_their_deadline() -> None:
    clock = ManualClock()
    service = EchoService()
    client = Client(clock=clock, options=ClientOptions(requests_max=2))
    async with await Server.start(LOOPBACK, service.dispatcher) as server, client:
        first = [asyncio.create_task(client.request(address_of(server), Frame(SLOW), 60)) for _ in range(2)]
        await until(lambda: service.slow_count == 2)
        waits = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 60))
        gives_up = asyncio.create_task(client.request(address_of(server), Frame(SLOW), 5))
        await clock.advance(5)
        with pytest.raises(TooManyRequests, match="2 requests wait for answers"):
            await gives_up
        assert service.slow_count == 2
        service.released.set()
        await asyncio.gather(*first, waits)
    assert service.slow_count == 3


async def test_frames_may_come_byte_by_byte_or_many_at_once() -> None:
    frames = [Frame(ECHO, opaque=number, body=b"%d" % number, encoding=Encoding(number % 2)) for number in range(30)]
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, raw_peer(server) as peer:
        for byte in b"".join(encode_frame(frame) for frame in frames[:3]):
            peer.send_bytes(bytes([byte]))
            await asyncio.sleep(0)
        peer.send(*frames[3:])
        assert [(await peer.receive()).body for _ in frames] == [frame.body for frame in frames]


async def test_a_link_that_loses_bytes_costs_the_connection_and_the_next_one_works() -> None:
    link = FaultyLink()
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, Client(link=link) as client:
        await client.request(address_of(server), Frame(ECHO), 3)
        link.connections[0].drop(Direction.OUT, 3)
        with pytest.raises(ConnectionLost):
            await client.request(address_of(server), Frame(ECHO, body=b"damaged"), 3)
        assert (await client.request(address_of(server), Frame(ECHO, body=b"whole"), 3)).body == b"whole"
