"""A disk that fails while producers send: exactly the messages that are not stored are refused.

The log's files are small, so that a buffer of messages spans several of them and any of its writes may be the one that
fails. Whatever happens, acknowledged messages are stored, refused ones are not, and the broker goes on.
"""

from __future__ import annotations

import errno
import os

import pytest

from skyrocketmq.config import FlushDiskType
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.frames import Frame
from tests.broker.house import ROOT, House, house_config, open_house, read_store
from tests.broker.requests import TOPIC, as_version_1, properties_text, pull_frame, send_frame, unique_id

LOG = "*/commitlog/*"
SMALL = {"commit_log_file_bytes": 4096}
CODES = {errno.ENOSPC: 14, errno.EIO: 1}


def message(number: int) -> Frame:
    """One of many kinds: both encodings, general ones, one-way ones, some that do not want to wait."""
    wait = "false" if number % 7 == 3 else "true"
    frame = send_frame(
        TOPIC,
        number % 3,
        opaque=number,
        body=b"message %d " % number + bytes(number % 5 * 100),
        is_binary=number % 2 == 0,
        is_oneway=number % 11 == 5,
        properties=properties_text([("UNIQ_KEY", unique_id(number)), ("WAIT", wait), ("TAGS", "TagA")]),
    )
    return as_version_1(frame) if number % 13 == 6 else frame


async def send_all(house: House, *, first: int = 0, count: int = 60, together: int = 15) -> dict[int, Frame]:
    """The answers by the number of the message."""
    peer = await house.connect()
    answers: dict[int, Frame] = {}
    for start in range(first, first + count, together):
        frames = [message(number) for number in range(start, start + together)]
        await peer.write(*frames)
        answers |= await peer.all(sum(not frame.is_oneway for frame in frames))
    return answers


def check_outcome(disk: FaultyDisk, answers: dict[int, Frame], *, code: int) -> set[int]:
    """What was acknowledged is stored where its answer says, and what was refused is not. Returns what is stored."""
    records = {
        int(record.body.split()[1].rstrip(b"\0")): record
        for record in read_store(disk, house_config(store=SMALL)).records
    }
    for number, answer in answers.items():
        if answer.code == 0:
            assert answer.ext is not None
            record = records[number]
            assert int((answer.ext["msgId"] or "")[16:], 16) == record.log_offset
            assert int(answer.ext["queueOffset"] or "") == record.queue_offset
            assert record.properties["UNIQ_KEY"] == unique_id(number)
        else:
            assert number not in records, "a message that was refused is not stored"
            assert answer.code in (code, 14), answer.remark  # 14: there is no next file yet
            assert answer.remark
            assert set(answer.ext or ()) == {"MSG_REGION", "TRACE_ON"}
    return set(records)


@pytest.mark.parametrize(
    ("after", "error"), [(n, errno.EIO) for n in range(22)] + [(n, errno.ENOSPC) for n in range(0, 22, 5)]
)
async def test_a_write_that_fails_refuses_what_it_should_have_stored_and_nothing_else(after: int, error: int) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock, store=SMALL) as house:
        await house.make_topic()
        disk.fail("pwrite", path=LOG, error=error, after=after)
        answers = await send_all(house)
        await clock.advance(2)
        later = await send_all(house, first=100)
    assert {answer.code for answer in later.values()} == {0}, "it goes on"
    stored = check_outcome(disk, answers | later, code=CODES[error])
    assert set(range(100, 160)) <= stored, "one-way messages too"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("operation", ["pwrite", "allocate"])
async def test_a_disk_that_keeps_failing_refuses_until_it_is_mended(operation: str, error: int) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock, store=SMALL) as house:
        await house.make_topic()
        before = await send_all(house, count=15)
        assert {answer.code for answer in before.values()} == {0}
        disk.fail(operation, path=LOG, error=error, times=None)
        during = await send_all(house, first=100)
        refused = {number for number, answer in during.items() if answer.code}
        assert len(refused) > 30, "a file that was reserved before may still take some"
        disk.heal()
        await clock.advance(2)
        after = await send_all(house, first=200)
        assert {answer.code for answer in after.values()} == {0}, "it heals by itself"
    stored = check_outcome(disk, before | during | after, code=CODES[error])
    assert set(range(15)) | set(range(200, 260)) <= stored, "one-way messages too"


@pytest.mark.parametrize("after", range(6))
async def test_messages_that_do_not_wait_for_the_disk_are_refused_too_when_they_are_not_stored(after: int) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    store = SMALL | {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with open_house(disk=disk, clock=clock, store=store) as house:
        await house.make_topic()
        await send_all(house, count=15)
        disk.fail("pwrite", path=LOG, error=errno.EIO, after=after)
        answers = await send_all(house, first=100)
    check_outcome(disk, answers, code=1)


async def test_a_queue_that_has_ten_messages_but_for_a_failed_write_answers_with_nine_again() -> None:
    """The number of digits goes down with the offset, and the binary answer is still a whole frame."""
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk, clock=ManualClock()) as house:
        peer = await house.connect()
        frame = send_frame(is_binary=True, properties=properties_text([("UNIQ_KEY", unique_id(1))]))
        for _ in range(9):
            await peer.ok(frame)
        disk.fail("pwrite", path=LOG, error=errno.EIO)
        two = [send_frame(opaque=number, is_binary=True, properties="") for number in (1, 2)]
        await peer.write(*two)
        assert {answer.code for answer in (await peer.all(2)).values()} == {1}
        for offset in (9, 10, 11):
            answer = await peer.ok(frame)
            assert answer.ext is not None
            assert answer.ext["queueOffset"] == str(offset)


async def test_the_remark_of_a_refusal_says_what_is_wrong_with_the_disk() -> None:
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk, clock=ManualClock()) as house:
        peer = await house.connect()
        for _ in range(2):
            await peer.ok(send_frame())
        for error, words in ((errno.ENOSPC, "no space"), (errno.EIO, os.strerror(errno.EIO))):
            disk.fail("pwrite", path=LOG, error=error)
            code, remark = await peer.refused(send_frame())
            assert code == CODES[error]
            assert "the log could not be written" in remark
            assert words in remark


async def test_a_pull_is_woken_by_what_was_stored_before_a_write_failed() -> None:
    """Of a buffer that spans two files the first part is stored: whoever waits for it hears of it now."""
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk, clock=ManualClock(), store=SMALL) as house:
        await house.make_topic()
        producer, consumer = await house.connect(), await house.connect()
        for number in range(2):
            await producer.ok(send_frame(queue_id=3, opaque=number))
        await consumer.write(pull_frame(opaque=50, hold_ms=60_000))
        await consumer.silence(0.02)
        disk.fail("pwrite", path=LOG, error=errno.EIO, after=2)  # after the records of one file and its end
        await producer.write(*[send_frame(opaque=number, body=bytes(200)) for number in range(20)])
        codes = [answer.code for _, answer in sorted((await producer.all(20)).items())]
        stored = codes.count(0)
        assert 0 < stored < 20
        assert codes == [0] * stored + [1] * (20 - stored)
        answer = await consumer.next()
        assert (answer.opaque, answer.code) == (50, 0)
        assert answer.ext is not None
        assert answer.ext["maxOffset"] == str(stored)


@pytest.mark.parametrize("path", ["*/consumequeue/*", "*/index/*"])
async def test_queues_or_index_that_cannot_be_written_stop_sends_until_they_can(path: str) -> None:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock) as house:
        peer = await house.connect()
        text = properties_text([("UNIQ_KEY", unique_id(1))])
        for operation in ("pwrite", "truncate", "allocate"):
            disk.fail(operation, path=path, error=errno.ENOSPC, times=None)
        await peer.ok(send_frame(properties=text))
        await clock.advance(2)
        code, remark = await peer.refused(send_frame(properties=text))
        assert code == 14
        assert "tried again every second" in remark
        disk.heal()
        await clock.advance(2)
        await peer.ok(send_frame(properties=text))
        assert len(await house.pull_all()) == 2


@pytest.mark.parametrize("times", [1, 3, None], ids=["once", "thrice", "until mended"])
async def test_refused_messages_do_not_come_back_with_a_restart(times: int | None) -> None:
    """A write that fails may have done half of its work: whole records that nobody acknowledged."""
    disk = FaultyDisk(directories=[ROOT])
    async with open_house(disk=disk, clock=ManualClock()) as house:
        peer = await house.connect()
        for _ in range(2):
            await peer.ok(send_frame(body=b"stored"))
        disk.fail("pwrite", path=LOG, error=errno.EIO, times=times)
        await peer.write(*[send_frame(opaque=number, body=b"refused") for number in range(20)])
        assert {answer.code for answer in (await peer.all(20)).values()} == {1}
        disk.heal()
    async with open_house(disk=disk, clock=ManualClock()) as house:
        assert [record.body for record in await house.pull_all()] == [b"stored", b"stored"]
