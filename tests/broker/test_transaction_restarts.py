"""Transactions outlive their broker: restarts between every two steps, kills, power cuts at any disk call."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from skyrocketmq.config import FlushDiskType
from skyrocketmq.testing import FaultyDisk, ManualClock, PowerLost
from skyrocketmq.testing.clock import START_MS
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.ids import encode_offset_id
from tests.broker.house import ROOT, House, Peer, open_house, read_store
from tests.broker.requests import TOPIC, properties_text, send_frame, unique_id
from tests.broker.transacting import (
    COMMIT,
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    PRODUCERS,
    ROLLBACK,
    asked,
    asked_about,
    bodies,
    end,
    end_frame,
    half_frame,
    join,
    pass_time,
    pending,
    read_sent,
    record_in,
    saved_offsets,
    send_half,
)
from tests.store.reader import Record

ROUND_S = 61
SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
Place = tuple[int, int]


class Lives:
    """One store that sees several brokers, each ended as `ending` says."""

    def __init__(self, ending: str) -> None:
        self.clock = ManualClock()
        self.disk = FaultyDisk(directories=[ROOT], clock=self.clock)
        self._ending = ending

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[House, Peer]]:
        disk, clock = self.disk, self.clock
        async with open_house(disk=disk, clock=clock, store=SYNC, check=False) as house:
            peer = await house.connect()
            await join(peer)
            yield house, peer
            if self._ending == "killed":
                self.disk = disk.after_power_loss(keep=True)
            elif self._ending == "without power":
                self.disk = disk.after_power_loss()
            disk.is_powered = True  # so that the test ends in order; what it writes now is not seen again


class Story:
    """Three transactions, step by step. Each step may meet a new broker."""

    def __init__(self) -> None:
        self.places: dict[bytes, list[Place]] = {b"1": [], b"2": [], b"3": []}
        self.steps: list[Callable[[House, Peer, ManualClock], Awaitable[None]]] = [
            self.send,
            self.ask,
            self.end_two,
            self.end_them_again,
            self.ask,
            self.end_the_third,
            self.end_all_again,
            self.ask,
        ]
        self.pending = 3

    async def send(self, house: House, peer: Peer, clock: ManualClock) -> None:
        await house.make_topic()
        for body, places in self.places.items():
            sent = await send_half(peer, int(body), born_ms=START_MS)
            places.append((sent.half_offset, sent.log_offset))

    async def ask(self, house: House, peer: Peer, clock: ManualClock) -> None:
        assert pending(house) == self.pending
        await pass_time(clock, ROUND_S, peer)
        questions = await asked(peer)
        assert len(questions) == self.pending
        for question in questions:
            self.places[record_in(question).body].append(asked_about(question))

    async def end_two(self, house: House, peer: Peer, clock: ManualClock) -> None:
        await peer.ok(end_frame(*self.places[b"1"][0], COMMIT))  # the place of the first copy
        await peer.ok(end_frame(*self.places[b"2"][1], ROLLBACK))  # that of the second
        self.pending = 1

    async def end_them_again(self, house: House, peer: Peer, clock: ManualClock) -> None:
        for body, how in ((b"1", COMMIT), (b"2", ROLLBACK)):
            for place in self.places[body]:
                await peer.ok(end_frame(*place, how))
        code, _ = await peer.refused(end_frame(*self.places[b"2"][0], COMMIT))
        assert code == 1

    async def end_the_third(self, house: House, peer: Peer, clock: ManualClock) -> None:
        await peer.ok(end_frame(*self.places[b"3"][1], COMMIT))
        self.pending = 0

    async def end_all_again(self, house: House, peer: Peer, clock: ManualClock) -> None:
        await self.end_them_again(house, peer, clock)
        for place in self.places[b"3"]:
            await peer.ok(end_frame(*place, COMMIT))


@pytest.mark.parametrize("ending", ["stopped", "killed", "without power"])
async def test_a_broker_may_end_between_any_two_steps(ending: str) -> None:
    lives, story = Lives(ending), Story()
    for step in story.steps:
        async with lives.open() as (house, peer):
            await step(house, peer, lives.clock)
    async with lives.open() as (house, _):
        assert await bodies(house) == [b"1", b"3"]
        assert pending(house) == 0
        assert saved_offsets(house)[0] or ending != "stopped"


async def test_the_same_without_any_restart() -> None:
    lives, story = Lives("stopped"), Story()
    async with lives.open() as (house, peer):
        for step in story.steps:
            await step(house, peer, lives.clock)
        assert await bodies(house) == [b"1", b"3"]
    read_store(lives.disk)


async def test_a_start_reads_only_what_came_after_the_offsets() -> None:
    lives = Lives("stopped")
    async with lives.open() as (house, peer):
        await house.make_topic()
        for number in range(20):
            await peer.ok(end(await send_half(peer, number)))
        await send_half(peer, 20)
    async with lives.open() as (house, peer):
        assert saved_offsets(house) == (20, 0), "some marks might still speak of the one that is pending"
        assert pending(house) == 1
        await peer.ok(end_frame(20, (await house.pull_all(HALF_TOPIC, 0))[20].log_offset))
    async with lives.open() as (house, _):
        assert saved_offsets(house) == (21, 21)
        assert len(await bodies(house)) == 21


async def test_offsets_move_over_nothing_that_a_power_cut_could_take_back() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:  # flushes what does not fill pages every ten seconds
        await house.make_topic()
        peer = await house.connect()
        await clock.advance(11)  # whatever the topic has left is flushed
        await peer.ok(end(await send_half(peer, 1)))
        await clock.advance(3)
        assert house.broker.store.flushed_offset < house.broker.store.log.max_offset
        assert saved_offsets(house) == (None, None)
        await clock.advance(11)
        assert house.broker.store.flushed_offset == house.broker.store.log.max_offset
        assert saved_offsets(house) == (1, 1)


async def test_without_its_offsets_a_start_reads_everything_and_finds_the_same() -> None:
    lives = Lives("stopped")
    async with lives.open() as (house, peer):
        await house.make_topic()
        for number in range(5):
            sent = await send_half(peer, number)
            if number != 3:
                await peer.ok(end(sent))
    lives.disk.unlink(ROOT / "config" / "consumerOffset.json")
    async with lives.open() as (house, _):
        assert list(house.broker.transactions.log.pending) == [(pending_name(3), 3)]


def pending_name(number: int) -> bytes:
    return f"{TOPIC}\x02{PRODUCERS}\x02{unique_id(number)}".encode()


@pytest.mark.parametrize("wrong", [HALF_TOPIC, OP_TOPIC])
async def test_offsets_beyond_the_log_are_not_believed(wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    lives = Lives("stopped")
    async with lives.open() as (house, peer):
        await house.make_topic()
        await peer.ok(end(await send_half(peer, 1, born_ms=START_MS)))
        sent = await send_half(peer, 2, born_ms=START_MS)
    # As a slave has them that got its master's offsets before its log.
    path = ROOT / "config" / "consumerOffset.json"
    queues = {HALF_TOPIC: 2, OP_TOPIC: 1} | {wrong: 1000}
    table = {f"{topic}@CID_RMQ_SYS_TRANS": {"0": offset} for topic, offset in queues.items()}
    lives.disk.replace(path, json.dumps({"offsetTable": table}).encode())
    async with lives.open() as (house, peer):
        assert "saved offsets of transactions are beyond the log: all half messages are looked at" in caplog.messages
        assert list(house.broker.transactions.log.pending) == [(pending_name(2), 1)]
        await peer.ok(end(sent))
        assert await bodies(house) == [b"1", b"2"]


@pytest.mark.parametrize("copies", [1, 2])
async def test_a_commit_whose_mark_was_torn_off_is_not_delivered_again(
    copies: int, caplog: pytest.LogCaptureFixture
) -> None:
    lives = Lives("killed")
    async with lives.open() as (house, peer):
        await house.make_topic()
        await peer.ok(send_frame(TOPIC, 0))
        sent = await send_half(peer, 1, born_ms=START_MS)
        if copies == 2:
            await pass_time(lives.clock, ROUND_S, peer)
            assert len(await asked(peer)) == 1
        await peer.ok(end(sent))  # names the first copy
        (mark,) = await house.pull_all(OP_TOPIC, 0)
    tear_off(lives, mark)
    with caplog.at_level(logging.WARNING, "skyrocketmq.broker.transaction_start"):
        async with lives.open() as (house, peer):
            assert "a commit had lost its mark in a crash" in caplog.messages
            assert pending(house) == 0
            again = await peer.ok(end(sent))
            assert "ended before" in (again.remark or "")
            await pass_time(lives.clock, ROUND_S, peer)
            assert await asked(peer) == []
            assert await bodies(house) == [b"1"]
    async with lives.open() as (house, _):
        assert pending(house) == 0


def tear_off(lives: Lives, record: Record) -> None:
    file = lives.disk.open(ROOT / "commitlog" / f"{0:020d}")
    file.pwrite(bytes(record.total), record.log_offset)
    file.close()


async def test_a_delayed_message_that_is_due_at_the_start_does_not_hide_a_torn_commit() -> None:
    lives = Lives("killed")
    async with lives.open() as (house, peer):
        await house.make_topic()
        late = properties_text({"DELAY": "3", "UNIQ_KEY": unique_id(77)})
        await peer.ok(send_frame(TOPIC, 1, body=b"late", properties=late))
        await peer.ok(end(await send_half(peer, 1, born_ms=START_MS)))
        (mark,) = await house.pull_all(OP_TOPIC, 0)
    tear_off(lives, mark)
    await lives.clock.advance(30)
    async with lives.open() as (house, peer):
        assert pending(house) == 0
        await lives.clock.advance(1)
        assert await bodies(house) == [b"1", b"late"]


async def test_a_plain_message_with_the_bits_of_a_commit_ends_nothing() -> None:
    lives = Lives("killed")
    async with lives.open() as (house, peer):
        await house.make_topic()
        sent = await send_half(peer, 1, born_ms=START_MS)
        same_id = properties_text({"UNIQ_KEY": unique_id(1), "PGROUP": PRODUCERS, "REAL_TOPIC": TOPIC})
        await peer.ok(send_frame(TOPIC, 1, body=b"forged", sys_flag=COMMIT, properties=same_id))
    async with lives.open() as (house, peer):
        assert pending(house) == 1
        await peer.ok(end(sent))
        assert await bodies(house) == [b"forged", b"1"]


@pytest.mark.parametrize("is_ended", [False, True])
async def test_a_given_up_transaction_is_not_found_again_by_a_start(is_ended: bool) -> None:
    lives = Lives("stopped")
    async with lives.open() as (house, peer):
        await house.make_topic()
        await house.set_config(transactionCheckMax=2)
        sent = await send_half(peer, 1, born_ms=START_MS)
        await send_half(peer, 9, born_ms=START_MS, more={"CHECK_IMMUNITY_TIME_IN_SECONDS": "86400"})
        await pass_time(lives.clock, 3 * ROUND_S, peer)
        assert [name for name, _ in house.broker.transactions.log.pending] == [pending_name(9)]
        if is_ended:
            await peer.ok(end(sent))  # names the first copy
        await peer.ok(send_frame(TOPIC, 1, body=b"plain"))
    for _ in range(2):
        async with lives.open() as (house, peer):
            assert [name for name, _ in house.broker.transactions.log.pending] == [pending_name(9)]
            await pass_time(lives.clock, ROUND_S, peer)
            assert len(await house.pull_all(GIVEN_UP_TOPIC, 0)) == 1
            again = await peer.ok(end(sent))
            assert is_ended == ("ended before" in (again.remark or ""))
            is_ended = True
            assert sorted(await bodies(house)) == [b"1", b"plain"]


async def test_a_given_up_transaction_that_is_resumed_stays_pending_over_a_restart() -> None:
    lives = Lives("killed")
    async with lives.open() as (house, peer):
        await house.make_topic()
        await house.set_config(transactionCheckMax=1)
        await send_half(peer, 9, born_ms=START_MS, more={"CHECK_IMMUNITY_TIME_IN_SECONDS": "86400"})
        sent = await send_half(peer, 1, born_ms=START_MS)
        await pass_time(lives.clock, 2 * ROUND_S, peer)
        (letter,) = await house.pull_all(GIVEN_UP_TOPIC, 0)
        message_id = encode_offset_id(letter.store_host, letter.log_offset)
        await peer.ok(Frame(RequestCode.RESUME_CHECK_HALF_MESSAGE, 1, ext={"msgId": message_id}))
    async with lives.open() as (house, peer):
        assert [name for name, _ in house.broker.transactions.log.pending] == [pending_name(9), pending_name(1)]
        await peer.ok(end(sent))
    async with lives.open() as (house, _):
        assert [name for name, _ in house.broker.transactions.log.pending] == [pending_name(9)]
        assert await bodies(house) == [b"1"]


async def test_a_torn_half_message_never_was() -> None:
    lives = Lives("killed")
    async with lives.open() as (house, peer):
        await house.make_topic()
        await send_half(peer, 1)
        sent = await send_half(peer, 2)
        (_, half) = await house.pull_all(HALF_TOPIC, 0)
    tear_off(lives, half)
    async with lives.open() as (house, peer):
        assert pending(house) == 1
        code, _ = await peer.refused(end(sent))
        assert code == 1


# ------------------------------------------------------------------------------------------------ at any disk call


class Promises:
    """What a producer was told before the power was lost."""

    def __init__(self) -> None:
        self.sent: dict[int, Place] = {}
        self.ended: dict[int, int] = {}
        self.tried: dict[int, int] = {}

    async def live(self, disk: FaultyDisk, clock: ManualClock) -> None:
        try:
            async with open_house(disk=disk, clock=clock, store=SYNC, check=False) as house:
                producing = asyncio.create_task(self._produce(house))
                while disk.is_powered and not producing.done():
                    await asyncio.wait([producing], timeout=0.01)
                await asyncio.wait([producing], timeout=0.05)  # for what was answered before; afterwards nobody answers
                producing.cancel()
                await asyncio.gather(producing, return_exceptions=not disk.is_powered)
        except (PowerLost, OSError, ExceptionGroup):
            assert not disk.is_powered

    async def _produce(self, house: House) -> None:
        peer = await house.connect()
        await house.make_topic()
        for number in range(6):
            sent = read_sent(number, await peer.ok(half_frame(number, body=b"%d" % number * 300)))
            self.sent[number] = sent.half_offset, sent.log_offset
            if number % 3 < 2:
                self.tried[number] = how = (COMMIT, ROLLBACK)[number % 3]
                await peer.ok(end(sent, how))
                self.ended[number] = how

    async def check(self, disk: FaultyDisk, clock: ManualClock) -> None:
        async with open_house(disk=disk, clock=clock, store=SYNC) as house:
            await house.make_topic()
            peer = await house.connect()
            kept = [record.body[:1] for record in await house.pull_all(TOPIC, 1)]
            assert len(kept) == len(set(kept))
            for number in self.sent:
                how = self.ended.get(number)
                seen = kept.count(b"%d" % number)
                if how == COMMIT:
                    assert seen == 1, f"{number} was committed"
                elif how == ROLLBACK or number not in self.tried:
                    assert seen == 0, f"{number} was not committed"
                # Whatever it was told, the producer can end the transaction now, and it ends once.
                again = self.tried.get(number, COMMIT)
                await peer.ok(end_frame(*self.sent[number], again))
                await peer.ok(end_frame(*self.sent[number], again))
            kept = [record.body[:1] for record in await house.pull_all(TOPIC, 1)]
            wanted = {b"%d" % number for number in self.sent if self.tried.get(number, COMMIT) == COMMIT}
            assert len(kept) == len(set(kept))
            assert wanted <= set(kept)
            assert not {b"%d" % number for number, how in self.tried.items() if how == ROLLBACK} & set(kept)


async def crash(*, first: int, step: int) -> None:
    clock = ManualClock()
    probe = FaultyDisk(directories=[ROOT], clock=clock)
    await Promises().live(probe, clock)
    for crash_at in range(first, len(probe.calls), step):
        disk, promises = FaultyDisk(directories=[ROOT], clock=clock, crash_at=crash_at), Promises()
        await promises.live(disk, clock)
        for survivor in (disk.after_power_loss(), disk.after_power_loss(crash_at)):
            try:
                await promises.check(survivor, clock)
            except BaseException as error:
                error.add_note(f"crash_at={crash_at}, calls={disk.calls[-3:]}")
                raise


async def test_what_a_producer_was_told_holds_whatever_call_the_power_is_lost_at() -> None:
    await crash(first=2, step=12)  # at syncs of the log among others


@pytest.mark.skipif("CRASH_AT_EVERY_CALL" not in os.environ, reason="half a minute: a part of make chaos")
@pytest.mark.timeout(600)
async def test_what_a_producer_was_told_holds_at_every_single_call() -> None:
    await crash(first=0, step=1)
