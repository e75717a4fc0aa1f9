"""Which request a stalled loop is blamed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.net import Connection, Dispatcher, Server
from skyrocketmq.net.causes import buffer_cause
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame, encode_frame
from tests.net.support import LOOPBACK, RawPeer, raw_peer
from tests.test_loop_watch import BusyClock

QUICK, SLOW, LATER = RequestCode.GET_MAX_OFFSET, RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_CONSUME_STATS


class Service:
    """Quick requests, slow ones, and one that is slow when it has waited."""

    def __init__(self) -> None:
        self.clock = BusyClock()
        self.watch = self.clock.watch()
        self.dispatcher = Dispatcher(watch=self.watch)
        self.dispatcher.register(QUICK, lambda frame, _: frame.reply())
        self.dispatcher.register(SLOW, self.slow)
        self.dispatcher.register(LATER, self.later)

    def slow(self, frame: Frame, connection: Connection) -> Frame:
        self.clock.work(0.08)
        return frame.reply()

    async def later(self, frame: Frame, connection: Connection) -> Frame:
        await self.clock.sleep(0)
        self.clock.work(0.08)
        return frame.reply()

    async def ask(self, *frames: Frame) -> tuple[Mapping[str, object], RawPeer]:
        server = await Server.start(LOOPBACK, self.dispatcher, clock=self.clock, watch=self.watch)
        async with server, raw_peer(server) as peer:
            peer.send(*frames)
            for _ in frames:
                await peer.receive()
            (connection,) = server.connections
            assert self.watch.last_cause.get("peer", connection.peer) == connection.peer
        return self.watch.last_cause, peer


async def test_the_slow_request_among_quick_ones_is_named_with_its_topic_and_group() -> None:
    service = Service()
    quick = [Frame(QUICK, number, ext={"topic": "quick"}) for number in range(9)]
    slow = Frame(SLOW, 9, ext={"topic": "orders", "consumerGroup": "billing"})
    cause, _ = await service.ask(*quick[:5], slow, *quick[5:])
    assert service.watch.stall_count == 1
    assert (cause["request"], cause["topic"], cause["group"]) == ("GET_ALL_CONSUMER_OFFSET", "orders", "billing")


async def test_a_request_that_is_slow_after_it_has_waited_is_named() -> None:
    service = Service()
    cause, _ = await service.ask(Frame(LATER, 1, ext={"consumerGroup": "billing"}))
    assert service.watch.stall_count == 1
    assert (cause["request"], cause["group"]) == ("GET_CONSUME_STATS", "billing")


async def test_quick_requests_are_no_stall_however_many() -> None:
    service = Service()
    await service.ask(*[Frame(QUICK, number) for number in range(500)])
    assert service.watch.stall_count == 0


async def test_a_feed_of_its_own_is_named_by_the_most_frequent_request_of_its_buffer() -> None:
    clock = BusyClock()
    watch = clock.watch()

    def feed(data: bytes, connection: Connection) -> tuple[int, Sequence[bytes]]:
        clock.work(0.08)
        return len(data), [encode_frame(Frame(0, 1, flag=1))]

    async with await Server.start(LOOPBACK, feed, clock=clock, watch=watch) as server, raw_peer(server) as peer:
        sends = [Frame(RequestCode.SEND_MESSAGE_V2, number, ext={"a": "p", "b": "orders"}) for number in range(3)]
        peer.send(Frame(QUICK, 9), *sends)
        await peer.receive()
    assert watch.stall_count >= 1
    assert watch.last_cause["request"] == "SEND_MESSAGE_V2"
    assert (watch.last_cause["topic"], watch.last_cause["group"]) == ("orders", "p")


@pytest.mark.parametrize("data", [b"", b"\0\0\0\x20half", b"\xff" * 64, b"\0\0\0\x08\0\0\0\x04{[}]"])
def test_bytes_that_are_no_frame_are_named_by_their_length(data: bytes) -> None:
    assert buffer_cause(data, "peer")["bytes"] == len(data)


def test_good_frames_before_a_bad_one_are_named() -> None:
    good = encode_frame(Frame(QUICK, 1, ext={"topic": "orders"}))
    bad = b"\0\0\0\x0c\0\0\0\x04{[}]"
    assert buffer_cause(good + bad, "peer")["topic"] == "orders"


def test_a_code_without_a_name_and_texts_of_any_length_can_be_shown() -> None:
    cause = buffer_cause(encode_frame(Frame(31999, 1, ext={"topic": "x" * 10_000})), "peer")
    assert (cause["request"], len(str(cause["topic"]))) == ("31999", 127)


def test_the_limit_is_the_configured_one() -> None:
    clock = BusyClock()
    watch = LoopWatch(clock, limit_s=0.2, cpu_s=lambda: clock.cpu_s)
    for seconds in (0.19, 0.21):
        started = watch.begin()
        clock.work(seconds)
        watch.end(started, dict)
    assert watch.stall_count == 1
