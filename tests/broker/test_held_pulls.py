"""Long polling: pulls that found nothing wait at the broker, and each is answered once.

Time is the test's, so that a deadline of fifteen seconds passes in no time, and nothing happens before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import process_time
from typing import Any

import pytest

from skyrocketmq.broker.held_pulls import TICK_S
from skyrocketmq.store import NewMessage
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Encoding, Frame
from tests.broker.house import House, Peer, open_house
from tests.broker.requests import (
    GROUP,
    TOPIC,
    as_version_1,
    heartbeat_frame,
    properties_text,
    pull_frame,
    send_frame,
    subscription,
)
from tests.broker.support import until
from tests.store.reader import read_records

HOLD_MS = 15_000


@asynccontextmanager
async def open_waiting_house(**changes: Any) -> AsyncIterator[tuple[House, ManualClock]]:
    clock = ManualClock()
    async with open_house(clock=clock, **changes) as house:
        await house.make_topic()
        yield house, clock


def held(house: House) -> int:
    return len(house.broker.parts.pulls.held)


def watched(house: House) -> list[int]:
    """The queues of the topic in which an arrival is noted."""
    return [queue_id for queue_id in range(4) if house.broker.store.queue(TOPIC, queue_id).is_watched]


async def hold(house: House, *frames: Frame, peer: Peer | None = None) -> Peer:
    """A consumer whose pulls wait."""
    before = held(house)
    peer = peer or await house.connect()
    await peer.write(*(frames or (pull_frame(hold_ms=HOLD_MS),)))
    await until(lambda: held(house) == before + max(len(frames), 1))
    return peer


def bodies(answer: Frame) -> list[bytes]:
    return [record.body for record in read_records(answer.body)]


async def test_a_pull_does_not_wait_beside_a_message_that_is_only_to_be_committed() -> None:
    """It was added before the pull watched the queue, so nothing would wake the pull."""
    async with open_waiting_house() as (house, _):
        peer = await house.connect()
        message = NewMessage(
            topic=TOPIC, queue_id=0, body=b"news", properties=b"", born_timestamp=0, born_host=bytes(8)
        )
        house.broker.store.begin().add(message)
        assert bodies(await peer.ask(pull_frame(hold_ms=HOLD_MS))) == [b"news"]
        assert held(house) == 0


# -------------------------------------------------------------------------------------------------- woken by messages

ARRIVALS = {
    "JSON": send_frame(body=b"news"),
    "binary": send_frame(body=b"news", is_binary=True),
    "version 1": as_version_1(send_frame(body=b"news")),
    "one-way": send_frame(body=b"news", is_oneway=True),
    "batch": send_frame(code=320, m="true", body=encode_batch([(0, b"news", b""), (0, b"more", b"")])),
}


@pytest.mark.parametrize("arrival", ARRIVALS.values(), ids=ARRIVALS)
@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_waiting_pull_is_answered_by_the_next_message(arrival: Frame, is_binary: bool) -> None:
    async with open_waiting_house() as (house, _):
        consumer, producer = await house.connect(), await house.connect()
        await hold(house, pull_frame(hold_ms=HOLD_MS, opaque=5, is_binary=is_binary), peer=consumer)
        assert watched(house) == [0]
        for _ in range(2):  # the second one finds its sender known
            await producer.write(arrival)
            answer = await consumer.next()
            assert (answer.opaque, answer.code, answer.remark) == (5, 0, "FOUND")
            assert answer.encoding is (Encoding.BINARY if is_binary else Encoding.JSON)
            assert b"news" in bodies(answer)
            assert held(house) == 0
            assert watched(house) == [], "where nobody waits, an arrival costs nothing"
            assert answer.ext is not None
            offset = answer.ext["nextBeginOffset"]
            await hold(house, pull_frame(hold_ms=HOLD_MS, opaque=5, offset=offset, is_binary=is_binary), peer=consumer)
        consumer.abort()


async def test_only_those_who_wait_at_the_queue_are_woken() -> None:
    async with open_waiting_house() as (house, _):
        consumer = await hold(
            house, *[pull_frame(queue_id=queue_id, opaque=queue_id, hold_ms=HOLD_MS) for queue_id in range(4)]
        )
        producer = await house.connect()
        for queue_id in (2, 0, 3, 1):
            await producer.ok(send_frame(queue_id=queue_id))
            assert (await consumer.next()).opaque == queue_id
        await consumer.silence(0.01)


async def test_all_who_wait_at_a_queue_are_woken_by_one_message() -> None:
    async with open_waiting_house() as (house, _):
        consumers = [await hold(house, pull_frame(hold_ms=HOLD_MS, group=f"group-{n}")) for n in range(5)]
        producer = await house.connect()
        await producer.ok(send_frame(body=b"for all"))
        for consumer in consumers:
            assert bodies(await consumer.next()) == [b"for all"]


async def test_a_pull_is_woken_only_by_the_tags_it_wants() -> None:
    async with open_waiting_house() as (house, _):
        by_text = await hold(house, pull_frame(hold_ms=HOLD_MS, subscription="TagA || TagC"))
        by_heartbeat = await house.connect()
        await by_heartbeat.ok(heartbeat_frame(subscription("TagB")))
        await hold(house, pull_frame(hold_ms=HOLD_MS, subscription=None), peer=by_heartbeat)
        producer = await house.connect()
        await producer.ok(send_frame(body=b"none"))
        await producer.ok(send_frame(body=b"other", properties=properties_text([("TAGS", "Other")])))
        await by_text.silence(0.01)
        await by_heartbeat.silence(0.01)
        await producer.ok(send_frame(body=b"b", properties=properties_text([("TAGS", "TagB")])))
        assert bodies(await by_heartbeat.next()) == [b"b"]
        await by_text.silence(0.01)
        await producer.write(
            *[send_frame(opaque=n, body=b"%d" % n, properties=f"TAGS\x01Tag{'XYC'[n]}") for n in range(3)]
        )
        assert bodies(await by_text.next()) == [b"2"]


async def test_a_buffer_of_messages_answers_a_waiting_pull_once_with_all_of_them() -> None:
    async with open_waiting_house() as (house, _):
        consumer = await hold(house)
        producer = await house.connect()
        await producer.ok(send_frame(queue_id=3))
        await producer.write(*[send_frame(opaque=number, body=b"%d" % number) for number in range(20)])
        assert bodies(await consumer.next()) == [b"%d" % number for number in range(20)]
        await consumer.silence(0.01)


async def test_a_pull_and_the_message_it_waits_for_may_come_in_one_buffer() -> None:
    async with open_waiting_house() as (house, _):
        peer = await house.connect()
        await peer.ok(send_frame(queue_id=3))
        await peer.write(
            pull_frame(opaque=1, hold_ms=HOLD_MS),
            send_frame(opaque=2, body=b"a"),
            pull_frame(opaque=3, hold_ms=HOLD_MS, offset=1),
            as_version_1(send_frame(opaque=4, body=b"b")),
            send_frame(opaque=5, body=b"c"),
            pull_frame(opaque=6, hold_ms=HOLD_MS, offset=2),
        )
        answers = await peer.all(6)
        assert [bodies(answers[opaque]) for opaque in (1, 3, 6)] == [[b"a"], [b"b"], [b"c"]]
        assert held(house) == 0


async def test_messages_are_never_missed_between_a_look_and_the_wait() -> None:
    """A consumer pulls in a loop while a producer sends: everything arrives, once, and no wait is in vain."""
    async with open_waiting_house() as (house, _):
        consumer, producer = await house.connect(), await house.connect()
        total = 500

        async def produce() -> None:
            for number in range(total):
                await producer.ok(send_frame(body=b"%d" % number, is_binary=number % 2 == 0))
                if number % 7 == 0:
                    await asyncio.sleep(0)

        async def consume() -> list[bytes]:
            found: list[bytes] = []
            while len(found) < total:
                answer = await consumer.ask(pull_frame(offset=len(found), hold_ms=HOLD_MS))
                assert answer.code == 0, "time stands still: nothing but a message ends a wait"
                found += bodies(answer)
            return found

        _, found = await asyncio.gather(produce(), consume())
        assert found == [b"%d" % number for number in range(total)]


# ---------------------------------------------------------------------------------------------------------- deadlines


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_pull_that_waited_in_vain_is_answered_at_its_deadline(is_binary: bool) -> None:
    async with open_waiting_house() as (house, clock):
        await house.send_many(3)
        consumer = await hold(house, pull_frame(offset=3, hold_ms=HOLD_MS, is_binary=is_binary))
        await clock.advance(14.9)
        await consumer.silence(0.01)
        await clock.advance(0.2)
        answer = await consumer.next()
        assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
        assert answer.ext is not None
        assert answer.ext["nextBeginOffset"] == "3"
        assert held(house) == 0
        assert watched(house) == []


async def test_at_its_deadline_a_pull_steps_over_what_it_did_not_want() -> None:
    async with open_waiting_house() as (house, clock):
        consumer = await hold(house, pull_frame(hold_ms=HOLD_MS, subscription="TagA"))
        await house.send_many(5, tags="Other")
        await clock.advance(16)
        answer = await consumer.next()
        assert (answer.code, answer.remark) == (20, "NO_MATCHED_MESSAGE")
        assert answer.ext is not None
        assert answer.ext["nextBeginOffset"] == "5"


async def test_one_timer_serves_all_and_every_deadline_is_kept() -> None:
    async with open_waiting_house() as (house, clock):
        consumer = await house.connect()
        await consumer.ask(pull_frame())
        timers, began_s = clock.timer_count, clock.monotonic()
        await hold(house, *[pull_frame(opaque=n, hold_ms=1_000 * n) for n in (5, 3, 4, 3)], peer=consumer)
        assert clock.timer_count == timers + 1
        for deadline, answered in ((3, [3, 3]), (4, [4]), (5, [5])):
            await clock.advance(began_s + deadline - 0.05 - clock.monotonic())
            await consumer.silence(0.01)
            await clock.advance(0.05 + TICK_S)
            assert [(await consumer.next()).opaque for _ in answered] == answered
        assert held(house) == 0


async def test_without_long_polling_a_pull_waits_a_second() -> None:
    async with open_waiting_house(long_polling=False) as (house, clock):
        consumer = await hold(house)
        await clock.advance(0.9)
        await consumer.silence(0.01)
        await clock.advance(0.2)
        assert (await consumer.next()).code == 19


@pytest.mark.parametrize("hold_ms", [None, 0, -1])
async def test_a_pull_that_does_not_want_to_wait_is_answered_at_once(hold_ms: int | None) -> None:
    async with open_waiting_house() as (house, _):
        consumer = await house.connect()
        assert (await consumer.ask(pull_frame(hold_ms=hold_ms))).code == 19
        assert held(house) == 0


async def test_the_longest_time_there_is_may_be_asked_for() -> None:
    async with open_house() as house:  # with the real clock, whose timers have their own limits
        await house.make_topic()
        consumer = await hold(house, pull_frame(hold_ms=2**63 - 1))
        await consumer.silence(0.02)
        await house.send_many(1)
        assert (await consumer.next()).code == 0


async def test_an_offset_that_was_moved_is_told_at_once() -> None:
    async with open_waiting_house() as (house, _):
        consumer = await house.connect()
        assert (await consumer.ask(pull_frame(offset=5, hold_ms=HOLD_MS))).code == 21
        assert held(house) == 0


# ------------------------------------------------------------------------------------------------ changes meanwhile


async def test_a_woken_pull_is_checked_again() -> None:
    async with open_waiting_house() as (house, _):
        consumer = await hold(house)
        await house.make_topic(perm=2)
        producer = await house.connect()
        await producer.ok(send_frame())
        answer = await consumer.next()
        assert answer.code == 16
        assert "perm is 2" in (answer.remark or "")


async def test_a_pull_of_a_topic_that_was_deleted_meanwhile_says_so_at_its_deadline() -> None:
    async with open_waiting_house() as (house, clock):
        consumer = await hold(house)
        await house.administer(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        await clock.advance(16)
        assert (await consumer.next()).code == 17


async def test_a_pull_of_a_topic_that_was_deleted_and_made_again_is_woken_by_its_first_message() -> None:
    async with open_waiting_house() as (house, _):
        consumer = await hold(house)
        await house.administer(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        await house.make_topic()
        await house.send_many(1)
        assert (await consumer.next()).code == 0


async def test_an_offset_is_committed_when_a_pull_comes_and_not_when_it_is_answered() -> None:
    async with open_waiting_house() as (house, _):
        await house.send_many(9)
        consumer = await hold(house, pull_frame(offset=9, commit=9, hold_ms=HOLD_MS))
        offsets = house.broker.tables.offsets
        assert offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 9
        offsets.commit(group=GROUP, topic=TOPIC, queue_id=0, offset=4)
        await house.send_many(1)
        assert (await consumer.next()).code == 0
        assert offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 4


async def test_the_pulls_of_a_closed_connection_are_forgotten() -> None:
    async with open_waiting_house() as (house, _):
        gone = await hold(house, *[pull_frame(queue_id=n, opaque=n, hold_ms=HOLD_MS) for n in range(4)])
        stays = await hold(house, pull_frame(queue_id=1, hold_ms=HOLD_MS))
        gone.abort()
        await until(lambda: held(house) == 1)
        assert watched(house) == [1]
        await house.send_many(1, queue_id=0)
        await house.send_many(1, queue_id=1)
        assert (await stays.next()).code == 0


async def test_a_broker_that_stops_answers_all_who_wait() -> None:
    async with open_waiting_house() as (house, _):
        consumers = [await hold(house, pull_frame(queue_id=n, hold_ms=HOLD_MS)) for n in range(4)]
        for consumer in consumers:
            house.forget(consumer)
    for consumer in consumers:
        answer = await consumer.next()
        # Not that nothing was found: the consumer would ask again at once, on a connection that is being closed.
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "stopping" in (answer.remark or "")
        await consumer.ended()
        await consumer.close()


async def test_a_broker_that_stops_lets_nobody_wait_but_gives_what_there_is() -> None:
    async with open_waiting_house() as (house, _):
        await house.send_many(1, queue_id=1)
        consumer = await house.connect()
        house.broker.parts.pulls.stop()
        assert (await consumer.ask(pull_frame(queue_id=0, hold_ms=HOLD_MS))).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await consumer.ask(pull_frame(queue_id=0))).code == ResponseCode.PULL_NOT_FOUND
        assert (await consumer.ask(pull_frame(queue_id=1, hold_ms=HOLD_MS))).code == ResponseCode.SUCCESS


# ---------------------------------------------------------------------------------------------------------- many


async def test_above_the_limit_a_pull_is_answered_at_once() -> None:
    async with open_waiting_house() as (house, _):
        house.broker.parts.pulls.held._count_max = 3
        consumer = await hold(house, *[pull_frame(opaque=n, hold_ms=HOLD_MS) for n in range(3)])
        for _ in range(2):
            assert (await consumer.ask(pull_frame(opaque=9, hold_ms=HOLD_MS))).code == 19
        assert held(house) == 3


async def test_thousands_of_pulls_may_wait_and_cost_others_nothing() -> None:
    async with open_waiting_house() as (house, clock):
        consumers = [await house.connect() for _ in range(20)]
        for number, consumer in enumerate(consumers):
            await consumer.write(
                *[
                    pull_frame(queue_id=n % 3, opaque=n, hold_ms=HOLD_MS, subscription=f"Tag{number}-{n}")
                    for n in range(250)
                ]
            )
        await until(lambda: held(house) == 5000)
        producer = await house.connect()
        await producer.ok(send_frame(queue_id=3))
        started = process_time()
        await producer.write(
            *[send_frame(queue_id=n % 3, opaque=n, properties=f"TAGS\x01Tag{n}-{n}") for n in range(64)]
        )
        await producer.all(64)
        spent_ms = (process_time() - started) * 1000
        assert held(house) == 5000 - 20, "those that want one of the messages are woken"
        for number, consumer in enumerate(consumers):
            assert (await consumer.next()).opaque == number
        assert spent_ms < 500, f"64 messages past 5,000 waiting pulls took {spent_ms:.0f} ms"
        await clock.advance(16)
        for number, consumer in enumerate(consumers):
            assert set(await consumer.all(249)) == set(range(250)) - {number}
        assert held(house) == 0
        assert watched(house) == []
