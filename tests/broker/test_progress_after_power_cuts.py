"""What groups have read, and what they handed back, when the power was lost: nobody is ever ahead of the log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from skyrocketmq.config import FlushDiskType
from skyrocketmq.errors import FlushFailed
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, open_house
from tests.broker.requests import TOPIC, properties_text, send_frame, unique_id
from tests.broker.test_retry import RETRY, back_frame
from tests.broker.test_send_sync import pass_time

GROUP = "billing"
OFFSETS = ROOT / "config" / "consumerOffset.json"


def commit_frame(offset: int, queue_id: int = 0) -> Frame:
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id), "commitOffset": str(offset)}
    return Frame(RequestCode.UPDATE_CONSUMER_OFFSET, 5, ext=dict(fields))


def frozen(disk: FaultyDisk) -> FaultyDisk:
    survivor = disk.after_power_loss()
    disk.is_powered = True
    return survivor


async def test_offsets_are_on_the_disk_after_the_messages_they_speak_of() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock, check=False) as house:
        await house.make_topic()
        peer = await house.connect()
        for number in range(5):
            await peer.ok(send_frame(body=b"%d" % number))
        await peer.ok(commit_frame(4))
        assert house.broker.store.flushed_offset < house.broker.store.log.max_offset
        await house.broker.tables.save_offsets()
        survivor = frozen(disk)
    async with open_house(disk=survivor, clock=clock) as house:
        assert house.broker.tables.offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 4
        assert house.broker.store.max_offset(TOPIC, 0) >= 5


@pytest.mark.parametrize("is_binary", [False, True])
async def test_every_way_of_sending_keeps_zeros_in_properties_over_kills_and_power_cuts(is_binary: bool) -> None:
    """Also the quick ones, which remember the shape of the properties of messages before."""
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    store = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    texts = [
        [("KEYS", f"k\0{number % 2}"), ("UNIQ_KEY", unique_id(number)), ("TAGS", "T"), *more]
        for number, more in enumerate([*[[]] * 8, *[[("name", "\0" * 600)]] * 8, *[[("name", "x")]] * 4])
    ]
    async with open_house(disk=disk, clock=clock, check=False, store=store) as house:
        await house.make_topic()
        peer = await house.connect()
        for pairs in texts:
            await peer.ok(send_frame(is_binary=is_binary, properties=properties_text(pairs)))
        killed = disk.after_kill()
        cut = disk.after_power_loss()
        disk.is_powered = True
    for found in (killed, cut):
        async with open_house(disk=found, clock=clock, store=store) as house:
            kept = await house.pull_all()
            names = ("KEYS", "UNIQ_KEY", "TAGS", "name")
            assert [[(name, record.properties.get(name)) for name in names] for record in kept] == [
                [(name, dict(pairs).get(name)) for name in names] for pairs in texts
            ]


async def test_offsets_that_have_not_changed_cost_no_sync() -> None:
    async with open_house(clock=ManualClock()) as house:
        await house.make_topic()
        await house.send_many(3)
        await house.broker.tables.save_offsets()
        assert house.broker.store.flushed_offset == 0


async def test_where_the_log_cannot_be_flushed_the_offsets_stay_as_they_were() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock, check=False) as house:
        await house.make_topic()
        await house.send_many(3)
        peer = await house.connect()
        await peer.ok(commit_frame(2))
        disk.fail("fdatasync", path="*/commitlog/*")
        with pytest.raises(FlushFailed):
            await house.broker.tables.save_offsets()
    assert not disk.exists(OFFSETS)


async def test_a_start_sets_offsets_beyond_the_log_to_its_end_and_names_them(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:
        await house.make_topic()
        await house.send_many(3)
        peer = await house.connect()
        await peer.ok(commit_frame(30))  # an older version wrote the file before the log
    with caplog.at_level(logging.WARNING, "skyrocketmq"):
        async with open_house(disk=disk, clock=clock) as house:
            assert house.broker.tables.offsets.find(group=GROUP, topic=TOPIC, queue_id=0) == 3
    [record] = [record for record in caplog.records if record.message.startswith("offsets beyond")]
    assert record.__dict__["queues"] == f"{TOPIC}@{GROUP} 0: 30 -> 3"


@pytest.mark.parametrize("level", [1, -1], ids=["retry", "dead letter"])
async def test_a_message_handed_back_is_answered_when_its_copy_is_durable(level: int) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(
        disk=disk, clock=clock, check=False, store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    ) as house:
        await house.make_topic()
        peer = await house.connect()
        await peer.ok(send_frame(body=b"order"))
        house.broker.tables.topics.get_retry_topic(GROUP, queue_count=1)
        house.broker.tables.topics.get_dlq_topic(GROUP)
        await house.broker.tables.topics_saver.save()
        await peer.ok(back_frame(0, level=level, group=GROUP))
        assert house.broker.store.flushed_offset == house.broker.store.log.max_offset
        survivor = frozen(disk)
    async with open_house(disk=survivor, clock=clock) as house:
        await pass_time(clock, 5)
        copies = await house.pull_all(RETRY if level > 0 else f"%DLQ%{GROUP}")
        assert [record.body for record in copies] == [b"order"]


async def test_a_copy_that_does_not_become_durable_in_time_is_told_as_a_failure_also_when_asked_again() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(
        disk=disk, clock=clock, check=False, store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    ) as house:
        await house.make_topic()
        peer = await house.connect()
        await peer.ok(send_frame(body=b"order"))
        await peer.ok(back_frame(0, level=5, group=GROUP))
        disk.fail("fdatasync", path="*/commitlog/*")
        for _ in range(2):
            answer = asyncio.ensure_future(peer.ask(back_frame(0, level=6, group=GROUP)))
            while not answer.done():
                await pass_time(clock, 1)
            assert answer.result().code == 1, answer.result().remark
            assert "FLUSH_DISK_TIMEOUT" in (answer.result().remark or "")
