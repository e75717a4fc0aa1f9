"""Delayed messages as producers, consumers, slaves and administrators see them, through real sockets."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.testing import FaultyDisk, ManualClock
from skyrocketmq.wire.batches import encode_batch
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.json_dialect import parse
from tests.broker.house import ROOT, House, open_house
from tests.broker.requests import TOPIC, as_version_1, properties_text, pull_frame, send_frame, unique_id
from tests.broker.support import until
from tests.own_time import waited_s

FILE = ROOT / "config" / "delayOffset.json"


def delayed_frame(level: object, **fields: Any) -> Frame:
    return send_frame(properties=properties_text({"TAGS": "TagA", "DELAY": str(level)}), **fields)


@asynccontextmanager
async def open_quiet_house(**changes: Any) -> AsyncIterator[tuple[House, ManualClock, FaultyDisk]]:
    clock = ManualClock()
    disk = FaultyDisk(directories=[ROOT], clock=clock)
    async with open_house(disk=disk, clock=clock, **changes) as house:
        await house.make_topic()
        yield house, clock, disk


@pytest.mark.parametrize("is_version_1", [False, True])
@pytest.mark.parametrize("is_binary", [False, True])
async def test_a_producer_is_told_of_the_queue_it_asked_for_and_the_place_where_the_message_waits(
    is_version_1: bool, is_binary: bool
) -> None:
    async with open_quiet_house() as (house, clock, _):
        peer = await house.connect()
        await peer.ok(send_frame())
        end = int(house.broker.store.log.max_offset)
        frame = delayed_frame(2, queue_id=3, is_binary=is_binary)
        answer = await peer.ok(as_version_1(frame) if is_version_1 else frame)
        assert answer.ext is not None
        assert (answer.ext["queueId"], answer.ext["queueOffset"]) == ("3", "0")
        assert str(answer.ext["msgId"]).endswith(f"{end:016X}")
        assert await house.pull_all(TOPIC, 3) == []
        await clock.advance(5)
        (record,) = await house.pull_all(TOPIC, 3)
        assert record.log_offset > end


async def test_a_one_way_message_is_delayed_too() -> None:
    async with open_quiet_house() as (house, clock, _):
        peer = await house.connect()
        await peer.write(delayed_frame(1, is_oneway=True))
        await until(lambda: house.broker.store.max_offset(SCHEDULE_TOPIC, 0))
        await clock.advance(1)
        assert len(await house.pull_all()) == 1


@pytest.mark.parametrize("level", ["0", "-1", "soon", "", "9999999999"])
async def test_a_level_that_is_none_delays_nothing(level: str) -> None:
    async with open_quiet_house() as (house, _, _):
        peer = await house.connect()
        await peer.ok(delayed_frame(level))
        assert len(await house.pull_all()) == 1


async def test_a_waiting_consumer_is_answered_the_moment_a_message_is_due() -> None:
    async with open_quiet_house() as (house, clock, _):
        peer, consumer = await house.connect(), await house.connect()
        await peer.ok(delayed_frame(1))
        await consumer.write(pull_frame(hold_ms=20_000))
        await clock.advance(0.999)
        await consumer.silence()
        await clock.advance(0.001)
        assert (await consumer.next()).code == 0


async def test_a_waiting_consumer_of_another_tag_is_not() -> None:
    async with open_quiet_house() as (house, clock, _):
        peer, consumer = await house.connect(), await house.connect()
        await peer.ok(delayed_frame(1))
        await consumer.write(pull_frame(hold_ms=20_000, subscription="TagB"))
        await clock.advance(2)
        await consumer.silence()


async def test_clients_cannot_send_to_the_schedule_topic_itself() -> None:
    async with open_quiet_house() as (house, _, _):
        peer = await house.connect()
        code, remark = await peer.refused(send_frame(SCHEDULE_TOPIC))
        assert code == 16
        assert SCHEDULE_TOPIC in remark


async def test_a_batch_cannot_be_delayed() -> None:
    async with open_quiet_house() as (house, _, _):
        peer = await house.connect()
        code, _ = await peer.refused(delayed_frame(1, body=encode_batch([(0, b"a", b""), (0, b"b", b"")]), m="true"))
        assert code == 13
        assert house.broker.store.max_offset(SCHEDULE_TOPIC, 0) == 0


async def test_the_offsets_are_written_every_ten_seconds_and_shown_to_slaves() -> None:
    async with open_quiet_house() as (house, clock, disk):
        peer = await house.connect()
        for _ in range(3):
            await peer.ok(delayed_frame(1))
        await clock.advance(9)
        assert not disk.exists(FILE)
        assert parse((await peer.ok(Frame(RequestCode.GET_ALL_DELAY_OFFSET, 1))).body) == {"offsetTable": {}}
        await clock.advance(1)
        assert disk.read(FILE) == b'{\n\t"offsetTable":{1:3\n\t}\n}'
        answer = await peer.ok(Frame(RequestCode.GET_ALL_DELAY_OFFSET, 1))
        assert answer.body == b'{"offsetTable":{1:3}}'


async def test_the_interval_of_writing_is_a_setting() -> None:
    async with open_quiet_house(store={"delay_offset_flush_interval_ms": 1000}) as (house, clock, disk):
        peer = await house.connect()
        await clock.advance(10)
        await peer.ok(delayed_frame(1))
        await clock.advance(2)
        assert disk.read(FILE) == b'{\n\t"offsetTable":{1:1\n\t}\n}'


async def test_the_runtime_information_says_how_far_the_levels_are() -> None:
    async with open_quiet_house() as (house, clock, _):
        peer = await house.connect()
        await peer.ok(delayed_frame(1))
        await clock.advance(1)
        await peer.ok(delayed_frame(1))
        table = parse((await peer.ok(Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 1))).body)["table"]  # type: ignore[index]
        assert table["scheduleMessageOffset_1"] == "1,2"
        assert "scheduleMessageOffset_2" not in table


@pytest.mark.slow
@pytest.mark.alone
async def test_ten_thousand_messages_are_late_by_less_than_100_ms_at_the_median(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a real disk, a real clock and real sockets; the producer goes on sending while the first ones fall due."""
    count, in_flight = 10_000, 64
    disk = LocalDisk()
    store: dict[str, Any] = {"root_path": tmp_path, "commit_log_file_bytes": 64 << 20, "index_entry_count": 100_000}
    async with open_house(disk=disk, clock=SystemClock(), store=store, check=False) as house:
        await house.make_topic()
        peer = await house.connect()
        started, waited_before = time.perf_counter(), waited_s(os.getpid())
        for first in range(0, count, in_flight):
            numbers = range(first, min(first + in_flight, count))
            await peer.write(*[_numbered(number) for number in numbers])
            answers = await peer.all(len(numbers))
            assert all(answer.code == 0 for answer in answers.values())
        sending_s = time.perf_counter() - started

        def delivered() -> int:
            return sum(house.broker.store.max_offset(TOPIC, queue_id) for queue_id in range(4))

        await until(lambda: delivered() == count, seconds=60)
        others_ms = (waited_s(os.getpid()) - waited_before) * 1000  # in which others had the processor
        waited = {record.properties["UNIQ_KEY"]: record.store_ms for record in await house.pull_all(SCHEDULE_TOPIC, 0)}
        received = [record for queue_id in range(4) for record in await house.pull_all(TOPIC, queue_id)]
    lateness = sorted(record.store_ms - waited[record.properties["UNIQ_KEY"]] - 1000 for record in received)
    await asyncio.to_thread(disk.close)
    median, p99 = lateness[count // 2], lateness[count * 99 // 100]
    with capsys.disabled():
        print(
            f"\n{count} messages sent in {sending_s:.1f} s, late by {median} ms at the median, "
            f"{p99} ms at 99 %, {lateness[-1]} ms at most"
        )
    assert len(lateness) == count
    assert lateness[0] >= 0, "never early"
    assert median <= 100 + others_ms


def _numbered(number: int) -> Frame:
    properties = properties_text({"UNIQ_KEY": unique_id(number), "DELAY": "1"})
    return send_frame(queue_id=number % 4, body=bytes(128), properties=properties, opaque=number, is_binary=True)
