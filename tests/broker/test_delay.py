"""Delayed messages come when their time has come: not earlier, hardly later, in order, with everything they had."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from skyrocketmq.config import BrokerRole, StoreConfig
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.ports import Disk, LocalDisk
from skyrocketmq.store.consume_queue import CELL
from skyrocketmq.testing import ManualClock
from tests.broker.delays import TOPIC, Delays, delay_config, open_delays
from tests.store.support import BORN_HOST, BORN_MS, HOST_V6, ROOT, STORE_HOST, check, memory_disk

SECONDS = (1, 5, 10, 30, *(60 * minutes for minutes in range(1, 11)), 1200, 1800, 3600, 7200)


class JumpingClock(ManualClock):
    """A clock that somebody sets."""

    def set_forward(self, seconds: int) -> None:
        self._start_ms += seconds * 1000


@pytest.fixture
def disk() -> Iterator[Disk]:
    local = LocalDisk()
    yield local
    local.close()


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
async def delays(tmp_path: Path, disk: Disk, clock: JumpingClock) -> AsyncIterator[Delays]:
    config = delay_config(tmp_path)
    async with open_delays(disk, config, clock) as opened:
        yield opened
    check(disk, config)


# ----------------------------------------------------------------------------------------------------------------- time


async def test_a_message_comes_when_its_time_has_come_and_not_before(delays: Delays, clock: ManualClock) -> None:
    delays.send(1)
    await clock.advance(0.999)
    assert await delays.bodies() == []
    await clock.advance(0.001)
    assert await delays.bodies() == [b"hello"]


async def test_each_of_the_18_levels_has_its_delay(tmp_path: Path, disk: Disk, clock: ManualClock) -> None:
    async with open_delays(disk, delay_config(tmp_path), clock) as delays:
        for level in range(1, 19):
            delays.send(level, b"%d" % level)
        sent_ms = clock.now_ms()
        await clock.advance(SECONDS[-1])
        records = await delays.received()
    assert [record.body for record in records] == [b"%d" % level for level in range(1, 19)]
    assert tuple((record.store_ms - sent_ms) / 1000 for record in records) == SECONDS


async def test_a_level_beyond_the_last_is_the_last(tmp_path: Path, disk: Disk, clock: ManualClock) -> None:
    async with open_delays(disk, delay_config(tmp_path), clock) as delays:
        delays.send(99)
        assert delays.store.max_offset(SCHEDULE_TOPIC, 17) == 1
        await clock.advance(SECONDS[-1] - 1)
        assert await delays.bodies() == []
        await clock.advance(1)
        assert (await delays.received())[0].properties["DELAY"] == "18"


async def test_levels_are_what_the_configuration_says(tmp_path: Path, disk: Disk, clock: ManualClock) -> None:
    async with open_delays(disk, delay_config(tmp_path, delay_levels="2s 1m 4m"), clock) as delays:
        for level in (1, 2, 3, 4):
            delays.send(level, b"%d" % level)
        for seconds, expected in ((2, [b"1"]), (58, [b"1", b"2"]), (180, [b"1", b"2", b"3", b"4"])):
            await clock.advance(seconds)
            assert await delays.bodies() == expected


async def test_without_levels_nothing_is_delayed(tmp_path: Path, disk: Disk, clock: ManualClock) -> None:
    async with open_delays(disk, delay_config(tmp_path, delay_levels=""), clock) as delays:
        delays.send(1)
        assert await delays.bodies() == [b"hello"]


async def test_a_level_delivers_in_the_order_of_sending_however_many_there_are(
    delays: Delays, clock: ManualClock
) -> None:
    bodies = [b"%d" % number for number in range(500)]
    for body in bodies:
        delays.send(1, body)
    await clock.advance(1)
    assert await delays.bodies() == bodies


async def test_levels_do_not_wait_for_each_other(delays: Delays, clock: ManualClock) -> None:
    delays.send(2, b"long")
    delays.send(1, b"short")
    await clock.advance(1)
    assert await delays.bodies() == [b"short"]
    await clock.advance(4)
    assert await delays.bodies() == [b"short", b"long"]


async def test_messages_that_come_while_others_wait_have_their_own_time(delays: Delays, clock: ManualClock) -> None:
    for number in range(5):
        delays.send(1, b"%d" % number)
        await clock.advance(0.3)
    assert await delays.bodies() == [b"0", b"1"]
    await clock.advance(0.1)
    assert await delays.bodies() == [b"0", b"1", b"2"]
    await clock.advance(0.6)
    assert await delays.bodies() == [b"0", b"1", b"2", b"3", b"4"]


async def test_nothing_is_polled(clock: ManualClock) -> None:
    async with open_delays(memory_disk(), delay_config(ROOT), clock) as delays:
        await clock.settle()
        idle = clock.timer_count
        delays.send(4)
        await clock.settle()
        assert clock.timer_count == idle + 1, "the one level that has something sleeps until it is due"
        await clock.advance(30)
        assert await delays.bodies() == [b"hello"]
        assert clock.timer_count == idle


async def test_a_steady_stream_is_delivered_in_batches_and_at_most_10_ms_late(clock: ManualClock) -> None:
    disk = memory_disk()
    async with open_delays(disk, delay_config(ROOT), clock) as delays:
        for _ in range(300):
            delays.send(1)
            await clock.advance(0.001)
        writes_before = disk.count("pwrite", "*/commitlog/*")
        await clock.advance(1)
        assert disk.count("pwrite", "*/commitlog/*") - writes_before <= 40
        waited, delivered = await delays.received(SCHEDULE_TOPIC, 0), await delays.received()
    lateness = [late.store_ms - (first.store_ms + 1000) for late, first in zip(delivered, waited, strict=True)]
    assert len(lateness) == 300
    assert 0 <= min(lateness) <= max(lateness) <= 10


async def test_a_clock_that_was_set_forward_is_noticed_within_five_seconds(delays: Delays, clock: JumpingClock) -> None:
    delays.send(4)
    await clock.advance(1)
    clock.set_forward(3600)
    await clock.advance(5)
    assert await delays.bodies() == [b"hello"]


async def test_a_clock_that_was_set_back_makes_nobody_early_or_wait_more_than_twice(
    tmp_path: Path, disk: Disk, clock: ManualClock
) -> None:
    config = delay_config(tmp_path)
    async with open_delays(disk, config, clock) as delays:
        for _ in range(3):
            delays.send(3)
    earlier = ManualClock(clock.now_ms() - 3_600_000)
    async with open_delays(disk, config, earlier) as delays:
        await earlier.advance(9.5)
        assert await delays.bodies() == []
        await earlier.advance(1)
        assert await delays.bodies() == [b"hello"] * 3, "each waits from when it was noticed, not one after the other"


@pytest.mark.parametrize("set_back_s", [2, 40, 100_000])
async def test_a_clock_that_is_set_back_while_messages_wait(
    delays: Delays, clock: JumpingClock, set_back_s: int
) -> None:
    delays.send(4)  # 30 s
    await clock.advance(20)
    clock.set_forward(-set_back_s)
    await clock.advance(9.9)
    assert await delays.bodies() == []
    await clock.advance(min(30.0, set_back_s) + 5.2)  # noticed within five seconds
    assert await delays.bodies() == [b"hello"]
    delays.send(4)  # those that come later are on time
    await clock.advance(29.9)
    assert await delays.bodies() == [b"hello"]
    await clock.advance(0.1)
    assert await delays.bodies() == [b"hello"] * 2


def test_the_page_about_delays_shows_the_usual_levels() -> None:
    page = (Path(__file__).parents[2] / "docs" / "delayed-messages.md").read_text()
    delays = next(line for line in page.splitlines() if line.startswith("| delay |"))
    assert delays.strip("| ").split(" | ")[1:] == StoreConfig().delay_levels.split()


# ------------------------------------------------------------------------------------------------------------- the copy


async def test_the_copy_has_everything_of_the_original_but_its_place_and_its_time(
    delays: Delays, clock: ManualClock
) -> None:
    delays.send(
        2,
        b"body",
        topic="Orders",
        queue_id=3,
        flag=7,
        sys_flag=0x1 | 0x8 | 0x300,
        reconsume_times=2,
        prepared_offset=99,
        properties={b"TAGS": b"TagA", b"KEYS": b"k1 k2", b"UNIQ_KEY": b"0A00", b"WAIT": b"true", b"mine": b"x"},
    )
    await clock.advance(5)
    (original,) = await delays.received(SCHEDULE_TOPIC, 1)
    (copy,) = await delays.received("Orders", 3)
    assert (copy.body, copy.flag, copy.sys_flag, copy.reconsume_times) == (b"body", 7, 0x309, 2)
    assert (copy.born_ms, copy.born_host, copy.store_host) == (BORN_MS, BORN_HOST, STORE_HOST)
    assert copy.properties == original.properties
    assert copy.properties == {
        "DELAY": "2",
        "TAGS": "TagA",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "0A00",
        "WAIT": "true",
        "mine": "x",
        "REAL_TOPIC": "Orders",
        "REAL_QID": "3",
    }
    assert list(copy.properties) == list(original.properties), "the text is the same, to the byte"
    assert (copy.queue_offset, copy.store_ms) == (0, original.store_ms + 5000)
    assert copy.log_offset > original.log_offset
    assert copy.prepared_offset == 0


async def test_the_copy_is_found_by_its_tag_and_by_its_keys(delays: Delays, clock: ManualClock) -> None:
    delays.send(1, properties={b"TAGS": b"TagA", b"KEYS": b"order-1"})
    await clock.advance(1)
    cell = delays.store.queue(TOPIC, 0).read_cell(0)
    assert cell is not None
    assert cell[2] == 2598919, "Java's hash of TagA"
    found = await delays.store.query(TOPIC, "order-1", 10, 0, clock.now_ms())
    assert len(found.records) == 1


async def test_unique_ids_of_any_length_arrive_whole(delays: Delays, clock: ManualClock) -> None:
    ids = [b"0A0B", b"0A0B0C", b"0A0D", b"x" * 200]
    for each in ids:
        delays.send(1, properties={b"UNIQ_KEY": each})
    delays.send(1)
    await clock.advance(1)
    received = [record.properties.get("UNIQ_KEY", "") for record in await delays.received()]
    assert received == [each.decode() for each in ids] + [""]


async def test_hosts_of_any_kind_are_kept(tmp_path: Path, disk: Disk, clock: ManualClock) -> None:
    config = delay_config(tmp_path)
    async with open_delays(disk, config, clock, store_host=HOST_V6) as delays:
        delays.send(1, b"before", born_host=HOST_V6)
    async with open_delays(disk, config, clock) as delays:  # the broker has moved
        delays.send(1, b"after", born_host=HOST_V6)
        await clock.advance(1)
        before, after = await delays.received()
    assert (before.body, before.born_host, before.store_host) == (b"before", HOST_V6, HOST_V6)
    assert (after.body, after.born_host, after.store_host) == (b"after", HOST_V6, STORE_HOST)
    check(disk, config)


async def test_each_of_those_delivered_together_keeps_its_host_and_its_count(
    tmp_path: Path, disk: Disk, clock: ManualClock
) -> None:
    config = delay_config(tmp_path)
    hosts = [STORE_HOST, bytes([10, 0, 0, 1, 0, 0, 42, 159]), HOST_V6]
    for number, host in enumerate(hosts):
        async with open_delays(disk, config, clock, store_host=host) as delays:
            for count in (0, 3):
                delays.send(2, b"%d %d" % (number, count), reconsume_times=count)
    async with open_delays(disk, config, clock) as delays:
        delays.send(2, b"last")
        await clock.advance(seconds=6)
        await delays.settle()
        delays.send(0, b"sent")
        *copies, last, sent = await delays.received()
    assert [(copy.body, copy.store_host, copy.reconsume_times) for copy in copies] == [
        (b"%d %d" % (number, count), host, count) for number, host in enumerate(hosts) for count in (0, 3)
    ]
    assert [(each.body, each.store_host, each.reconsume_times) for each in (last, sent)] == [
        (b"last", STORE_HOST, 0),
        (b"sent", STORE_HOST, 0),
    ]


async def test_a_delivered_message_is_not_delayed_again(delays: Delays, clock: ManualClock) -> None:
    delays.send(1)
    await clock.advance(60)
    assert await delays.bodies() == [b"hello"]
    assert delays.store.max_offset(SCHEDULE_TOPIC, 0) == 1


# ------------------------------------------------------------------------------------------------- what is stepped over


@pytest.mark.parametrize(
    "properties",
    [
        "DELAY\x011\x02REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010",
        "DELAY\x011\x02REAL_TOPIC\x01TopicTest",
        "DELAY\x011\x02REAL_QID\x010",
        "DELAY\x011\x02REAL_TOPIC\x01TopicTest\x02REAL_QID\x01-1",
        "DELAY\x011\x02REAL_TOPIC\x01TopicTest\x02REAL_QID\x01none",
        "DELAY\x011\x02REAL_TOPIC\x01TopicTest\x02REAL_QID\x012147483648",
        "DELAY\x011\x02REAL_TOPIC\x01../../etc\x02REAL_QID\x010",
    ],
)
async def test_a_message_that_belongs_nowhere_is_stepped_over(
    delays: Delays, clock: ManualClock, caplog: pytest.LogCaptureFixture, properties: str
) -> None:
    delays.send(1, b"before")
    delays.send_raw(properties)
    delays.send(1, b"after")
    with caplog.at_level(logging.ERROR):
        await clock.advance(1)
    assert await delays.bodies() == [b"before", b"after"]
    assert [record.message for record in caplog.records] == ["delayed message cannot be delivered, stepped over"]
    assert delays.delivery.figures() == {"scheduleMessageOffset_1": "3,3"}
    assert "RMQ_SYS_TRANS_HALF_TOPIC" not in delays.store.queues.topics()


async def test_a_body_that_has_rotted_is_stepped_over_and_not_passed_on_as_good(
    tmp_path: Path, disk: Disk, clock: ManualClock
) -> None:
    async with open_delays(disk, delay_config(tmp_path), clock) as delays:
        rotten = delays.send(1, b"a body that will rot")
        delays.send(1, b"sound")
        log = disk.open(tmp_path / "commitlog" / f"{0:020}")
        log.pwrite(b"X", int(rotten.log_offset) + 90)
        log.close()
        await clock.advance(1)
        assert await delays.bodies() == [b"sound"]


async def test_messages_that_the_log_has_lost_are_stepped_over(
    tmp_path: Path, disk: Disk, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_delays(disk, delay_config(tmp_path), clock) as delays:
        delays.send(1, b"before")
        queue = delays.store.queue(SCHEDULE_TOPIC, 0)
        for _ in range(3):
            queue.put(queue.max_offset, CELL.pack(10**9, 200, clock.now_ms()))
        delays.send(1, b"after")
        await clock.advance(1)
        assert await delays.bodies() == [b"before", b"after"]
        assert delays.delivery.figures() == {"scheduleMessageOffset_1": "5,5"}
    assert [getattr(record, "count", None) for record in caplog.records if record.levelno == logging.ERROR] == [3]


async def test_messages_of_deleted_log_files_are_stepped_over(
    tmp_path: Path, disk: Disk, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    config = delay_config(tmp_path, commit_log_file_bytes=4096)
    bodies = [b"%03d" % number * 100 for number in range(60)]
    async with open_delays(disk, config, clock) as delays:
        for body in bodies:
            delays.send(1, body)
        kept = sum(1 for cell in delays.store.queue(SCHEDULE_TOPIC, 0).cells() if cell[1] >= 4096)
    (tmp_path / "commitlog" / f"{0:020}").unlink()
    async with open_delays(disk, config, clock) as delays:
        await clock.advance(1)
        assert await delays.bodies() == bodies[-kept:]
    assert not [record for record in caplog.records if record.name.startswith("skyrocketmq.broker")]
    assert 0 < kept < 60


async def test_an_address_of_an_extension_file_is_no_time(tmp_path: Path, disk: Disk, clock: ManualClock) -> None:
    async with open_delays(disk, delay_config(tmp_path), clock) as delays:
        first = delays.send(2)
        queue = delays.store.queue(SCHEDULE_TOPIC, 1)
        cell = queue.read_cell(0)
        assert cell is not None
        assert cell[0] == first.log_offset
        queue.tail[-8:] = (-(2**63) + 40).to_bytes(8, "big", signed=True)  # as Apache's broker writes it
        await clock.advance(4.999)
        assert await delays.bodies() == []
        await clock.advance(0.001)
        assert await delays.bodies() == [b"hello"]


# --------------------------------------------------------------------------------------------------------------- others


async def test_a_slave_delivers_nothing_and_leaves_its_masters_file_alone(
    tmp_path: Path, disk: Disk, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_delays(disk, delay_config(tmp_path), clock) as delays:
        delays.send(1)
    async with open_delays(disk, delay_config(tmp_path, broker_role=BrokerRole.SLAVE), clock) as delays:
        await clock.advance(10)
        await delays.delivery.save_offsets()
        assert await delays.bodies() == []
        assert delays.file() is None
        assert not caplog.records, "it does not even try"
    async with open_delays(disk, delay_config(tmp_path), clock) as delays:
        await clock.settle()
        assert await delays.bodies() == [b"hello"]


async def test_the_figures_say_how_far_each_level_is(delays: Delays, clock: ManualClock) -> None:
    assert delays.delivery.figures() == {}
    for _ in range(3):
        delays.send(1)
    delays.send(2)
    await clock.advance(1)
    delays.send(1)
    await clock.advance(0.5)
    assert delays.delivery.figures() == {"scheduleMessageOffset_1": "3,4"}
    await clock.advance(4)
    assert delays.delivery.figures() == {"scheduleMessageOffset_1": "4,4", "scheduleMessageOffset_2": "1,1"}


async def test_a_limit_that_was_lowered_keeps_no_accepted_message_back(delays: Delays, clock: ManualClock) -> None:
    delays.send(1, b"x" * 5000)
    lowered = delay_config(delays.store.config.root_path, message_bytes_max=1000)
    delays.store.apply_config(lowered)
    await clock.advance(1)
    assert await delays.bodies() == [b"x" * 5000]
    refused = delays.send_raw("", body=b"x" * 5000)
    assert refused.status.name == "MESSAGE_ILLEGAL", "for new messages the limit is as it was set"


async def test_a_copy_that_no_log_file_can_hold_is_stepped_over(
    tmp_path: Path, disk: Disk, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_delays(disk, delay_config(tmp_path, commit_log_file_bytes=4096), clock) as delays:
        # It fits as long as its topic is the short one of the schedule.
        delays.send(1, b"x" * 3800, topic="T" * 120)
        delays.send(1, b"after")
        await clock.advance(1)
        assert await delays.bodies() == [b"after"]
    assert ["stepped over" in record.message for record in caplog.records] == [True]
