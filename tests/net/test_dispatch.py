"""What becomes of a request: answered at once, later, with a failure, or not at all."""

from __future__ import annotations

import asyncio
import logging

import pytest

from skyrocketmq.errors import ProtocolError, SystemBusy, broker_error
from skyrocketmq.net import Client, Connection, Dispatcher, Server
from skyrocketmq.net.dispatch import REPLY_BYTES_TOGETHER_MAX
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.frames import Encoding, Frame, encode_frame
from tests.net.support import BIG, ECHO, FAIL, LOOPBACK, SLOW, EchoService, address_of, raw_peer, until

UNKNOWN = 4242


async def test_a_request_that_is_answered_at_once_makes_no_task() -> None:
    tasks_seen: list[int] = []
    dispatcher = Dispatcher()

    def count_tasks(frame: Frame, connection: Connection) -> Frame:
        tasks_seen.append(server.task_count)
        return frame.reply()

    dispatcher.register(ECHO, count_tasks)
    async with await Server.start(LOOPBACK, dispatcher) as server, raw_peer(server) as peer:
        tasks_before = len(asyncio.all_tasks())
        peer.send(*[Frame(ECHO, opaque=number) for number in range(50)])
        for _ in range(50):
            await peer.receive()
        assert len(asyncio.all_tasks()) == tasks_before
    assert tasks_seen == [0] * 50


async def test_all_replies_to_one_buffer_leave_in_one_write() -> None:
    """On a clock that stands still: on a busy machine the connection's turn could end in between."""
    service = EchoService()
    async with (
        await Server.start(LOOPBACK, service.dispatcher, clock=ManualClock()) as server,
        raw_peer(server) as peer,
    ):
        peer.send(*[Frame(ECHO, opaque=number) for number in range(100)])
        for _ in range(100):
            await peer.receive()
        (connection,) = server.connections
        assert connection._outbox.write_count == 1


async def test_answers_that_come_later_in_one_turn_of_the_loop_leave_in_one_write() -> None:
    service = EchoService()
    async with await Server.start(LOOPBACK, service.dispatcher) as server, raw_peer(server) as peer:
        peer.send(*[Frame(SLOW, opaque=number) for number in range(100)])
        await until(lambda: service.slow_count == 100)
        service.released.set()
        for _ in range(100):
            await peer.receive()
        (connection,) = server.connections
        assert connection._outbox.write_count == 1


async def test_an_unknown_code_is_answered_with_code_3_even_one_way() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, raw_peer(server) as peer:
        peer.send(Frame(UNKNOWN, opaque=1, encoding=Encoding.BINARY), Frame(UNKNOWN, opaque=2, flag=2))
        replies = [await peer.receive(), await peer.receive()]
    assert [(reply.code, reply.opaque, reply.flag) for reply in replies] == [(3, 1, 1), (3, 2, 1)]
    assert replies[0].remark == "request type 4242 not supported"
    assert replies[0].encoding is Encoding.JSON  # what the transport makes up is JSON


async def test_a_server_may_keep_silent_about_unknown_codes() -> None:
    service = EchoService()
    service.dispatcher.answer_unknown = False
    async with await Server.start(LOOPBACK, service.dispatcher) as server, raw_peer(server) as peer:
        peer.send(Frame(UNKNOWN, opaque=1), Frame(ECHO, opaque=2))
        assert (await peer.receive()).opaque == 2


async def test_a_client_without_handlers_answers_code_3() -> None:
    async def ask(frame: Frame, connection: Connection) -> Frame:
        answer = await connection.request(Frame(UNKNOWN), 3)
        return frame.reply(body=b"%d" % answer.code)

    dispatcher = Dispatcher()
    dispatcher.register(1, ask)
    async with await Server.start(LOOPBACK, dispatcher) as server, Client() as client:
        assert (await client.request(address_of(server), Frame(1), 3)).body == b"3"


async def test_the_default_handler_gets_what_no_other_has() -> None:
    dispatcher = Dispatcher(default=lambda frame, connection: frame.reply(body=b"default"))
    async with await Server.start(LOOPBACK, dispatcher) as server, Client() as client:
        assert (await client.request(address_of(server), Frame(UNKNOWN), 3)).body == b"default"


async def test_a_handler_that_raises_is_answered_with_code_1_and_says_where(caplog: pytest.LogCaptureFixture) -> None:
    async def fail_later(frame: Frame, connection: Connection) -> Frame:
        await asyncio.sleep(0)
        raise KeyError("later")

    service = EchoService()
    service.dispatcher.register(1, fail_later)
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client() as client:
        at_once = await client.request(address_of(server), Frame(FAIL, encoding=Encoding.BINARY), 3)
        later = await client.request(address_of(server), Frame(1), 3)
    assert at_once.code == later.code == 1
    assert (at_once.remark or "").startswith("ValueError: this handler always fails, at fail line ")
    assert (later.remark or "").startswith("KeyError: 'later', at fail_later line ")
    assert at_once.encoding is Encoding.JSON
    assert [record.message for record in caplog.records].count("request failed") == 2


async def test_what_a_peer_got_wrong_is_answered_so_and_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read(frame: Frame, connection: Connection) -> Frame:
        raise ProtocolError("a body of 3 bytes where a table belongs")

    dispatcher = Dispatcher()
    dispatcher.register(1, read)
    async with await Server.start(LOOPBACK, dispatcher) as server, Client() as client:
        answer = await client.request(address_of(server), Frame(1, body=b"abc"), 3)
    assert (answer.code, answer.remark) == (1, "request 1 is not understood: a body of 3 bytes where a table belongs")
    (logged,) = [record for record in caplog.records if record.message == "request not understood"]
    assert logged.exc_info is None


async def test_a_broker_error_is_answered_with_its_own_code_and_remark() -> None:
    def busy(frame: Frame, connection: Connection) -> Frame:
        raise SystemBusy(2, "[REJECTREQUEST] the page cache is busy")

    async def missing(frame: Frame, connection: Connection) -> Frame:
        raise broker_error(17, "no such topic")

    dispatcher = Dispatcher()
    dispatcher.register(1, busy)
    dispatcher.register(2, missing)
    async with await Server.start(LOOPBACK, dispatcher) as server, Client() as client:
        first = await client.request(address_of(server), Frame(1), 3)
        second = await client.request(address_of(server), Frame(2), 3)
    assert (first.code, first.remark) == (2, "[REJECTREQUEST] the page cache is busy")
    assert (second.code, second.remark) == (17, "no such topic")


async def test_failures_of_oneway_requests_are_logged_and_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, raw_peer(server) as peer:
        peer.send(Frame(FAIL, opaque=1, flag=2), Frame(ECHO, opaque=2))
        assert (await peer.receive()).opaque == 2
    assert "request failed" in [record.message for record in caplog.records]


async def test_a_handler_whose_own_wait_is_cancelled_is_answered_with_code_1() -> None:
    async def waits_for_something_cancelled(frame: Frame, connection: Connection) -> Frame:
        never: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        never.cancel()
        return await never

    dispatcher = Dispatcher()
    dispatcher.register(1, waits_for_something_cancelled)
    async with await Server.start(LOOPBACK, dispatcher) as server, Client() as client:
        reply = await client.request(address_of(server), Frame(1), 3)
    assert reply.code == 1
    assert (reply.remark or "").startswith("CancelledError")


async def test_above_the_limit_of_requests_in_flight_the_answer_is_busy() -> None:
    service = EchoService()
    service.dispatcher.in_flight_max = 3
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client() as client:
        slow = [asyncio.create_task(client.request(address_of(server), Frame(SLOW), 5)) for _ in range(3)]
        await until(lambda: service.slow_count == 3)
        refused = await client.request(address_of(server), Frame(SLOW), 5)
        at_once = await client.request(address_of(server), Frame(ECHO), 5)
        service.released.set()
        await asyncio.gather(*slow)
        await until(lambda: service.dispatcher.in_flight_count == 0)
    assert refused.code == 2
    assert (refused.remark or "").startswith("[OVERLOAD]")
    assert at_once.code == 0


async def test_a_hook_may_refuse_a_request_before_its_handler_sees_it() -> None:
    service = EchoService()

    def refuse(frame: Frame, connection: Connection) -> None:
        raise broker_error(16, f"{connection.peer.partition(':')[0]} may not")

    service.dispatcher.before = refuse
    async with await Server.start(LOOPBACK, service.dispatcher) as server, Client() as client:
        reply = await client.request(address_of(server), Frame(ECHO), 3)
    assert (reply.code, reply.remark) == (16, "127.0.0.1 may not")
    assert service.received == []


async def test_an_answer_that_does_not_fit_a_frame_becomes_a_failure() -> None:
    async with await Server.start(LOOPBACK, EchoService().dispatcher) as server, Client() as client:
        reply = await client.request(address_of(server), Frame(BIG, ext={"size": str(17 * 1024 * 1024)}), 3)
    assert reply.code == 1
    assert (reply.remark or "").startswith("FrameTooLarge")


async def test_a_buffer_that_asks_for_much_is_answered_in_several_writes() -> None:
    """One buffer may hold thousands of requests: their answers must not all be in memory before the first leaves."""
    service = EchoService()
    size = REPLY_BYTES_TOGETHER_MAX // 4
    requests = b"".join(encode_frame(Frame(BIG, opaque=number, ext={"size": str(size)})) for number in range(100))
    async with await Server.start(LOOPBACK, service.dispatcher) as server, raw_peer(server) as peer:
        await until(lambda: server.connections)
        (connection,) = server.connections
        used_bytes, replies = service.dispatcher.feed(requests, connection)
        assert used_bytes < len(requests)
        assert sum(map(len, replies)) < 2 * REPLY_BYTES_TOGETHER_MAX
        peer.send_bytes(requests)
        assert sorted([(await peer.receive()).opaque for _ in range(100)]) == list(range(100))


async def test_a_feed_of_ones_own_may_hand_frames_on_to_the_dispatcher() -> None:
    service = EchoService()
    batches: list[int] = []

    def feed(data: bytes, connection: Connection) -> tuple[int, list[bytes]]:
        batches.append(len(data))
        return service.dispatcher.feed(data, connection)

    async with await Server.start(LOOPBACK, feed) as server, Client() as client:
        reply = await client.request(address_of(server), Frame(ECHO, body=b"through"), 3)
    assert reply.body == b"through"
    assert len(batches) == 1


async def test_a_feed_that_fails_closes_its_connection_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    service = EchoService()

    def feed(data: bytes, connection: Connection) -> tuple[int, list[bytes]]:
        if b"poison" in data:
            raise RuntimeError("a bug")
        return service.dispatcher.feed(data, connection)

    async with await Server.start(LOOPBACK, feed) as server, raw_peer(server) as bad, raw_peer(server) as good:
        bad.send(Frame(ECHO, body=b"poison"))
        assert await bad.is_hung_up()
        good.send(Frame(ECHO, body=b"fine"))
        assert (await good.receive()).body == b"fine"
    assert [record.levelno for record in caplog.records if record.message == "feed failed"] == [logging.ERROR]
