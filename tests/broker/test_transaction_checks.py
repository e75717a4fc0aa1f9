"""Half messages that nobody ends: who is asked when, how often, and what becomes of those that nobody knows of."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from skyrocketmq.broker import transaction_rules
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.testing.clock import START_MS
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.ids import encode_offset_id
from tests.broker.house import ROOT, House, Peer, open_house
from tests.broker.requests import TOPIC, unique_id
from tests.broker.transacting import (
    COMMIT,
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    PRODUCERS,
    ROLLBACK,
    UNKNOWN,
    asked,
    asked_about,
    bodies,
    end,
    end_frame,
    halves,
    join,
    pass_time,
    pending,
    record_in,
    saved_offsets,
    send_half,
)

ROUND_S = 60


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def house(clock: ManualClock) -> AsyncIterator[House]:
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as opened:
        await opened.make_topic()
        yield opened


@pytest.fixture
async def peer(house: House) -> Peer:
    return await house.connect()


async def test_a_producer_is_asked_about_what_it_did_not_end(house: House, peer: Peer, clock: ManualClock) -> None:
    await join(peer)
    sent = await send_half(peer, 1, born_ms=START_MS, flag=5)
    await pass_time(clock, ROUND_S - 1, peer)
    assert await asked(peer) == []
    await clock.advance(2)
    (question,) = await asked(peer)
    half_offset, log_offset = asked_about(question)
    assert half_offset == sent.half_offset + 1, "it was stored again"
    assert log_offset > sent.log_offset
    assert question.is_oneway
    ext = question.ext or {}
    assert (ext["msgId"], ext["transactionId"]) == (unique_id(1), unique_id(1))
    host = (await house.pull_all(HALF_TOPIC, 0))[1].store_host
    assert ext["offsetMsgId"] == encode_offset_id(host, log_offset)
    message = record_in(question)
    assert (message.topic, message.queue_id, message.body, message.flag) == (TOPIC, 1, b"1", 5)
    assert (message.queue_offset, message.log_offset) == (half_offset, log_offset)
    assert message.properties["TRANSACTION_CHECK_TIMES"] == "1"

    await peer.ok(end_frame(half_offset, log_offset, COMMIT))
    assert await bodies(house) == [b"1"]
    await pass_time(clock, 3 * ROUND_S, peer)
    assert await asked(peer) == []


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
async def test_whichever_copy_a_producer_speaks_of_it_ends_the_transaction_once(
    house: House, peer: Peer, clock: ManualClock, first: int
) -> None:
    await join(peer)
    sent = await send_half(peer, 1, born_ms=START_MS)
    places = [(sent.half_offset, sent.log_offset)]
    for _ in range(2):
        await pass_time(clock, ROUND_S, peer)
        places += [asked_about(question) for question in await asked(peer)]
    assert len(places) == 3
    await peer.ok(end_frame(*places[1], first))
    for place in places:
        await peer.ok(end_frame(*place, first))
    assert await bodies(house) == [b"1"] * (first == COMMIT)
    await pass_time(clock, 2 * ROUND_S, peer)
    assert await asked(peer) == []
    marked = [record.body for record in await house.pull_all("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0)]
    assert marked == [b"2"], "the mark speaks of the newest copy, which any broker would ask about"


async def test_any_living_member_of_the_group_is_asked_in_turn(house: House, peer: Peer, clock: ManualClock) -> None:
    await join(peer, client_id="dies")
    for number in range(4):
        await send_half(peer, number, born_ms=START_MS)
    peer.abort()
    others = [await house.connect() for _ in range(2)]
    for number, other in enumerate(others):
        await join(other, client_id=f"lives-{number}")
    stranger = await house.connect()
    await join(stranger, "strangers")
    await clock.advance(ROUND_S + 1)
    questions = [await asked(other) for other in others]
    assert [len(each) for each in questions] == [2, 2]
    assert await asked(stranger) == []
    for question in questions[1]:
        await others[0].ok(end_frame(*asked_about(question)))
    assert len(await bodies(house)) == 2


async def test_a_round_without_anybody_to_ask_is_no_check(house: House, peer: Peer, clock: ManualClock) -> None:
    await send_half(peer, 1, born_ms=START_MS)
    await clock.advance(20 * ROUND_S)
    assert (halves(house), pending(house)) == (1, 1)
    peer = await house.connect()
    await join(peer)
    await pass_time(clock, ROUND_S, peer)
    (question,) = await asked(peer)
    assert record_in(question).properties["TRANSACTION_CHECK_TIMES"] == "1"


async def test_after_fifteen_questions_a_transaction_is_given_up(house: House, peer: Peer, clock: ManualClock) -> None:
    await join(peer)
    await send_half(peer, 1, born_ms=START_MS)
    count = 0
    for _ in range(18):
        await pass_time(clock, ROUND_S, peer)
        for question in await asked(peer):
            count += 1
            await peer.write(end_frame(*asked_about(question), UNKNOWN, is_oneway=True))
    assert count == 15
    assert pending(house) == 0
    (given_up,) = await house.pull_all(GIVEN_UP_TOPIC, 0)
    assert given_up.body == b"1"
    assert given_up.properties["TRANSACTION_CHECK_TIMES"] == "15"
    assert given_up.properties["REAL_TOPIC"] == TOPIC
    assert await bodies(house) == []


async def test_a_given_up_transaction_can_still_be_ended_once(house: House, peer: Peer, clock: ManualClock) -> None:
    await house.set_config(transactionCheckMax=1)
    await join(peer)
    sent = [await send_half(peer, number, born_ms=START_MS) for number in (1, 2)]
    await pass_time(clock, 2 * ROUND_S + 1, peer)
    assert pending(house) == 0
    assert len(await house.pull_all(GIVEN_UP_TOPIC, 0)) == 2
    await peer.write(end(sent[0], opaque=21), end(sent[0], opaque=22))
    await peer.all(2)
    again = await peer.ok(end(sent[0]))
    assert "ended before" in (again.remark or "")
    await peer.ok(end(sent[1], ROLLBACK))
    assert await bodies(house) == [b"1"]


async def test_an_operator_has_a_given_up_transaction_asked_about_again(
    house: House, peer: Peer, clock: ManualClock
) -> None:
    await house.set_config(transactionCheckMax=1)
    await join(peer)
    await send_half(peer, 1, born_ms=START_MS)
    await pass_time(clock, 2 * ROUND_S + 1, peer)
    (given_up,) = await house.pull_all(GIVEN_UP_TOPIC, 0)
    await asked(peer)
    message_id = encode_offset_id(given_up.store_host, given_up.log_offset)
    await peer.ok(Frame(RequestCode.RESUME_CHECK_HALF_MESSAGE, 1, ext={"msgId": message_id}))
    assert pending(house) == 1
    assert (await house.pull_all(HALF_TOPIC, 0))[-1].properties["TRANSACTION_CHECK_TIMES"] == "0"
    await pass_time(clock, ROUND_S, peer)
    (question,) = await asked(peer)
    await peer.ok(end_frame(*asked_about(question)))
    assert await bodies(house) == [b"1"]
    code, remark = await peer.refused(Frame(RequestCode.RESUME_CHECK_HALF_MESSAGE, 1, ext={"msgId": message_id}))
    assert (code, "over" in remark) == (1, True)
    for wrong in ("xyz", "", "0" * 32, encode_offset_id(given_up.store_host, given_up.log_offset + 1)):
        code, _ = await peer.refused(Frame(RequestCode.RESUME_CHECK_HALF_MESSAGE, 1, ext={"msgId": wrong}))
        assert code == 1


async def test_copies_that_a_broker_of_apache_would_still_read_are_marked_as_replaced(
    house: House, peer: Peer, clock: ManualClock
) -> None:
    await join(peer)
    await send_half(peer, 9, born_ms=START_MS, more={"CHECK_IMMUNITY_TIME_IN_SECONDS": "86400"})
    await send_half(peer, 1, born_ms=START_MS)
    await pass_time(clock, 2 * ROUND_S, peer)
    await peer.ok(end_frame(*asked_about((await asked(peer))[-1])))
    await send_half(peer, 2, born_ms=clock.now_ms())
    twice = await send_half(peer, 2, born_ms=clock.now_ms())
    await peer.ok(end(twice, ROLLBACK))
    await clock.advance(2)
    assert not saved_offsets(house)[0], "the one that is left alone is pending"
    marks = [(record.body, record.properties["TRAN_END"]) for record in await house.pull_all(OP_TOPIC, 0)]
    replaced = "replaced"
    assert marks == [(b"1", replaced), (b"2", replaced), (b"3", "commit"), (b"4", replaced), (b"5", "rollback")]
    assert halves(house) == 6


async def test_a_copy_that_nobody_will_read_again_is_not_marked(house: House, peer: Peer, clock: ManualClock) -> None:
    await join(peer)
    for number in (1, 2):
        await send_half(peer, number, born_ms=START_MS)
    await pass_time(clock, 2 * ROUND_S, peer)
    assert len(await asked(peer)) == 4
    assert await house.pull_all(OP_TOPIC, 0) == []


async def test_a_message_is_left_alone_for_its_own_immunity_time(
    house: House, peer: Peer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_rules, "RENEW_BEHIND", 3)
    await join(peer)
    immune = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "300"}
    sent = await send_half(peer, 1, born_ms=START_MS, more=immune)
    for number in range(2, 6):
        await peer.ok(end(await send_half(peer, number, born_ms=START_MS), ROLLBACK))
    await pass_time(clock, ROUND_S + 1, peer)
    assert await asked(peer) == []
    assert halves(house) == 6, "behind so many others it was stored again"
    copy = (await house.pull_all(HALF_TOPIC, 0))[-1]
    assert copy.properties["TRAN_PREPARED_QUEUE_OFFSET"] == str(sent.half_offset)
    assert "TRANSACTION_CHECK_TIMES" not in copy.properties, "that was no check"
    await pass_time(clock, 2 * ROUND_S, peer)
    assert await asked(peer) == []
    assert halves(house) == 6
    await pass_time(clock, 2 * ROUND_S, peer)
    (question,) = await asked(peer)
    await peer.ok(end_frame(*asked_about(question)))
    assert await bodies(house) == [b"1"]


async def test_one_born_in_the_future_is_asked_about_and_holds_up_nobody(
    house: House, peer: Peer, clock: ManualClock
) -> None:
    await join(peer)
    await send_half(peer, 1, born_ms=START_MS + 10**9)
    await send_half(peer, 2, born_ms=START_MS + 59_000)
    await send_half(peer, 3, born_ms=START_MS)
    await pass_time(clock, ROUND_S, peer)
    assert [record_in(question).body for question in await asked(peer)] == [b"1", b"3"]


async def test_one_without_an_id_is_known_by_its_place(house: House, peer: Peer, clock: ManualClock) -> None:
    await join(peer)
    sent = await send_half(peer, 1, born_ms=START_MS, has_id=False)
    await pass_time(clock, ROUND_S, peer)
    (question,) = await asked(peer)
    assert "msgId" not in (question.ext or {})
    await peer.ok(end(sent))
    code, remark = await peer.refused(end_frame(*asked_about(question)))
    assert (code, "not pending" in remark) == (1, True)
    assert await bodies(house) == [b"1"]


async def test_the_times_can_be_changed_while_the_broker_runs(house: House, peer: Peer, clock: ManualClock) -> None:
    await join(peer)
    await house.set_config(transactionCheckInterval=2000, transactionTimeOut=1000)
    await send_half(peer, 1, born_ms=START_MS)
    await clock.advance(3)
    assert len(await asked(peer)) == 1


async def test_offsets_move_on_over_what_is_over(house: House, peer: Peer, clock: ManualClock) -> None:
    first, second, third = [await send_half(peer, number, born_ms=START_MS) for number in (1, 2, 3)]
    await peer.ok(end(first))
    await peer.ok(end(third, ROLLBACK))
    await clock.advance(11)  # the log is durable by then
    assert saved_offsets(house) == (1, 0)
    await peer.ok(end(second))
    await clock.advance(11)
    assert saved_offsets(house) == (3, 3)


async def test_what_the_store_refuses_is_asked_about_later(house: House, peer: Peer, clock: ManualClock) -> None:
    disk = house.disk
    assert isinstance(disk, FaultyDisk)
    await join(peer)
    await send_half(peer, 1, born_ms=START_MS)
    disk.fail("pwrite", path="*/commitlog/*", times=None)
    await pass_time(clock, ROUND_S + 1, peer)
    assert await asked(peer) == []
    disk.heal()
    await pass_time(clock, ROUND_S, peer)
    assert len(await asked(peer)) == 1
    assert pending(house) == 1


async def test_many_pending_transactions_are_all_asked_about(house: House, peer: Peer, clock: ManualClock) -> None:
    await join(peer)
    for number in range(100):
        await send_half(peer, number, born_ms=START_MS, group=PRODUCERS)
    await pass_time(clock, ROUND_S, peer)
    questions = await asked(peer)
    assert [record_in(question).body for question in questions] == [b"%d" % number for number in range(100)]
    await peer.write(*[end_frame(*asked_about(question), is_oneway=True) for question in questions])
    assert len(await bodies(house)) == 100
    assert pending(house) == 0
