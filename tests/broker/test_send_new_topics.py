"""The first messages of a topic: acknowledged once a crash cannot make their topic unknown."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from shutil import copytree

import pytest

from skyrocketmq.ports import LocalDisk
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, open_house
from tests.broker.requests import GROUP, TOPIC, as_version_1, send_frame
from tests.broker.support import until

TOPICS_FILE = "*/config/topics.json*"
KINDS = {
    "JSON": send_frame(),
    "binary": send_frame(is_binary=True),
    "version 1": as_version_1(send_frame()),
    "hasty": send_frame(properties="WAIT\x01false"),
}


@pytest.mark.parametrize("frame", KINDS.values(), ids=KINDS)
async def test_the_first_message_of_a_topic_is_acknowledged_when_the_topic_is_in_its_file(frame: Frame) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:
        peer, other = await house.connect(), await house.connect()
        disk.stall("fdatasync", path=TOPICS_FILE, seconds=1)
        await peer.write(frame)
        await peer.silence(0.02)
        for _ in range(2):
            await other.write(send_frame(opaque=5))
        await other.silence(0.02)
        await clock.advance(1.1)
        assert (await peer.next()).code == 0
        for _ in range(2):
            assert (await other.next()).code == 0
        await peer.ok(frame)  # and from then on at once
        assert b'"TopicTest"' in disk.read(ROOT / "config" / "topics.json")


async def test_other_topics_do_not_wait_for_a_new_one() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:
        peer = await house.connect()
        for is_binary in (False, True):
            for _ in range(2):
                await peer.ok(send_frame(is_binary=is_binary))
        disk.stall("fdatasync", path=TOPICS_FILE, seconds=1)
        await peer.write(send_frame("New", opaque=1))
        await peer.silence(0.02)
        for is_binary in (False, True):
            await peer.ok(send_frame(opaque=2, is_binary=is_binary))
        await clock.advance(1.1)
        assert (await peer.next()).opaque == 1


async def test_what_was_acknowledged_can_be_pulled_after_a_kill_at_that_moment(tmp_path: Path) -> None:
    """A copy of the directory is what a killed process leaves: all that it wrote, synced or not."""
    disk = LocalDisk()
    async with open_house(disk=disk, store={"root_path": tmp_path / "store"}) as house:
        peer = await house.connect()
        for number in range(5):
            await peer.ok(send_frame(f"Topic{number}", body=b"%d" % number))
            await disk.run(copytree, tmp_path / "store", tmp_path / str(number))
    for number in range(5):
        async with open_house(disk=disk, store={"root_path": tmp_path / str(number)}) as house:
            for each in range(number + 1):
                assert [record.body for record in await house.pull_all(f"Topic{each}")] == [b"%d" % each]
    disk.close()


async def test_a_topic_whose_file_cannot_be_written_takes_messages_and_says_that_they_may_be_lost() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:
        peer = await house.connect()
        disk.fail("pwrite", path=TOPICS_FILE, error=errno.ENOSPC, times=None)
        for _ in range(2):
            answer = await peer.ask(send_frame())
            assert answer.code == 10, "stored, and not known to be safe"
            assert "msgId" in (answer.ext or {})
        disk.heal()
        await clock.advance(2)
        await peer.ok(send_frame())
        assert len(await house.pull_all()) == 3


async def test_a_message_that_comes_back_waits_for_its_retry_topic_too() -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:
        peer = await house.connect()
        answer = await peer.ok(send_frame())
        assert answer.ext is not None
        disk.stall("fdatasync", path=TOPICS_FILE, seconds=1)
        ext: dict[str, str | None] = {
            "offset": str(int((answer.ext["msgId"] or "")[16:], 16)),
            "group": GROUP,
            "delayLevel": "-1",
            "originTopic": TOPIC,
        }
        await peer.write(Frame(RequestCode.CONSUMER_SEND_MSG_BACK, 9, ext=ext))
        await peer.silence(0.02)
        assert house.broker.store.max_offset(f"%DLQ%{GROUP}", 0) == 0, "nobody sees it before"
        await clock.advance(2.2)
        assert ((await peer.next()).opaque, len(await house.pull_all(f"%DLQ%{GROUP}"))) == (9, 1)


async def test_many_producers_may_make_one_topic_at_once() -> None:
    async with open_house() as house:
        peers = [await house.connect() for _ in range(20)]
        for number, peer in enumerate(peers):
            await peer.write(send_frame(opaque=number, is_binary=number % 2 == 0))
        answers = await asyncio.gather(*[peer.next() for peer in peers])
        assert {answer.code for answer in answers} == {0}
        await until(lambda: house.broker.tables.topics_saver.is_saved)
        assert len(await house.pull_all()) == 20
