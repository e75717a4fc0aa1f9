"""Synchronous flush: an answer says that the message is on disk, unless its sender did not want to wait for that.

The disk takes a second for every sync, on a clock that the test moves.
"""

from __future__ import annotations

import asyncio
import errno

import pytest

from skyrocketmq.config import FlushDiskType
from skyrocketmq.ports import SystemClock
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, House, Peer, open_house, open_patient_house
from tests.broker.requests import TOPIC, as_version_1, properties_text, pull_frame, send_frame, unique_id
from tests.waiting import breathe

LOG = "*/commitlog/*"


def syncs(house: House) -> int:
    assert isinstance(house.disk, FaultyDisk)
    return house.disk.count("fdatasync", LOG)


def text(number: int, *, wait: str = "true") -> str:
    return properties_text([("UNIQ_KEY", unique_id(number)), ("WAIT", wait), ("TAGS", "TagA")])


async def prepared(house: House, clock: ManualClock) -> Peer:
    """A connection whose sends are known, on a log that is flushed."""
    peer = await house.connect()
    for is_binary in (False, True):
        for wait in ("true", "false"):
            await peer.write(send_frame(queue_id=3, is_binary=is_binary, properties=text(0, wait=wait)))
            answer = asyncio.ensure_future(peer.next())
            while not answer.done():
                await pass_time(clock, 0.5)
            assert answer.result().code == 0
    await pass_time(clock, 3)
    return peer


async def pass_time(clock: ManualClock, seconds: float) -> None:
    """Move the clock, and give sockets their turns on both sides."""
    await breathe(0.005)
    await clock.advance(seconds)
    await breathe(0.005)


KINDS = {
    "JSON": send_frame(properties=text(1)),
    "binary": send_frame(is_binary=True, properties=text(1)),
    "version 1": as_version_1(send_frame(properties=text(1))),
    "batch": send_frame(code=RequestCode.SEND_BATCH_MESSAGE, m="true", body=encode_batch([(0, b"x", b"")])),
    "without WAIT": send_frame(properties=""),
}


@pytest.mark.parametrize("frame", KINDS.values(), ids=KINDS)
async def test_an_answer_comes_once_the_message_is_on_disk_and_not_before(frame: Frame) -> None:
    async with open_patient_house() as (house, clock):
        peer = await prepared(house, clock)
        before = syncs(house)
        await peer.write(frame)
        await peer.silence(0.02)
        assert len(await house.pull_all()) == 1, "others may read it already"
        await pass_time(clock, 0.9)
        await peer.silence(0.02)
        await pass_time(clock, 0.2)
        assert (await peer.next()).code == 0
        assert syncs(house) == before + 1
        assert house.broker.store.flushed_offset == house.broker.store.log.max_offset


async def test_all_who_wait_share_one_sync() -> None:
    """Whoever comes while a sync runs waits for the next one, together with all others."""
    async with open_patient_house() as (house, clock):
        await prepared(house, clock)
        peers = [await house.connect() for _ in range(10)]
        before = syncs(house)
        await peers[0].write(send_frame(opaque=1000, properties=text(1000)))
        await pass_time(clock, 0.5)
        for number, peer in enumerate(peers):
            await peer.write(
                *[
                    send_frame(opaque=count, is_binary=count % 2 == 0, properties=text(number * 50 + count))
                    for count in range(20)
                ]
            )
        await pass_time(clock, 0.4)
        for peer in peers:
            await peer.silence(0.002)
        await pass_time(clock, 0.2)
        assert (await peers[0].next()).opaque == 1000
        for peer in peers[1:]:
            await peer.silence(0.002)
        await pass_time(clock, 1.0)
        for peer in peers:
            assert {answer.code for answer in (await peer.all(20)).values()} == {0}
        assert syncs(house) == before + 2, "201 messages, two syncs"


@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_message_that_says_so_is_not_waited_for(is_binary: bool) -> None:
    async with open_patient_house() as (house, clock):
        peer = await prepared(house, clock)
        hasty = send_frame(is_binary=is_binary, properties=text(1, wait="false"))
        for frame in (hasty, as_version_1(hasty)):
            assert (await peer.ask(frame)).code == 0
        records = await house.pull_all()
        assert len(records) == 2
        assert all("WAIT" not in record.properties for record in records)


async def test_hasty_messages_do_not_wait_for_patient_ones_in_the_same_buffer() -> None:
    async with open_patient_house() as (house, clock):
        peer = await prepared(house, clock)
        await peer.write(
            *[
                send_frame(
                    opaque=number,
                    is_binary=number % 3 == 0,
                    properties=text(number, wait=["true", "false"][number % 2]),
                )
                for number in range(10)
            ],
            pull_frame(opaque=10),
        )
        assert set(await peer.all(6)) == {1, 3, 5, 7, 9, 10}
        await peer.silence(0.02)
        await pass_time(clock, 1.1)
        assert set(await peer.all(5)) == {0, 2, 4, 6, 8}


async def test_a_sync_that_takes_too_long_is_told_and_the_message_stays() -> None:
    async with open_patient_house(sync_seconds=1.0) as (house, clock):
        peer = await prepared(house, clock)
        assert isinstance(house.disk, FaultyDisk)
        house.disk.stall("fdatasync", path=LOG, seconds=30, times=1)
        frames = [
            send_frame(opaque=1, properties=text(1)),
            send_frame(opaque=2, is_binary=True, properties=text(2)),
            as_version_1(send_frame(opaque=3, properties=text(3))),
        ]
        await peer.write(*frames)
        await pass_time(clock, 4.9)
        await peer.silence(0.02)
        await pass_time(clock, 0.2)
        answers = await peer.all(3)
        records = {record.log_offset: record for record in await house.pull_all()}
        for opaque, answer in answers.items():
            assert answer.code == 10, "FLUSH_DISK_TIMEOUT"
            assert answer.ext is not None
            record = records.pop(int((answer.ext["msgId"] or "")[16:], 16))
            assert record.properties["UNIQ_KEY"] == unique_id(opaque)
            assert answer.ext["queueOffset"] == str(record.queue_offset)
            assert answer.ext["queueId"] == "0"
            assert answer.encoding is frames[opaque - 1].encoding
        await pass_time(clock, 40)
        await peer.silence(0.02)
        await peer.write(send_frame(opaque=4))
        await pass_time(clock, 1.1)
        assert (await peer.next()).code == 0, "the disk has come back"


async def test_the_time_allowed_for_a_sync_may_be_changed() -> None:
    async with open_patient_house(sync_seconds=1.0) as (house, clock):
        peer = await prepared(house, clock)
        await house.set_config(syncFlushTimeout=500)
        await peer.write(send_frame())
        await pass_time(clock, 0.6)
        assert (await peer.next()).code == 10


async def test_a_failed_sync_is_final_until_a_restart() -> None:
    async with open_patient_house(check=False) as (house, clock):
        peer = await prepared(house, clock)
        assert isinstance(house.disk, FaultyDisk)
        house.disk.fail("fdatasync", path=LOG, error=errno.EIO)
        await peer.write(send_frame(opaque=1, properties=text(1)), as_version_1(send_frame(opaque=2)))
        await pass_time(clock, 1.1)
        assert {answer.code for answer in (await peer.all(2)).values()} == {10}, "stored, and not known to be durable"
        house.disk.heal()
        for frame in (send_frame(opaque=3, properties=text(1)), as_version_1(send_frame(opaque=4))):
            code, remark = await peer.refused(frame)
            assert code == 14
            assert "restart" in remark


async def test_a_producer_that_leaves_while_it_waits_disturbs_nobody() -> None:
    async with open_patient_house() as (house, clock):
        peer, other = await prepared(house, clock), await house.connect()
        await peer.write(send_frame(opaque=1, properties=text(1)), as_version_1(send_frame(opaque=2)))
        await other.write(send_frame(opaque=3, properties=text(3)))
        await asyncio.sleep(0.01)
        peer.abort()
        await pass_time(clock, 2.5)
        assert (await other.next()).code == 0
        assert len(await house.pull_all()) == 3


async def test_a_broker_that_stops_answers_those_who_wait_for_the_disk() -> None:
    clock = SystemClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock, sync_seconds=0.2)
    async with open_house(disk=disk, clock=clock, store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}) as house:
        peer = await house.connect()
        await peer.ok(send_frame(properties=text(1)))
        await peer.ok(send_frame(properties=text(1), is_binary=True))
        await peer.write(
            send_frame(opaque=1, properties=text(1)),
            send_frame(opaque=2, is_binary=True, properties=text(2)),
        )
        await peer.silence(0.02)
        house.forget(peer)
    answers = await peer.all(2)
    assert {answer.code for answer in answers.values()} == {0}
    await peer.ended()
    await peer.close()


async def test_oneway_sends_are_flushed_without_anybody_waiting() -> None:
    async with open_patient_house() as (house, clock):
        peer = await prepared(house, clock)
        await peer.write(send_frame(TOPIC, is_oneway=True, properties=text(1)))
        await pass_time(clock, 1.0)
        await peer.silence(0.01)
        assert len(await house.pull_all()) == 1
        await pass_time(clock, 12)
        assert house.broker.store.flushed_offset == house.broker.store.log.max_offset
