from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.errors import ConnectionLost
from skyrocketmq.net.gate import Gate
from skyrocketmq.testing import ManualClock


class Door:
    """Room for a number of senders, and the order in which they came in."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.entered: list[int] = []
        self.clock = ManualClock()
        self.gate = Gate(lambda: self.room)

    async def sender(self, number: int, timeout_s: float = 10.0) -> None:
        await self.gate.enter(clock=self.clock, timeout_s=timeout_s)
        self.room -= 1
        self.entered.append(number)

    async def queue(self, count: int) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.sender(number)) for number in range(count)]
        await self.clock.settle()
        return tasks


async def test_senders_come_in_as_they_queued_and_no_more_than_there_is_room_for() -> None:
    door = Door(room=0)
    tasks = await door.queue(5)
    assert len(door.gate) == 5
    door.room = 3
    door.gate.admit()
    await door.clock.settle()
    assert door.entered == [0, 1, 2]
    door.room = 2
    door.gate.admit()
    await asyncio.gather(*tasks)
    assert door.entered == [0, 1, 2, 3, 4]


async def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    door = Door(room=0)
    tasks = await door.queue(1)
    door.room = 1
    assert not door.gate.is_open
    door.gate.admit()
    await asyncio.gather(*tasks)


async def test_a_sender_gives_up_at_its_deadline_and_leaves_the_queue() -> None:
    door = Door(room=0)
    task = asyncio.create_task(door.sender(1, timeout_s=2.0))
    await door.clock.advance(2.0)
    with pytest.raises(TimeoutError):
        await task
    assert len(door.gate) == 0


async def test_a_turn_given_to_a_sender_that_was_cancelled_passes_to_the_next() -> None:
    door = Door(room=0)
    first, second = await door.queue(2)
    door.room = 1
    door.gate.admit()  # the first one's turn has come, but it has not run yet
    first.cancel()
    await second
    assert first.cancelled()
    assert door.entered == [1]


async def test_when_the_door_is_gone_all_who_wait_are_told() -> None:
    door = Door(room=0)
    tasks = await door.queue(3)
    door.gate.fail(lambda: ConnectionLost("gone"))
    for task in tasks:
        with pytest.raises(ConnectionLost):
            await task
