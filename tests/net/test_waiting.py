from __future__ import annotations

import asyncio

import pytest

from skyrocketmq.errors import ConnectionLost
from skyrocketmq.net.waiting import Answer, WaitingRequests
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.frames import Frame


def wait_for(waiting: WaitingRequests, deadline: float) -> tuple[int, Answer]:
    opaque = waiting.next_opaque()
    answer: Answer = asyncio.get_running_loop().create_future()
    waiting.add(opaque, answer, deadline)
    return opaque, answer


async def test_an_answer_goes_to_the_request_with_its_number() -> None:
    waiting = WaitingRequests(ManualClock())
    first_opaque, first = wait_for(waiting, 1.0)
    second_opaque, second = wait_for(waiting, 1.0)
    reply = Frame(0, opaque=second_opaque, flag=1)
    assert waiting.resolve(second_opaque, reply)
    assert second.result() is reply
    assert not first.done()
    assert first_opaque != second_opaque


async def test_an_answer_that_nobody_waits_for_is_a_stray() -> None:
    waiting = WaitingRequests(ManualClock())
    opaque, _ = wait_for(waiting, 1.0)
    reply = Frame(0, opaque=opaque, flag=1)
    assert waiting.resolve(opaque, reply)
    assert not waiting.resolve(opaque, reply)
    assert not waiting.resolve(99, reply)


async def test_answers_to_sends_are_handed_over_together_and_strays_are_named() -> None:
    waiting = WaitingRequests(ManualClock())
    first_opaque, first = wait_for(waiting, 1.0)
    second_opaque, second = wait_for(waiting, 1.0)
    first.cancel()
    replies = [(number, "id", 3, 12, None, None, True) for number in (first_opaque, 99, second_opaque)]
    assert waiting.resolve_sends(replies) == [first_opaque, 99]
    assert second.result() == replies[2]
    assert not len(waiting)


async def test_each_request_expires_at_its_own_deadline() -> None:
    clock = ManualClock()
    waiting = WaitingRequests(clock)
    answers = {seconds: wait_for(waiting, seconds)[1] for seconds in (3.0, 1.0, 2.0)}
    await clock.advance(1.0)
    assert [answers[seconds].done() for seconds in (1.0, 2.0, 3.0)] == [True, False, False]
    assert answers[1.0].result() is None
    await clock.advance(1.0)
    assert [answers[seconds].done() for seconds in (1.0, 2.0, 3.0)] == [True, True, False]
    await clock.advance(1.0)
    assert answers[3.0].result() is None
    assert len(waiting) == 0
    assert clock.timer_count == 0


async def test_a_thousand_requests_take_one_timer_and_leave_none() -> None:
    clock = ManualClock()
    waiting = WaitingRequests(clock)
    opaques = [wait_for(waiting, 3.0)[0] for _ in range(1000)]
    assert clock.timer_count == 1
    for opaque in opaques:
        waiting.resolve(opaque, Frame(0, opaque=opaque, flag=1))
    await clock.advance(3.0)
    assert clock.timer_count == 0


async def test_answered_requests_do_not_pile_up_until_their_deadlines() -> None:
    waiting = WaitingRequests(ManualClock())
    for _ in range(100_000):
        opaque, _ = wait_for(waiting, 30.0)
        waiting.resolve(opaque, Frame(0, opaque=opaque, flag=1))
    assert len(waiting._deadlines) < 1000


async def test_the_end_of_the_connection_ends_every_wait_and_the_timer() -> None:
    clock = ManualClock()
    waiting = WaitingRequests(clock)
    answers = [wait_for(waiting, 3.0)[1] for _ in range(3)]
    waiting.fail(lambda: ConnectionLost("gone"))
    for answer in answers:
        with pytest.raises(ConnectionLost, match="gone"):
            await answer
    assert clock.timer_count == 0


async def test_request_numbers_stay_positive_and_skip_those_in_use() -> None:
    waiting = WaitingRequests(ManualClock())
    waiting._opaque = 0x7FFF_FFFD
    numbers = [wait_for(waiting, 1.0)[0] for _ in range(4)]
    assert numbers == [0x7FFF_FFFE, 0x7FFF_FFFF, 0, 1]
    waiting._opaque = 0x7FFF_FFFD
    assert waiting.next_opaque() == 2
