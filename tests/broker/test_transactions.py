"""Transactions as producers see them: half messages, commits, rollbacks, refusals; and the records behind them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from skyrocketmq.config import BrokerRole, FlushDiskType
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, Peer, open_house, open_patient_house
from tests.broker.requests import TOPIC, as_version_1, properties_text, pull_frame, send_frame, unique_id
from tests.broker.support import CLUSTER
from tests.broker.transacting import (
    COMMIT,
    HALF_TOPIC,
    OP_TOPIC,
    PRODUCERS,
    ROLLBACK,
    UNKNOWN,
    bodies,
    end,
    end_frame,
    half_frame,
    halves,
    marks,
    pending,
    read_sent,
    send_half,
)

# -------------------------------------------------------------------------------------------------------- the steps


async def test_a_half_message_is_seen_by_nobody_until_it_is_committed() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        sent = await send_half(peer, 1)
        assert await bodies(house) == []
        assert sent.queue_id == 1, "the queue that was asked for, not that of the half topic"
        await peer.ok(end(sent))
        assert await bodies(house) == [b"1"]
        assert pending(house) == 0


async def test_a_rolled_back_message_is_never_seen() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        sent = await send_half(peer, 1)
        await peer.ok(end(sent, ROLLBACK))
        assert await bodies(house) == []
        assert (halves(house), marks(house), pending(house)) == (1, 1, 0)


async def test_who_waits_for_a_message_gets_it_with_the_commit() -> None:
    async with open_house() as house:
        await house.make_topic()
        producer, consumer = await house.connect(), await house.connect()
        await consumer.write(pull_frame(TOPIC, 1, 0, hold_ms=10_000))
        sent = await send_half(producer, 1)
        await consumer.silence()
        await producer.write(end(sent, is_oneway=True))
        answer = await consumer.next()
        if answer.code != 0:
            answer = await consumer.ask(pull_frame(TOPIC, 1, 0))
        assert b"TagA" in answer.body


async def test_committing_twice_delivers_once_and_says_so() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        sent = await send_half(peer, 1)
        await peer.ok(end(sent))
        again = await peer.ok(end(sent))
        assert "ended before" in (again.remark or "")
        code, remark = await peer.refused(end(sent, ROLLBACK))
        assert (code, "commit" in remark) == (1, True)
        await peer.write(*[end(sent, is_oneway=True, opaque=100 + number) for number in range(20)])
        await peer.ok(end(sent))
        assert await bodies(house) == [b"1"]
        assert marks(house) == 1


async def test_committing_after_a_rollback_is_refused() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        sent = await send_half(peer, 1)
        await peer.ok(end(sent, ROLLBACK))
        code, remark = await peer.refused(end(sent, COMMIT))
        assert (code, "rollback" in remark) == (1, True)
        assert await bodies(house) == []


async def test_two_ends_in_one_buffer_are_one_end() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        first, second = await send_half(peer, 1), await send_half(peer, 2)
        await peer.write(end(first, opaque=11), end(second, opaque=12), end(first, opaque=13), end(second, opaque=14))
        assert {answer.code for answer in (await peer.all(4)).values()} == {0}
        assert await bodies(house) == [b"1", b"2"]


async def test_unknown_has_no_answer_and_leaves_everything_as_it_is() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        sent = await send_half(peer, 1)
        await peer.write(end(sent, UNKNOWN))
        await peer.silence()
        assert (pending(house), marks(house)) == (1, 0)
        await peer.ok(end(sent, COMMIT))
        assert await bodies(house) == [b"1"]


async def test_a_message_that_is_sent_twice_because_an_answer_was_lost_is_one_transaction() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        lost, sent = await send_half(peer, 1), await send_half(peer, 1, queue_id=2)
        assert pending(house) == 1
        await peer.ok(end(sent))
        await peer.ok(end(lost))
        assert await bodies(house) == []
        assert await bodies(house, queue_id=2) == [b"1"]


@pytest.mark.parametrize(("topic", "group"), [("Other", PRODUCERS), (TOPIC, "strangers"), ("Other", "strangers")])
async def test_an_id_that_another_topic_or_group_has_chosen_too_is_another_transaction(topic: str, group: str) -> None:
    async with open_house() as house:
        await house.make_topic()
        await house.make_topic("Other")
        peer = await house.connect()
        for number, how in ((1, COMMIT), (2, ROLLBACK)):
            mine = await send_half(peer, number)
            theirs = await send_half(peer, number, topic=topic, group=group, body=b"theirs")
            assert pending(house) == 2
            await peer.ok(end(theirs, how, group=group))
            await peer.ok(end(mine, COMMIT))
            again = await peer.ok(end(theirs, how, group=group))
            assert "ended before" in (again.remark or "")
        assert [body for body in await bodies(house) if body != b"theirs"] == [b"1", b"2"]


async def test_what_the_broker_writes_down_for_itself_is_not_taken_from_a_producer() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        more = {"TRAN_PREPARED_QUEUE_OFFSET": "500", "TRANSACTION_CHECK_TIMES": "14", "TRAN_END": "commit", "mine": "1"}
        for number, has_id in ((1, True), (2, True), (3, False)):
            await send_half(peer, number, more=more, has_id=has_id)
        for half in await house.pull_all(HALF_TOPIC, 0):
            assert half.properties["mine"] == "1"
            assert not {"TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES", "TRAN_END"} & set(half.properties)


async def test_many_ends_that_cannot_be_written_are_taken_back_in_one_go() -> None:
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk) as house:
        await house.make_topic()
        peer = await house.connect()
        sent = [await send_half(peer, number) for number in range(50)]
        table = house.broker.transactions.log.pending
        for number in range(100_000):
            table.add(b"%032d" % number, 1000 + number)
        before = list(table)
        disk.fail("pwrite", path="*/commitlog/*", times=None)
        started_s = time.process_time()
        await peer.write(*[end(each, opaque=100 + number) for number, each in enumerate(sent)])
        assert all(answer.code for answer in (await peer.all(50)).values())
        took_s = time.process_time() - started_s
        assert list(table) == before, "and in the order of their offsets"
        assert took_s < 3
        disk.heal()


# ------------------------------------------------------------------------------------------------------- the records


@pytest.mark.parametrize("is_binary", [False, True])
async def test_the_records_are_those_that_a_broker_of_apache_writes(is_binary: bool) -> None:
    clock = ManualClock()
    async with open_house(clock=clock) as house:
        await house.make_topic()
        peer = await house.connect()
        for number in (1, 2, 3):  # the first in the general way, the others as part of a batch
            sent = await send_half(peer, number, flag=7, more={"colour": "red"}, is_binary=is_binary)
            await peer.ok(end(sent, is_binary=is_binary))
        for number, half in enumerate(await house.pull_all(HALF_TOPIC, 0), 1):
            assert (half.queue_id, half.queue_offset, half.sys_flag) == (0, number - 1, 0)
            assert half.properties == {
                "TRAN_MSG": "true",
                "UNIQ_KEY": unique_id(number),
                "WAIT": "true",
                "PGROUP": PRODUCERS,
                "TAGS": "TagA",
                "colour": "red",
                "CLUSTER": CLUSTER,
                "REAL_TOPIC": TOPIC,
                "REAL_QID": "1",
            }
            committed = (await house.pull_all(TOPIC, 1))[number - 1]
            assert committed.sys_flag == 8
            assert committed.prepared_offset == half.log_offset
            for field in ("properties", "body", "flag", "born_ms", "born_host", "store_host", "reconsume_times"):
                assert getattr(committed, field) == getattr(half, field), field
            mark = (await house.pull_all(OP_TOPIC, 0))[number - 1]
            assert (mark.queue_id, mark.sys_flag, mark.body) == (0, 0, b"%d" % (number - 1))
            assert mark.properties == {"TAGS": "d", "UNIQ_KEY": unique_id(number), "TRAN_END": "commit"}
            assert mark.born_host == mark.store_host == half.store_host
        topics = house.broker.tables.topics.table()
        assert [(topics[name].read_queue_nums, topics[name].perm) for name in (HALF_TOPIC, OP_TOPIC)] == [(1, 6)] * 2


async def test_the_general_way_and_the_fast_one_store_the_same() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"more": {"KEYS": "k1 k2"}},
        {"more": {"WAIT": "false"}},
        {"has_id": False},
        {"body": b"x" * 5000, "flag": 3, "reconsume_times": 2},
        {"more": {"colour": "blü"}},
    ]
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        for number, variant in enumerate(variants):
            stored = []
            for frame in (as_version_1(half_frame(number, **variant)), *[half_frame(number, **variant)] * 2):
                sent = read_sent(number, await peer.ok(frame))
                record = (await house.pull_all(HALF_TOPIC, 0))[sent.half_offset]
                stored.append((record.body, record.flag, record.sys_flag, record.properties, record.reconsume_times))
                await peer.ok(end(sent))
            assert stored[1:] == stored[:1] * 2, variant


async def test_the_mark_tells_by_its_id_that_a_transaction_is_over() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        await peer.ok(end(await send_half(peer, 1), ROLLBACK))
        ext: dict[str, str | None] = {
            "topic": OP_TOPIC,
            "key": unique_id(1),
            "maxNum": "8",
            "beginTimestamp": "0",
            "endTimestamp": str(2**62),
        }
        answer = await peer.ok(Frame(RequestCode.QUERY_MESSAGE, 1, ext=ext))
        assert b"TRAN_END\x01rollback" in answer.body


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("is_oneway", [False, True])
async def test_ends_that_name_something_else_are_refused_and_change_nothing(is_oneway: bool) -> None:
    async with open_house() as house:
        await house.make_topic()
        await house.send_many(3, queue_id=1)
        peer = await house.connect()
        sent, other = await send_half(peer, 1), await send_half(peer, 2)
        log_offset = (await house.pull_all(TOPIC, 1))[0].log_offset
        wrong = {
            "another group": end(sent, group="others", is_oneway=is_oneway),
            "another place in the log": end_frame(sent.half_offset, other.log_offset, is_oneway=is_oneway),
            "another place in the queue": end_frame(other.half_offset, sent.log_offset, is_oneway=is_oneway),
            "beyond the queue": end_frame(99, sent.log_offset, is_oneway=is_oneway),
            "before the queue": end_frame(-1, sent.log_offset, is_oneway=is_oneway),
            "an ordinary message": end_frame(0, log_offset, is_oneway=is_oneway),
            "no number": end(sent, COMMIT, is_oneway=is_oneway, tranStateTableOffset="x"),
            "no place": end(sent, COMMIT, is_oneway=is_oneway, commitLogOffset=None),
            "no group": end(sent, COMMIT, is_oneway=is_oneway, producerGroup=None),
            "neither commit nor rollback": end(sent, 4, is_oneway=is_oneway),
            "no end": end(sent, COMMIT, is_oneway=is_oneway, commitOrRollback=None),
        }
        for name, frame in wrong.items():
            if is_oneway:
                await peer.write(frame)
            else:
                code, remark = await peer.refused(frame)
                assert code == 1, name
                assert remark, name
        await peer.ok(end(other, ROLLBACK))
        assert (pending(house), marks(house)) == (1, 1)
        assert len(await bodies(house)) == 3


async def test_a_body_that_looks_like_a_half_message_cannot_be_committed() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        sent = await send_half(peer, 1)
        store = house.broker.store
        record = await store.message_at(sent.log_offset)
        assert record is not None
        forged = bytes(record)
        await peer.ok(send_frame(TOPIC, 0, body=forged))
        carrier = (await house.pull_all(TOPIC, 0))[0]
        code, _ = await peer.refused(end_frame(0, carrier.log_offset + 88))
        assert code == 1
        assert await bodies(house) == []


async def test_a_delayed_half_message_is_refused_because_it_would_be_lost() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        code, remark = await peer.refused(half_frame(1, more={"DELAY": "3"}))
        assert (code, "delay" in remark) == (13, True)
        assert halves(house) == 0


async def test_a_broker_can_be_told_to_take_no_transactions_and_still_ends_those_it_has() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        sent = [await send_half(peer, number) for number in (1, 2)]
        await house.set_config(rejectTransactionMessage="true")
        code, remark = await peer.refused(half_frame(3))
        assert (code, "rejectTransactionMessage" in remark) == (16, True)
        await peer.ok(end(sent[0]))
        await house.set_config(rejectTransactionMessage="false")
        await send_half(peer, 4)
        assert await bodies(house) == [b"1"]


async def test_a_slave_ends_no_transactions() -> None:
    async with open_house(store={"broker_role": BrokerRole.SLAVE}, broker_id=1) as house:
        peer = await house.connect()
        code, remark = await peer.refused(end_frame(0, 0))
        assert (code, "master" in remark) == (11, True)
        assert house.broker.store.max_offset(OP_TOPIC, 0) == 0


async def test_a_batch_cannot_be_a_transaction() -> None:
    async with open_house() as house:
        await house.make_topic()
        peer = await house.connect()
        text = properties_text({"TRAN_MSG": "true", "PGROUP": PRODUCERS})
        code, _ = await peer.refused(send_frame(TOPIC, 0, sys_flag=4, properties=text, m="true"))
        assert code == 13


# ------------------------------------------------------------------------------------------------------------- faults


async def test_an_end_that_cannot_be_written_has_not_happened_and_can_be_said_again() -> None:
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk) as house:
        await house.make_topic()
        peer = await house.connect()
        first, second = await send_half(peer, 1), await send_half(peer, 2)
        disk.fail("pwrite", path="*/commitlog/*", times=None)
        code, _ = await peer.refused(end(first))
        assert code != 0
        code, _ = await peer.refused(half_frame(3))
        assert code != 0
        disk.heal()
        assert pending(house) == 2
        await peer.ok(end(first))
        await peer.ok(end(second, ROLLBACK))
        assert await bodies(house) == [b"1"]


async def test_with_synchronous_flush_half_and_end_are_answered_when_they_are_on_disk() -> None:
    async with open_patient_house() as (house, clock):
        peer = await house.connect()
        for number in (1, 2):  # the second in the fast way
            await peer.write(half_frame(number))
            await peer.silence()
            sent = read_sent(number, await answered(peer, clock))
            await peer.write(end(sent))
            await peer.silence()
            assert (await answered(peer, clock)).code == 0
        assert await bodies(house) == [b"1", b"2"]


async def test_an_end_that_is_said_again_is_confirmed_only_if_the_first_one_is_on_disk() -> None:
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk, check=False, store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}) as house:
        await house.make_topic()
        peer = await house.connect()
        first, second = await send_half(peer, 1), await send_half(peer, 2)
        await peer.ok(end(first))
        await peer.ok(end(first))
        disk.fail("fdatasync", path="*commitlog*")
        code, _ = await peer.refused(end(second))
        assert code == ResponseCode.FLUSH_DISK_TIMEOUT
        code, remark = await peer.refused(end(second))
        assert code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert "ended before" in remark


async def test_an_end_that_is_said_again_waits_for_the_disk_like_the_first() -> None:
    async with open_patient_house() as (house, clock):
        peer = await house.connect()
        await peer.write(half_frame(1))
        sent = read_sent(1, await answered(peer, clock))
        await peer.write(end(sent), end(sent, opaque=9002))
        await peer.silence()
        answer = await answered(peer, clock)
        assert (answer.code, (await answered(peer, clock)).code) == (0, 0)


async def test_how_a_transaction_ended_is_known_after_the_clock_was_set_back() -> None:
    clock = ManualClock()
    async with open_house(clock=clock) as house:
        await house.make_topic()
        peer = await house.connect()
        sent = await send_half(peer)
        await peer.ok(end(sent, ROLLBACK))
        clock.set_wall(-3600)
        assert "ended before" in ((await peer.ok(end(sent, ROLLBACK))).remark or "")
        _, remark = await peer.refused(end(sent))
        assert "otherwise" in remark


async def answered(peer: Peer, clock: ManualClock) -> Frame:
    """The next answer, which needs time to pass."""
    answer = asyncio.ensure_future(peer.next())
    while not answer.done():
        await clock.advance(0.5)
        await asyncio.sleep(0.005)
    return answer.result()


async def test_with_a_transient_pool_a_half_message_is_ended_from_memory() -> None:
    async with open_house(store={"transient_pool_enable": True}) as house:
        await house.make_topic()
        peer = await house.connect()
        for number in (1, 2, 3):
            await peer.ok(end(await send_half(peer, number)))
        while len(await bodies(house)) < 3:  # noqa: ASYNC110 - they are shown once they are in the log
            await asyncio.sleep(0.01)
        assert await bodies(house) == [b"1", b"2", b"3"]


async def test_a_half_message_that_is_cold_is_ended_all_the_same() -> None:
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk, store={"commit_log_file_bytes": 8192}) as house:
        await house.make_topic()
        peer = await house.connect()
        sent = [await send_half(peer, number) for number in range(3)]
        await house.send_many(40, body=b"x" * 1000)
        disk.cool()
        assert [(await peer.ok(end(each))).code for each in sent] == [0, 0, 0]
        assert await bodies(house) == [b"0", b"1", b"2"]
