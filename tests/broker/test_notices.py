"""Change notices on real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from skyrocketmq.broker.clients import Member
from skyrocketmq.broker.notices import DELAY_S, ChangeNotices
from skyrocketmq.net import Client, Connection, Dispatcher, Server
from skyrocketmq.slices import SLICE_S
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.support import until


@dataclass
class Consumers:
    """Consumers that are connected to a server, and what they were told."""

    members: dict[str, list[Member[Connection]]] = field(default_factory=dict)
    received: list[tuple[int, Frame]] = field(default_factory=list)

    def receive(self, number: int, frame: Frame, connection: Connection) -> None:
        self.received.append((number, frame))

    def members_of(self, group: str) -> list[Member[Connection]]:
        return self.members.get(group, [])


@asynccontextmanager
async def consumers(count: int) -> AsyncIterator[Consumers]:
    state = Consumers()
    accepted: list[Connection] = []
    async with await Server.start(("127.0.0.1", 0), Dispatcher(), on_open=accepted.append) as server:
        clients = []
        for number in range(count):
            client = Client(Dispatcher(default=partial(state.receive, number)))
            await client.connect(f"127.0.0.1:{server.port}", 5)
            clients.append(client)
        await until(lambda: len(accepted) == count)
        state.members["g"] = [
            Member(
                connection=connection,
                client_id="c",
                address=connection.peer,
                language=0,
                version=1,
                heard_ms=0,
                heard_s=0,
            )
            for connection in accepted
        ]
        yield state
        for client in clients:
            await client.close()


async def test_every_member_is_told_once_however_often_the_group_changed() -> None:
    clock = ManualClock()
    async with consumers(3) as state:
        notices = ChangeNotices(state.members_of, clock=clock)
        for _ in range(5):
            notices.add("g")
        notices.add("a group that is gone")
        await clock.advance(DELAY_S)
        await until(lambda: len(state.received) == 3)
        assert sorted(number for number, _ in state.received) == [0, 1, 2]
        frame = state.received[0][1]
        assert frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert frame.is_oneway
        assert frame.ext == {"consumerGroup": "g"}


async def test_a_later_change_is_told_again() -> None:
    clock = ManualClock()
    async with consumers(1) as state:
        notices = ChangeNotices(state.members_of, clock=clock)
        notices.add("g")
        await clock.advance(DELAY_S)
        notices.add("g")
        await clock.advance(DELAY_S)
        await until(lambda: len(state.received) == 2)


async def test_a_member_that_is_gone_is_passed_over() -> None:
    clock = ManualClock()
    async with consumers(2) as state:
        notices = ChangeNotices(state.members_of, clock=clock)
        state.members["g"][0].connection.abort("the test cuts it")
        notices.add("g")
        await clock.advance(DELAY_S)
        await until(lambda: len(state.received) == 1)


async def test_nothing_is_sent_after_closing() -> None:
    clock = ManualClock()
    notices = ChangeNotices(lambda group: [], clock=clock)
    notices.add("g")
    notices.close()
    notices.add("g")
    assert clock.timer_count == 0


class SlowClock(ManualClock):
    """A clock of a machine on which every step takes a whole slice of time, and whose timers a test fires by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[tuple[float, Callable[[], object]]] = []

    def monotonic(self) -> float:
        self._now += SLICE_S
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Any:
        self.due.append((seconds, callback))
        return object()

    def fire(self) -> float:
        """Run the one timer that is set; returns after how long it would have fired."""
        ((seconds, callback),) = self.due
        self.due.clear()
        callback()
        return seconds


def test_many_notices_go_out_in_slices_and_a_change_meanwhile_is_told_after_them() -> None:
    clock, told = SlowClock(), list[str]()

    class Told:
        def __init__(self, name: str) -> None:
            self.connection = self
            self.name = name

        def send_oneway(self, frame: Frame) -> None:
            told.append(f"{self.name} of {(frame.ext or {})['consumerGroup']}")

    members: Any = {"g": [Told("a"), Told("b")], "h": [Told("c")]}
    notices = ChangeNotices(members.__getitem__, clock=clock)
    notices.add("g")
    notices.add("h")
    assert clock.fire() == DELAY_S
    assert told == ["a of g"]
    notices.add("g")
    notices.add("g")
    assert [clock.fire() for _ in range(3)] == [0, 0, 0]
    assert told == ["a of g", "b of g", "c of h"]
    assert clock.fire() == DELAY_S, "what has changed meanwhile is told together, as always"
    assert [clock.fire() for _ in range(2)] == [0, 0]
    assert told[3:] == ["a of g", "b of g"]
    assert clock.due == []
