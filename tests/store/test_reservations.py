"""A number that anybody may have read is never given to another message, whatever the power cut takes."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from skyrocketmq.config import BrokerRole, FlushDiskType
from skyrocketmq.store import GetStatus, MessageStore, PutStatus
from skyrocketmq.store.inspection import inspect
from skyrocketmq.store.repair import RepairPlan, repair
from skyrocketmq.store.reservations import AHEAD_MAX, AHEAD_MIN, AHEAD_OF_COPY_MAX, read_reserved
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk, PowerLost
from tests.store.reader import read_records
from tests.store.support import ROOT, check, killed_store, memory_disk, new_message, open_store, put_ok, store_config

SIZES: dict[str, Any] = {"commit_log_file_bytes": 1 << 16, "queue_file_bytes": 20 * 100}
CONFIG = store_config(**SIZES)
Seen = dict[tuple[int, int], bytes]  # queue and number -> body


async def read_all(store: MessageStore, seen: Seen, queue_id: int) -> list[bytes]:
    """Read as a consumer does, from the beginning; what was seen under a number before must be there again, or gone."""
    bodies: list[bytes] = []
    offset = 0
    while True:
        found = await store.read_messages("T", queue_id, offset, 32)
        assert found is not None
        for part in found.parts:
            for record in read_records(bytes(part)):
                body = seen.setdefault((queue_id, record.queue_offset), record.body)
                assert body == record.body, f"number {record.queue_offset} was given to another message"
                bodies.append(record.body)
        if found.status in (GetStatus.NO_MESSAGE_IN_QUEUE, GetStatus.OFFSET_OVERFLOW_ONE):
            return bodies
        offset = found.next_offset


async def live(disk: FaultyDisk, seen: Seen, name: bytes, *, count: int = 6) -> None:
    try:
        async with open_store(disk, CONFIG, clock=ManualClock()) as store:
            for number in range(count):
                if store.put(new_message("T", number % 2, b"%b%d" % (name, number))).status is PutStatus.PUT_OK:
                    await read_all(store, seen, number % 2)
                if number == 2:
                    await store.flush()
                if number == 4:
                    await store.checkpoint()
            raise PowerLost
    except PowerLost:
        pass


@pytest.mark.parametrize("seed", [None, 1, 2])
async def test_no_number_is_given_twice_after_power_cuts_at_any_disk_call(seed: int | None) -> None:
    counted = memory_disk()
    await live(counted, {}, b"a")
    for crash_at in range(0 if seed is None else seed, len(counted.calls), 1 if seed is None else 3):
        seen: Seen = {}
        disk = memory_disk(crash_at=crash_at)
        for life in (b"a", b"b", b"c"):
            await live(disk, seen, life)
            disk = disk.after_power_loss(None if seed is None else seed * 1000 + crash_at)
            disk.crash_at = crash_at + 7
        disk.crash_at = None
        await live(disk, seen, b"d")


@pytest.mark.parametrize("flush", list(FlushDiskType), ids=lambda flush: flush.name)
async def test_a_consumer_that_lives_on_misses_nothing_that_is_stored_after_the_power_cut(flush: FlushDiskType) -> None:
    config = store_config(flush_disk_type=flush)
    disk = memory_disk()
    async with killed_store(disk, config) as store:
        for number in range(5):
            put_ok(store, new_message("T", 0, b"old%d" % number))
        offset = int(store.max_offset("T", 0))  # it has read all of it
    disk = disk.after_power_loss()
    async with open_store(disk, config) as store:
        for number in range(5):
            put_ok(store, new_message("T", 0, b"new%d" % number))
        bodies = []
        while (found := await store.read_messages("T", 0, offset, 32)) is not None and offset < found.max_offset:
            bodies += [record.body for part in found.parts for record in read_records(bytes(part))]
            offset = found.next_offset
        assert bodies == [b"new%d" % number for number in range(5)]
    check(disk, config)


async def test_after_a_kill_numbers_go_on_without_a_gap() -> None:
    disk = memory_disk()
    for life in range(3):
        async with killed_store(disk, CONFIG) as store:
            assert put_ok(store, new_message("T", 0, b"x")).queue_offset == life
            assert store.recovered.skipped_queues == 0
        disk = disk.after_kill()


@pytest.mark.parametrize("seed", range(4))
async def test_what_was_recovered_after_a_kill_keeps_its_numbers_though_it_was_never_synced(seed: int) -> None:
    seen: Seen = {}
    disk = memory_disk()
    async with killed_store(disk, CONFIG) as store:
        for number in range(5):
            put_ok(store, new_message("T", 0, b"a%d" % number))
        await read_all(store, seen, 0)
    disk = disk.for_next_process()
    async with killed_store(disk, CONFIG) as store:
        await read_all(store, seen, 0)
    disk = disk.after_power_loss(seed)
    async with open_store(disk, CONFIG) as store:
        put_ok(store, new_message("T", 0, b"b"))
        assert (await read_all(store, seen, 0))[-1] == b"b"
    check(disk, CONFIG)


async def test_a_start_after_a_kill_does_not_take_back_what_the_life_before_reserved() -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        for _ in range(AHEAD_MIN):
            put_ok(store, new_message("T", 0, b"x"))
            await clock.settle()
    reserved = read_reserved(disk.after_kill(), ROOT)["T", 0]
    disk = disk.for_next_process()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        await clock.settle()
        while (last := put_ok(store, new_message("T", 0, b"y")).queue_offset) < reserved - 1:
            pass
    disk = disk.after_power_loss()
    async with open_store(disk, CONFIG) as store:
        assert put_ok(store, new_message("T", 0, b"z")).queue_offset > last


async def test_a_kill_right_after_a_power_cut_does_not_forget_what_was_skipped() -> None:
    disk = memory_disk()
    async with killed_store(disk, CONFIG) as store:
        put_ok(store, new_message("T", 0, b"lost"))
    left = disk.after_power_loss()
    probe = left.after_kill()
    async with killed_store(probe, CONFIG):
        calls = len(probe.calls)
    for crash_at in range(calls + 1):
        first = left.after_power_loss()
        first.crash_at = crash_at
        try:
            async with open_store(first, CONFIG):
                raise PowerLost
        except PowerLost:
            pass
        async with open_store(first.after_kill(), CONFIG) as store:
            assert put_ok(store, new_message("T", 0, b"next")).queue_offset >= 1, crash_at


async def test_numbers_that_were_skipped_stay_skipped_when_the_queue_is_built_again() -> None:
    disk = memory_disk()
    async with killed_store(disk, CONFIG) as store:
        put_ok(store, new_message("T", 0, b"kept"))
        await store.checkpoint()
        put_ok(store, new_message("T", 0, b"lost"))
    disk = disk.after_power_loss()
    async with open_store(disk, CONFIG) as store:
        after = put_ok(store, new_message("T", 0, b"after")).queue_offset
        assert after >= 2
    for name in disk.list(ROOT / "consumequeue" / "T" / "0"):
        disk.unlink(ROOT / "consumequeue" / "T" / "0" / name)
    async with open_store(disk, CONFIG) as store:
        assert put_ok(store, new_message("T", 0, b"again")).queue_offset == after + 1
        assert await read_all(store, {}, 0) == [b"kept", b"after", b"again"]
    check(disk, CONFIG)
    report = inspect(disk, CONFIG)
    assert report.is_intact
    assert report.lost_records == 0
    assert any("numbers were skipped" in finding.what for finding in report.findings)


async def test_a_busy_queue_reserves_more_and_more_and_hardly_ever_makes_anybody_wait() -> None:
    disk = memory_disk()
    clock = ManualClock()
    config = store_config(commit_log_file_bytes=1 << 22, queue_file_bytes=20 * 100_000)
    async with open_store(disk, config, clock=clock) as store:
        for number in range(20_000):
            put_ok(store, new_message("T", 0, b"x"))
            if number % 16 == 0:
                await clock.settle()
        assert disk.count("fdatasync", "*/reserved.now") == 1, "for the first message"
        assert disk.count("fdatasync", "*/reserved*") < 20_000 // (AHEAD_MAX // 2) + 12
        assert read_reserved(disk, ROOT)["T", 0] >= 20_000


async def test_a_queue_at_rest_keeps_few_numbers() -> None:
    disk = memory_disk()
    clock = ManualClock()
    config = store_config(commit_log_file_bytes=1 << 22, queue_file_bytes=20 * 100_000)
    async with open_store(disk, config, clock=clock) as store:
        for number in range(5000):
            put_ok(store, new_message("T", 0, b"x"))
            if number % 16 == 0:
                await clock.settle()
        for _ in range(3):
            await store.checkpoint()
            await clock.settle()
        assert read_reserved(disk, ROOT) == {("T", 0): 5000 + AHEAD_MIN}
        for _ in range(200):
            put_ok(store, new_message("T", 0, b"x"))
        assert read_reserved(disk, ROOT)["T", 0] >= 5200
    assert not disk.exists(ROOT / "reserved")


async def test_a_message_whose_number_cannot_be_reserved_is_refused_and_the_next_is_taken() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        disk.fail("fdatasync", path="*/reserved.now", error=errno.ENOSPC)
        assert store.put(new_message("T", 0, b"no")).status is not PutStatus.PUT_OK
        assert put_ok(store, new_message("T", 0, b"yes")).queue_offset == 0
        assert read_reserved(disk, ROOT)["T", 0] >= 1
    check(disk, CONFIG)


async def test_many_new_queues_in_one_batch_share_one_sync() -> None:
    disk = memory_disk()
    async with open_store(disk, CONFIG) as store:
        batch = store.begin()
        for queue_id in range(50):
            batch.add(new_message("T", queue_id, b"x"))
        assert batch.commit().refusal is None
        assert disk.count("fdatasync", "*/reserved*") == 1


async def test_where_gaps_are_not_wanted_a_power_cut_leaves_none() -> None:
    """For clusters with Apache's slaves, which do not keep them."""
    config = store_config(skip_lost_offsets=False)
    disk = memory_disk()
    try:
        async with open_store(disk, config=config) as store:
            for _ in range(3):
                put_ok(store, new_message(topic="T"))
            await store.flush()
            put_ok(store, new_message(topic="T"))
            disk.cut_power()
    except PowerLost:
        pass
    async with open_store(disk.after_power_loss(), config=config) as store:
        assert store.max_offset("T", 0) == 3
        assert put_ok(store, new_message(topic="T")).queue_offset == 3


async def copied(count: int) -> FaultyDisk:
    """The disk of a slave that has so many messages."""
    disk = memory_disk()
    async with open_store(disk) as store:
        for number in range(count):
            put_ok(store, new_message("T", 0, b"%d" % number))
    async with open_store(disk, store_config(broker_role=BrokerRole.SLAVE)) as store:
        assert store.max_offset("T", 0) == count
    return disk


@pytest.mark.parametrize(("count", "skipped"), [(3, AHEAD_MIN), (200, 200), (1500, AHEAD_OF_COPY_MAX)])
async def test_a_slave_that_is_made_the_master_skips_numbers_once(count: int, skipped: int) -> None:
    disk = await copied(count)
    async with open_store(disk) as store:
        assert put_ok(store, new_message("T", 0)).queue_offset == count + skipped
        assert put_ok(store, new_message("T", 1)).queue_offset == 0  # a queue that the copy does not have
    async with open_store(disk) as store:
        assert store.max_offset("T", 0) == count + skipped + 1


async def test_a_slave_skips_nothing_while_it_is_one_and_where_gaps_are_not_wanted() -> None:
    disk = await copied(3)
    async with open_store(disk, store_config(broker_role=BrokerRole.SLAVE)) as store:
        assert store.max_offset("T", 0) == 3
    for _ in range(2):
        async with open_store(disk, store_config(skip_lost_offsets=False)) as store:
            assert store.max_offset("T", 0) == 3


async def test_the_repair_of_a_slaves_store_does_not_make_it_a_masters() -> None:
    disk = await copied(3)
    await repair(RepairPlan(opens=True), store_config(), disk=disk, clock=ManualClock())
    async with open_store(disk, store_config(broker_role=BrokerRole.SLAVE)) as store:
        assert store.max_offset("T", 0) == 3
    async with open_store(disk) as store:
        assert store.max_offset("T", 0) == 3 + AHEAD_MIN


@pytest.mark.parametrize("ending", ["kill", "power cut"])
async def test_numbers_that_a_new_master_skipped_stay_skipped_wherever_it_is_cut_off(ending: str) -> None:
    counted = await copied(3)
    before = len(counted.calls)
    async with open_store(counted) as store:
        assert store.max_offset("T", 0) == 3 + AHEAD_MIN
    for crash_at in range(before, len(counted.calls)):
        disk = await copied(3)
        disk.crash_at = crash_at
        read = 3
        try:
            async with open_store(disk) as store:
                read = put_ok(store, new_message("T", 0)).queue_offset
        except PowerLost:
            pass
        assert read == 3 or read >= 3 + AHEAD_MIN
        disk = disk.after_kill() if ending == "kill" else disk.after_power_loss()
        async with open_store(disk) as store:
            assert put_ok(store, new_message("T", 0)).queue_offset >= max(read + (ending == "kill"), 3 + AHEAD_MIN)


# ------------------------------------------------------------------------------- files that a later life has to find


async def cut_off_master(readable: int) -> FaultyDisk:
    """A disk that lost its power while so many messages could be read, of which ten were durable."""
    disk, clock = memory_disk(), ManualClock()
    async with killed_store(disk, CONFIG, clock=clock) as store:
        for number in range(10):
            put_ok(store, new_message("T", 0, b"durable%d" % number))
        await store.checkpoint()
        while store.max_offset("T", 0) < readable:
            put_ok(store, new_message("T", 0, b"lost"))
            if store.max_offset("T", 0) % 20 == 0:
                await clock.settle()
    return disk.after_power_loss()


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
async def test_a_life_as_a_slave_after_the_power_cut_does_not_forget_what_the_master_reserved(is_killed: bool) -> None:
    disk = await cut_off_master(500)
    reserved = read_reserved(disk, ROOT)
    slave, clock = store_config(**SIZES, broker_role=BrokerRole.SLAVE), ManualClock()
    opened = killed_store if is_killed else open_store
    async with opened(disk, slave, clock=clock) as store:
        assert store.max_offset("T", 0) == 10
        await store.checkpoint()
        await clock.settle()
    disk = disk.for_next_process()
    assert read_reserved(disk, ROOT) == reserved
    async with open_store(disk, CONFIG) as store:
        assert put_ok(store, new_message("T", 0, b"new")).queue_offset >= 500
    check(disk, CONFIG)


async def test_a_slave_that_has_skipped_numbers_at_its_end_adds_them_to_what_was_reserved() -> None:
    disk = await cut_off_master(500)
    async with killed_store(disk, CONFIG):  # skips, and is cut off before a message comes
        pass
    disk = disk.for_next_process()
    slave = store_config(**SIZES, broker_role=BrokerRole.SLAVE)
    async with open_store(disk, slave) as store:
        assert store.max_offset("T", 0) >= 500
    for role in (slave, CONFIG):
        async with open_store(disk, role) as store:
            pass
    async with open_store(disk, CONFIG) as store:
        assert put_ok(store, new_message("T", 0, b"new")).queue_offset >= 500
    check(disk, CONFIG)


@pytest.mark.parametrize("name", ["lock", "owner.json"])
@pytest.mark.parametrize("content", [None, b"", b"{garbage"], ids=["gone", "empty", "garbage"])
async def test_reserved_numbers_are_skipped_whatever_became_of_the_owners_note(
    name: str, content: bytes | None
) -> None:
    disk = await cut_off_master(60)
    disk.unlink(ROOT / name)
    if content is not None:
        disk.replace(ROOT / name, content)
    async with open_store(disk, CONFIG) as store:
        assert put_ok(store, new_message("T", 0, b"new")).queue_offset >= 60
    check(disk, CONFIG)


async def test_after_another_programs_life_nothing_is_skipped() -> None:
    """It has reserved nothing, and older versions do not stand a queue that ends with skipped numbers."""
    disk = memory_disk()
    async with killed_store(disk, CONFIG) as store:
        put_ok(store, new_message("T", 0, b"x"))
    disk = disk.for_next_process()
    file = disk.open(ROOT / "lock")
    file.pwrite(b"lock", 0)
    file.close()
    async with open_store(disk, CONFIG) as store:
        assert put_ok(store, new_message("T", 0, b"y")).queue_offset == 1
