"""A store comes back: after a clean stop, after a crash, with parts missing or broken, and from Apache's hands."""

from __future__ import annotations

import asyncio
import errno
import struct
from pathlib import Path

import pytest

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import StoreError, StoreLocked
from skyrocketmq.ports import LocalDisk
from skyrocketmq.store import MessageStore
from skyrocketmq.store.recovery import RecoveryWishes, start_by_time
from skyrocketmq.testing.clock import ManualClock
from skyrocketmq.testing.disk import FaultyDisk
from tests.store.reader import Content, read_checkpoint, read_log, read_records
from tests.store.support import (
    ROOT,
    check,
    killed_store,
    memory_disk,
    new_message,
    open_store,
    put_ok,
    sizes_of,
    store_config,
    unique_id,
)

EVER = (0, 1 << 62)


def fill(store: MessageStore, count: int, *, first: int = 0, body_bytes: int = 40) -> None:
    """Messages of two topics with three queues each, with keys and ids, one after the other."""
    for number in range(first, first + count):
        put_ok(
            store,
            new_message(
                f"T{number % 2}",
                number % 3,
                b"%05d" % number + b"." * body_bytes,
                keys=f"k{number}",
                unique=unique_id(number),
                tags="TagA",
            ),
        )


async def crashed(
    config: StoreConfig | None = None, *, count: int = 50, checkpoint_after: int | None = None
) -> FaultyDisk:
    """The disk of a store whose process was killed: what was written is there, synced or not."""
    disk = memory_disk()
    clock = ManualClock()
    async with killed_store(disk, config, clock=clock) as store:
        fill(store, count if checkpoint_after is None else checkpoint_after)
        if checkpoint_after is not None:
            await store.checkpoint()
            await clock.advance(0.7)
            fill(store, count - checkpoint_after, first=checkpoint_after)
    return disk.after_power_loss(keep=True)


async def reopened(disk: FaultyDisk, config: StoreConfig | None = None) -> Content:
    """Open, check that the store is whole and takes messages, close, and read it independently."""
    async with open_store(disk, config) as store:
        offset = store.max_offset("T0", 0)
        assert put_ok(store, new_message("T0", 0, b"after")).queue_offset == offset
    return check(disk, config)


def numbers(content: Content) -> list[int]:
    return [int(record.body[:5]) for record in content.records if record.body != b"after"]


def overwrite(disk: FaultyDisk, path: Path, position: int, data: bytes) -> None:
    file = disk.open(path)
    file.pwrite(data, position)
    file.fdatasync()
    file.close()


def log_path(start: int) -> Path:
    return ROOT / "commitlog" / f"{start:020d}"


# ------------------------------------------------------------------------------------------------------- ordinary life


async def test_a_store_goes_on_where_it_was_closed() -> None:
    disk = memory_disk()
    for life in range(4):
        async with open_store(disk) as store:
            assert store.recovered.dispatched == 0
            assert store.recovered.scanned_from == store.log.max_offset
            fill(store, 20, first=life * 20)
        assert numbers(check(disk)) == list(range((life + 1) * 20))


async def test_a_new_store_is_empty_and_makes_its_files_when_needed() -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        await clock.settle()
        assert store.log.max_offset == 0
        assert disk.read(ROOT / "abort") == b""
    names = ["checkpoint", "checkpoint.json", "commitlog", "consumequeue", "index", "lock", "vouchers"]
    assert disk.list(ROOT) == names
    assert disk.list(ROOT / "commitlog") == []
    check(disk)


async def test_the_reserved_file_is_given_back_at_a_clean_stop() -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        put_ok(store, new_message(body=b"x" * 3000))
        await clock.advance(0.1)
        assert disk.list(ROOT / "commitlog") == [f"{0:020d}", f"{4096:020d}"]
    assert disk.list(ROOT / "commitlog") == [f"{0:020d}"]


async def test_a_roll_takes_the_reserved_file_without_waiting_for_the_disk() -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        put_ok(store, new_message(body=b"x" * 3000))
        await clock.advance(0.1)
        allocations = disk.count("allocate", "*/commitlog/*")
        assert put_ok(store, new_message(body=b"y" * 3000)).log_offset == 4096
        assert disk.count("allocate", "*/commitlog/*") == allocations


async def test_after_a_kill_every_message_is_there() -> None:
    disk = await crashed()
    assert disk.exists(ROOT / "abort")
    content = await reopened(disk)
    assert numbers(content) == list(range(50))


async def test_after_a_kill_only_what_followed_the_checkpoint_is_read() -> None:
    disk = await crashed(checkpoint_after=30)
    records, _ = read_log(disk, ROOT, sizes_of(store_config()), until_bad=True)
    async with open_store(disk) as store:
        assert store.recovered.scanned_from == records[30].log_offset
        assert store.recovered.dispatched == 20
    assert numbers(check(disk)) == list(range(50))


async def test_keys_are_found_after_a_kill() -> None:
    disk = await crashed(checkpoint_after=30)
    async with open_store(disk) as store:
        for number in range(50):
            found = await store.query(f"T{number % 2}", f"k{number}", 9, *EVER)
            assert len(found.records) == 1, number
    check(disk)


async def test_ten_kills_in_a_row_lose_nothing() -> None:
    disk = memory_disk()
    for life in range(10):
        async with killed_store(disk) as store:
            fill(store, 10, first=life * 10)
        disk = disk.after_power_loss(keep=True)
    assert numbers(await reopened(disk)) == list(range(100))


async def test_a_second_process_is_refused_while_the_first_has_the_store() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 1)
        with pytest.raises(StoreLocked, match="locked"):
            async with open_store(disk):
                pass
        fill(store, 1, first=1)
    assert numbers(check(disk)) == [0, 1]


async def test_a_real_disk_gives_the_same(tmp_path: Path) -> None:
    config = store_config(tmp_path / "store")
    disk = LocalDisk()
    try:
        for life in range(3):
            async with open_store(disk, config) as store:
                fill(store, 30, first=life * 30)
                with pytest.raises(StoreLocked):
                    async with open_store(disk, config):
                        pass
        assert numbers(check(disk, config)) == list(range(90))
    finally:
        disk.close()


# ---------------------------------------------------------------------------------------------------------- torn tails


@pytest.mark.parametrize("filler", [b"\0", b"\xff"], ids=["zeros", "garbage"])
async def test_a_last_record_torn_at_any_byte_is_cut(filler: bytes) -> None:
    config = store_config(commit_log_file_bytes=16384)
    left = await crashed(config, count=8)
    left.unlink(ROOT / "checkpoint.json")
    left.unlink(ROOT / "checkpoint")
    left.sync_directory(ROOT)
    last = read_log(left, ROOT, sizes_of(config), until_bad=True)[0][-1]
    for torn_at in range(last.total):
        disk = left.after_power_loss()
        overwrite(disk, log_path(0), last.log_offset + torn_at, filler * (last.total - torn_at))
        async with open_store(disk, config) as store:
            end = store.log.max_offset
        if filler == b"\0" or torn_at < last.total - len(last.properties) * 20:  # properties have no checksum
            assert end == last.log_offset, torn_at
            assert numbers(check(disk, config)) == list(range(7))


async def test_what_lay_behind_the_cut_never_comes_back() -> None:
    """Records have equal sizes: an old one would stand exactly behind the next new one."""
    disk = await crashed(count=8)
    records, _ = read_log(disk, ROOT, sizes_of(store_config()), until_bad=True)
    overwrite(disk, log_path(0), records[5].log_offset + 90, b"broken body")
    async with open_store(disk) as store:
        assert store.log.max_offset == records[5].log_offset
        put_ok(
            store,
            new_message("T1", 2, b"after" + b"." * 40, keys="k9", unique=unique_id(5), tags="TagA"),
        )
        assert store.log.max_offset == records[6].log_offset
    disk.replace(ROOT / "abort", b"")
    async with open_store(disk) as store:
        assert store.log.max_offset == records[6].log_offset
    assert [record.body[:5] for record in check(disk).records] == [b"%05d" % n for n in range(5)] + [b"after"]


async def test_a_file_behind_the_end_is_deleted() -> None:
    disk = await crashed(count=60)
    starts = [int(name) for name in disk.list(ROOT / "commitlog")]
    assert len(starts) > 2
    overwrite(disk, log_path(starts[1]), 0, bytes(200))
    async with open_store(disk) as store:
        assert store.log.max_offset == starts[1]
    assert [int(name) for name in disk.list(ROOT / "commitlog")] == [0]
    check(disk)


async def test_a_log_file_that_was_just_being_made_is_made_anew() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 5)
    for size in (0, 17, 1000):
        file = disk.open(log_path(4096), create=True)
        file.truncate(size)
        file.close()
        disk.replace(ROOT / "abort", b"")
        async with open_store(disk) as store:
            assert len(store.log.file_starts) == 1
        assert numbers(check(disk)) == list(range(5))


async def test_the_log_may_end_exactly_at_the_end_of_a_file() -> None:
    disk = memory_disk()
    body = b"x" * (4096 - 8 - 91 - 2)
    async with open_store(disk) as store:
        put_ok(store, new_message("T0", body=body))
        put_ok(store, new_message("T0", body=body))
    disk.unlink(log_path(4096))
    disk.replace(ROOT / "abort", b"")
    disk.unlink(ROOT / "checkpoint.json")
    async with open_store(disk) as store:
        assert store.log.max_offset == 4096
        assert put_ok(store, new_message("T0", body=b"next")).log_offset == 4096
    assert len(check(disk).records) == 2


# ---------------------------------------------------------------------------------------------------- what was missing


async def delete_tree(disk: FaultyDisk, path: Path) -> None:
    for name in disk.list(path):
        if disk.is_directory(path / name):
            await delete_tree(disk, path / name)
        else:
            disk.unlink(path / name)
    disk.remove_directory(path)


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("has_snapshot", [True, False], ids=["snapshot", "times-only"])
@pytest.mark.parametrize("lost", ["consumequeue", "consumequeue/T1/2", "index", "newest index file", "all"])
async def test_what_is_missing_is_built_again_from_the_log(lost: str, was_clean: bool, has_snapshot: bool) -> None:
    if lost == "newest index file" and not has_snapshot and was_clean:
        pytest.skip("nothing tells that a file is missing")
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 50)
    if not was_clean:
        disk.replace(ROOT / "abort", b"")
    if not has_snapshot:
        disk.unlink(ROOT / "checkpoint.json")
    if lost == "newest index file":
        disk.unlink(ROOT / "index" / disk.list(ROOT / "index")[-1])
    else:
        for name in ("consumequeue", "index") if lost == "all" else (lost,):
            await delete_tree(disk, ROOT / name)
    assert numbers(await reopened(disk)) == list(range(50))


async def test_a_queue_without_new_messages_is_missed_too() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_ok(store, new_message("Old", 0, b"00000"))
        fill(store, 60)
    await delete_tree(disk, ROOT / "consumequeue" / "Old")
    async with open_store(disk) as store:
        assert store.recovered.rebuilt_queues == ["Old-0"]
        assert store.max_offset("Old", 0) == 1
    check(disk)


async def test_without_a_log_and_its_checkpoint_queues_and_index_are_emptied() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 50)
    await delete_tree(disk, ROOT / "commitlog")
    disk.unlink(ROOT / "checkpoint")
    async with open_store(disk) as store:
        assert store.max_offset("T0", 0) == 0
        fill(store, 5)
    assert numbers(check(disk)) == list(range(5))


async def test_an_index_of_another_size_is_made_anew() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 30)
    config = store_config(index_slot_count=11, index_entry_count=64)
    async with open_store(disk, config) as store:
        assert store.recovered.index_rebuilt
    assert numbers(check(disk, config)) == list(range(30))


async def test_a_shortened_queue_is_built_again() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 60)
    path = ROOT / "consumequeue" / "T0" / "0" / ("0" * 20)
    overwrite(disk, path, 100, bytes(100))
    async with open_store(disk) as store:
        assert store.recovered.rebuilt_queues == ["T0-0"]
    assert numbers(check(disk)) == list(range(60))


# ------------------------------------------------------------------------------------------------------ refused stores


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("commitlog/00000000000000000000", "mappedFileSizeCommitLog"),
        ("consumequeue/T0/0/00000000000000000000", "mappedFileSizeConsumeQueue"),
    ],
)
async def test_files_of_another_size_are_refused_with_the_key_to_set(path: str, key: str) -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 80)
    before = disk.read(ROOT / path)
    file = disk.open(ROOT / path)
    file.truncate(len(before) - 20)
    file.close()
    with pytest.raises(StoreError, match=key) as refused:
        async with open_store(disk):
            pass
    assert any("Set " + key in note for note in refused.value.__notes__)
    overwrite(disk, ROOT / path, 0, before)
    async with open_store(disk):
        pass
    assert numbers(check(disk)) == list(range(80))


async def test_other_settings_than_the_store_was_written_with_are_refused() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 80)
    for config in (
        store_config(commit_log_file_bytes=8192),
        store_config(queue_file_bytes=60),
        store_config(commit_log_file_bytes=5000),
    ):
        with pytest.raises(StoreError):
            async with open_store(disk, config):
                pass
    assert numbers(await reopened(disk)) == list(range(80))


async def test_a_short_log_file_with_messages_is_refused_and_not_deleted() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 5)
    file = disk.open(log_path(0))
    file.truncate(2000)
    file.close()
    with pytest.raises(StoreError, match="2000 bytes"):
        async with open_store(disk):
            pass
    assert len(disk.read(log_path(0))) == 2000


@pytest.mark.parametrize("was_clean", [True, False])
async def test_a_start_without_the_log_it_had_is_refused_and_changes_nothing(was_clean: bool) -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 40)
    if not was_clean:
        disk.replace(ROOT / "abort", b"")
    log = {path: disk.read(path) for path in (ROOT / "commitlog" / name for name in disk.list(ROOT / "commitlog"))}
    for path in log:
        disk.unlink(path)
    with pytest.raises(StoreError, match=r"there is no log in .*commitlog.* remove checkpoint and checkpoint.json"):
        async with open_store(disk):
            pass
    for path, data in log.items():  # its directory is mounted again
        disk.replace(path, data)
    assert numbers(await reopened(disk)) == list(range(40))


async def test_strange_names_are_passed_over() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 10)
    for name in ("commitlog/lost+found", "consumequeue/T0/readme", "index/notes.txt"):
        disk.replace(ROOT / name, b"not ours")
    async with open_store(disk) as store:
        assert store.max_offset("T0", 0) == 2
    for name in ("commitlog/lost+found", "consumequeue/T0/readme", "index/notes.txt"):
        assert disk.read(ROOT / name) == b"not ours"
        disk.unlink(ROOT / name)
    check(disk)


# ------------------------------------------------------------------------------------------------------- checkpointing


@pytest.mark.parametrize(
    ("files", "safe_ms", "start"),
    [
        ([(0, 100), (10, 200), (20, 300)], 250, 10),
        ([(0, 100), (10, 200), (20, 300)], 300, 20),
        ([(0, 100), (10, 200), (20, 300)], 99, 0),
        ([(0, 100), (10, 200), (20, 0)], 999, 10),
        ([(0, 0)], 999, 0),
        ([(0, 100), (10, 50), (20, 300)], 60, 10),
    ],
)
def test_recovery_by_time_begins_at_the_last_file_that_was_surely_synced(
    files: list[tuple[int, int]], safe_ms: int, start: int
) -> None:
    assert start_by_time(files, safe_ms) == start


async def test_a_checkpoint_is_written_every_minute() -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        fill(store, 3)
        stored_ms = clock.now_ms()
        await clock.advance(59)
        assert not disk.exists(ROOT / "checkpoint")
        await clock.advance(3)
        assert read_checkpoint(disk, ROOT) == (stored_ms,) * 3
        assert store.flushed_offset == store.log.max_offset


async def test_a_snapshot_that_does_not_belong_to_the_checkpoint_is_ignored() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 50)
    times = read_checkpoint(disk, ROOT)
    overwrite(disk, ROOT / "checkpoint", 0, struct.pack(">q", times[0] + 1))
    async with open_store(disk) as store:
        assert store.recovered.scanned_from != store.log.max_offset
    for text in (b"{", b"[]", b'{"logMs":1}'):
        disk.replace(ROOT / "checkpoint.json", text)
        assert numbers(await reopened(disk)) == list(range(50))


async def test_a_snapshot_beyond_the_log_is_ignored() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 50)
    for name in list(disk.list(ROOT / "commitlog"))[1:]:
        disk.unlink(ROOT / "commitlog" / name)
    content = await reopened(disk)
    assert numbers(content) == list(range(len(content.records) - 1))


# --------------------------------------------------------------------------------------------------- deleted and reborn


async def test_a_deleted_topic_goes_on_where_it_ended() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 50)
        await store.delete_topic_queues("T0")
        assert not disk.exists(ROOT / "consumequeue" / "T0")
        assert store.min_offset("T0", 0) == store.max_offset("T0", 0) == 9
        assert put_ok(store, new_message("T0", 0, b"again")).queue_offset == 9
    async with open_store(disk) as store:
        assert (store.min_offset("T0", 0), store.max_offset("T0", 0)) == (9, 10)
        assert store.max_offset("T0", 1) == 8
        assert store.max_offset("T1", 1) == 9


@pytest.mark.parametrize("has_snapshot", [True, False], ids=["snapshot", "times-only"])
async def test_a_topic_that_was_made_again_keeps_its_new_messages_after_a_kill(has_snapshot: bool) -> None:
    disk = memory_disk()
    async with killed_store(disk) as store:
        fill(store, 30)
        await store.delete_topic_queues("T0")
        for number in range(3):
            put_ok(store, new_message("T0", 0, b"again %d" % number))
    disk = disk.after_power_loss(keep=True)
    if not has_snapshot:
        disk.unlink(ROOT / "checkpoint.json")
        disk.unlink(ROOT / "checkpoint")
    async with open_store(disk) as store:
        assert store.max_offset("T0", 0) == 8
        found = await store.read_messages("T0", 0, 5, 9)
        assert found is not None
        assert [record.body for part in found.parts for record in read_records(bytes(part))] == [
            b"again 0",
            b"again 1",
            b"again 2",
        ]
        assert (store.min_offset("T0", 0) == 5) is has_snapshot, "else the log alone tells what there was"


async def test_messages_that_come_while_a_topic_is_deleted_are_kept() -> None:
    clock = ManualClock()
    disk = memory_disk(clock=clock)
    async with open_store(disk, clock=clock) as store:
        fill(store, 50)
        await clock.advance(1.1)
        disk.stall("unlink", seconds=5)
        deletion = asyncio.get_running_loop().create_task(store.delete_topic_queues("T0"))
        await clock.settle()
        put_ok(store, new_message("T0", 0, b"new"))
        await clock.advance(3)
        assert not deletion.done()
        await clock.advance(3)
        await deletion
        assert store.max_offset("T0", 0) == 10
    async with open_store(disk) as store:
        found = await store.read_messages("T0", 0, 9, 9)
        assert found is not None
        assert found.count == 1


# -------------------------------------------------------------------------------------------------------- bad records


async def test_a_bad_record_in_front_of_the_checkpoint_is_stepped_over_and_keeps_its_place() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 60)
    records, _ = read_log(disk, ROOT, sizes_of(store_config()))
    bad = records[24]
    assert (bad.topic, bad.queue_id, bad.queue_offset) == ("T0", 0, 4)
    overwrite(disk, log_path(bad.log_offset - bad.log_offset % 4096), bad.log_offset % 4096 + 4, b"\0\0\0\0")
    await delete_tree(disk, ROOT / "consumequeue" / "T0")
    async with open_store(disk) as store:
        assert store.recovered.bad_records == 1
        assert store.max_offset("T0", 0) == 10
        found = await store.read_messages("T0", 0, 0, 10)
        assert found is not None
        assert (found.count, found.next_offset) == (9, 10)


async def test_bad_records_at_the_end_of_a_file_lead_to_the_next_one() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        fill(store, 60)
    records, _ = read_log(disk, ROOT, sizes_of(store_config()))
    last_of_first = [record for record in records if record.log_offset < 4096][-1]
    overwrite(disk, log_path(0), last_of_first.log_offset, bytes(4096 - last_of_first.log_offset))
    await delete_tree(disk, ROOT / "consumequeue")
    async with open_store(disk) as store:
        assert store.recovered.bad_records == 1
        total = sum(store.max_offset(f"T{n % 2}", n % 3) for n in range(6))
        assert total == 60


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean stop", "kill"])
async def test_behind_a_bad_record_of_another_broker_s_log_the_synced_messages_stay(was_clean: bool) -> None:
    """Apache's broker ends the log at the bad record, and all messages behind it are gone."""
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        for first in range(0, 60, 10):
            fill(store, 10, first=first)
            await clock.advance(5)
    records, _ = read_log(disk, ROOT, sizes_of(store_config()))
    bad = records[-20]
    overwrite(disk, log_path(bad.log_offset - bad.log_offset % 4096), bad.log_offset % 4096 + 90, b"\xff\xff")
    disk.unlink(ROOT / "checkpoint.json")
    if not was_clean:
        disk.open(ROOT / "abort", create=True).close()
    async with open_store(disk, clock=clock) as store:
        assert store.recovered.bad_records == 1
        total = sum(store.max_offset(f"T{n % 2}", n % 3) for n in range(6))
        assert total == 60, "the last messages are there, and the lost one keeps its place"
        found = await store.read_messages(bad.topic, bad.queue_id, 0, 32)
        assert found is not None
        assert found.next_offset == 10
        assert put_ok(store, new_message("T0", 0)).queue_offset == 10
    async with open_store(disk, clock=clock) as store:
        assert store.max_offset("T0", 0) == 11


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean stop", "kill"])
async def test_a_rebuilt_queue_of_another_broker_gives_no_number_twice_though_its_last_message_is_damaged(
    was_clean: bool,
) -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        for _ in range(7):
            put_ok(store, new_message("Old", 0, b"x" * 100))
        await clock.advance(10)
        fill(store, 60)
        await clock.advance(10)
        put_ok(store, new_message("T0", 0, b"00060"))
    records, _ = read_log(disk, ROOT, sizes_of(store_config()))
    overwrite(disk, log_path(0), records[6].log_offset + 95, b"\xff")
    disk.unlink(ROOT / "checkpoint.json")
    if not was_clean:
        disk.replace(ROOT / "abort", b"")
    wishes = RecoveryWishes(queues=(("Old", 0),))
    async with MessageStore.open(store_config(), disk=disk, clock=clock, wishes=wishes) as store:
        assert store.recovered.rebuilt_queues == ["Old-0"]
        assert put_ok(store, new_message("Old", 0, b"next")).queue_offset == 7
        found = await store.read_messages("Old", 0, 0, 32)
        assert found is not None
        assert (found.count, found.next_offset) == (7, 8)


async def test_an_unreadable_log_file_is_an_error_at_opening() -> None:
    disk = await crashed()
    disk.fail("pread", path="*/commitlog/*", error=errno.EIO, times=None)
    with pytest.raises(OSError, match="nput/output"):
        async with open_store(disk):
            pass
    disk.heal()
    assert numbers(await reopened(disk)) == list(range(50))


async def test_a_log_that_grows_fast_gets_its_checkpoint_before_the_minute_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skyrocketmq.store.upkeep.CHECKPOINT_BYTES", 8000)
    disk = memory_disk()
    clock = ManualClock()
    async with killed_store(disk, clock=clock) as store:
        fill(store, 20)
        await clock.advance(1.1)
        assert not disk.exists(ROOT / "checkpoint")
        fill(store, 60, first=20)
        await clock.advance(3)
        assert disk.exists(ROOT / "checkpoint")
        fill(store, 5, first=80)
    disk = disk.after_power_loss(keep=True)
    async with open_store(disk) as store:
        assert store.recovered.dispatched == 5


def noted_as_flushed(disk: FaultyDisk) -> int:
    path = ROOT / "flushed"
    return int.from_bytes(disk.read(path)[:8], "big") if disk.exists(path) else 0


async def test_a_log_of_which_nothing_is_left_behind_its_last_message_goes_on_there() -> None:
    disk = memory_disk()
    async with killed_store(disk) as store:
        fill(store, 10)
        kept = int(store.log.max_offset)
        fill(store, 5)
        await store.flush()
        end, readable = int(store.log.max_offset), store.max_offset("T0", 0)
    disk = disk.for_next_process()
    assert end < 4096
    overwrite(disk, log_path(0), kept, bytes(end - kept))
    async with open_store(disk) as store:
        assert store.log.max_offset == kept
        assert noted_as_flushed(disk) <= kept
        assert store.recovered.bad_records == 0
        assert put_ok(store, new_message("T0", 0, b"next")).queue_offset >= readable
    check(disk)


async def test_a_store_is_begun_anew_by_removing_what_the_refusal_names() -> None:
    disk = memory_disk()
    async with killed_store(disk) as store:
        fill(store, 10)
        await store.checkpoint()
    disk = disk.for_next_process()
    disk.unlink(log_path(0))
    for name in ("checkpoint", "checkpoint.json"):
        disk.unlink(ROOT / name)
    async with killed_store(disk) as store:
        assert store.log.max_offset == 0
        assert noted_as_flushed(disk) == 0
        put_ok(store, new_message("T1", 0, b"first"))
        end = int(store.log.max_offset)
    disk = disk.for_next_process()
    async with open_store(disk) as store:
        assert store.log.max_offset == end
        assert store.recovered.bad_records == 0
    check(disk)
