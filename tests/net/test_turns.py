"""One connection's requests are handled in turns: those of others come in between, and each one's order is kept."""

from __future__ import annotations

import pytest

from skyrocketmq.net import Connection, Dispatcher, Handler, Server, Steps, in_slices
from skyrocketmq.net import connection as connection_module
from skyrocketmq.ports import SystemClock
from skyrocketmq.wire.frames import Frame, encode_frame
from tests.net.support import LOOPBACK, raw_peer

BUSY, QUIET = 11, 12


async def check_turns(handler: Handler, handled: list[int], *, count: int, before_max: int) -> None:
    """A busy peer sends `count` requests at once: a quiet one is answered before many of them are handled."""
    server = await Server.start(LOOPBACK, Dispatcher(default=handler))
    async with server, raw_peer(server) as busy, raw_peer(server) as quiet:
        busy.send(*(Frame(BUSY, number) for number in range(count)))
        quiet.send(Frame(QUIET, 1))
        await quiet.receive()
        assert handled.count(BUSY) < before_max, "the quiet one did not wait for all of them"
        numbers = [(await busy.receive()).opaque for _ in range(count)]
        assert numbers == list(range(count)), "each is answered, in order"


async def test_a_busy_connection_lets_others_come_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "TURN_FRAMES", 10)
    handled: list[int] = []

    def handle(frame: Frame, connection: Connection) -> Frame:
        handled.append(frame.code)
        return frame.reply()

    await check_turns(handle, handled, count=500, before_max=200)


async def test_a_turn_ends_when_its_time_is_over() -> None:
    handled: list[int] = []

    def handle(frame: Frame, connection: Connection) -> Frame:
        handled.append(frame.code)
        spin(0.002 if frame.code == BUSY else 0)
        return frame.reply()

    await check_turns(handle, handled, count=60, before_max=40)


async def test_work_in_slices_lets_others_come_in_between_and_those_behind_it_wait() -> None:
    handled: list[int] = []
    clock = SystemClock()

    def steps(frame: Frame) -> Steps:
        for _ in range(30):
            spin(0.002)
            yield
        handled.append(frame.opaque)
        return frame.reply()

    def handle(frame: Frame, connection: Connection) -> object:
        if frame.code == BUSY:
            return in_slices(steps(frame), clock)
        handled.append(frame.opaque)
        return frame.reply()

    server = await Server.start(LOOPBACK, Dispatcher(default=handle))  # type: ignore[arg-type]
    async with server, raw_peer(server) as busy, raw_peer(server) as quiet:
        busy.send(Frame(BUSY, 1), Frame(QUIET, 2))
        quiet.send(Frame(QUIET, 3))
        await quiet.receive()
        assert handled == [3]
        assert [(await busy.receive()).opaque for _ in range(2)] == [1, 2]
        assert handled == [3, 1, 2]


async def test_what_stands_before_bad_bytes_is_answered_though_a_turn_ends_among_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "TURN_FRAMES", 3)
    server = await Server.start(LOOPBACK, Dispatcher(default=lambda frame, connection: frame.reply()))
    async with server, raw_peer(server) as peer:
        peer.send_bytes(b"".join(encode_frame(Frame(QUIET, number)) for number in range(20)) + b"\0\0\0\0")
        assert [(await peer.receive()).opaque for _ in range(20)] == list(range(20))
        with pytest.raises(EOFError):
            await peer.receive()


async def test_work_that_fits_one_slice_is_answered_at_once() -> None:
    frame = Frame(QUIET, 1)

    def steps() -> Steps:
        yield
        yield
        return frame.reply()

    assert isinstance(in_slices(steps(), SystemClock()), Frame)


def spin(seconds: float) -> None:
    clock = SystemClock()
    end_s = clock.monotonic() + seconds
    while clock.monotonic() < end_s:
        pass
