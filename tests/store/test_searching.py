"""Messages are found by time, by key, by both ids."""

from __future__ import annotations

import pytest

from skyrocketmq.store import MessageStore
from skyrocketmq.testing.clock import ManualClock
from tests.store.reader import read_record
from tests.store.support import (
    HOST_V6,
    check,
    memory_disk,
    new_message,
    open_store,
    put_ok,
    store_config,
    unique_id,
)

EVER = (0, 1 << 62)


async def stored_at(store: MessageStore, clock: ManualClock, seconds: list[int]) -> int:
    """One message at each of the seconds; returns the time of second 0."""
    start_ms = clock.now_ms()
    for second in seconds:
        await clock.advance(start_ms / 1000 + second - clock.now_ms() / 1000)
        put_ok(store, new_message(body=b"%d" % second))
    return start_ms


@pytest.mark.parametrize(
    ("second", "offset"),
    [(-5, 0), (0, 0), (10, 1), (11, 3), (14, 3), (15, 3), (16, 4), (20, 4), (24, 4), (25, 4), (26, 5), (99, 5)],
)
async def test_the_offset_by_time_is_the_nearest_and_the_earlier_of_two(second: int, offset: int) -> None:
    clock = ManualClock()
    async with open_store(memory_disk(), clock=clock) as store:
        start_ms = await stored_at(store, clock, [0, 10, 10, 10, 20, 30])
        assert await store.offset_by_time("TopicTest", 0, start_ms + second * 1000) == offset


async def test_an_empty_queue_has_offset_0_at_any_time() -> None:
    async with open_store(memory_disk()) as store:
        assert await store.offset_by_time("TopicTest", 0, 5) == 0
        store.queue("TopicTest", 0)
        assert await store.offset_by_time("TopicTest", 0, 5) == 0


async def test_time_is_searched_over_all_files_also_cold_ones() -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, clock=clock) as store:
        start_ms = await stored_at(store, clock, list(range(100)))
    async with open_store(disk, clock=clock) as store:
        for second in range(100):
            disk.cool()
            assert await store.offset_by_time("TopicTest", 0, start_ms + second * 1000 + 400) == second


async def test_times_of_messages_are_told_with_hosts_of_both_kinds() -> None:
    clock = ManualClock()
    async with open_store(memory_disk(), clock=clock) as store:
        assert await store.earliest_time() == -1
        first_ms = clock.now_ms()
        put_ok(store, new_message("Other", born_host=HOST_V6))
        await clock.advance(5)
        put_ok(store, new_message())
        assert await store.earliest_time() == first_ms
        assert await store.earliest_time("TopicTest", 0) == first_ms + 5000
        assert await store.earliest_time("TopicTest", 1) == -1
        assert await store.store_time("Other", 0, 0) == first_ms
        assert await store.store_time("Other", 0, 1) == -1


async def test_a_message_is_found_by_its_log_offset_and_by_no_other() -> None:
    async with open_store(memory_disk()) as store:
        put_ok(store, new_message(body=b"first"))
        place = put_ok(store, new_message(body=b"second")).log_offset
        record = await store.message_at(place)
        assert record is not None
        assert read_record(bytes(record)).body == b"second"
        for wrong in (-1, 1, place - 1, place + 1, place + 5000, 1 << 60, store.log.max_offset):
            assert await store.message_at(wrong) is None, wrong


async def test_messages_are_found_by_keys_and_unique_ids() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        for number in range(60):
            put_ok(store, new_message(body=b"%d" % number, keys=f"k{number % 7} all", unique=unique_id(number)))
        for number in range(60):
            found = await store.query("TopicTest", unique_id(number), 64, *EVER)
            assert [read_record(bytes(record)).body for record in found.records] == [b"%d" % number]
        for key in range(7):
            found = await store.query("TopicTest", f"k{key}", 64, *EVER)
            bodies = [read_record(bytes(record)).body for record in found.records]
            assert bodies == [b"%d" % number for number in range(60) if number % 7 == key]
        assert (await store.query("TopicTest", "nobody", 64, *EVER)).records == ()
        assert (await store.query("Other", "all", 64, *EVER)).records == ()
        assert len(disk.list(store.config.root_path / "index")) > 5
    check(disk)


async def test_a_query_gives_the_newest_and_at_most_so_many() -> None:
    async with open_store(memory_disk(), store_config(index_query_count_max=5)) as store:
        for number in range(30):
            put_ok(store, new_message(body=b"%d" % number, keys="k"))
        three = await store.query("TopicTest", "k", 3, *EVER)
        assert [read_record(bytes(record)).body for record in three.records] == [b"27", b"28", b"29"]
        assert len((await store.query("TopicTest", "k", 99, *EVER)).records) == 5
        assert three.index_last_update_offset == store.log.max_offset - len(three.records[-1])
        assert three.index_last_update_ms == store.writer.newest_ms


async def test_a_query_looks_between_two_times() -> None:
    clock = ManualClock()
    disk = memory_disk()
    async with open_store(disk, clock=clock) as store:
        start_ms = clock.now_ms()
        for second in range(60):
            put_ok(store, new_message(body=b"%d" % second, keys="k"))
            await clock.advance(1)
        found = await store.query("TopicTest", "k", 64, start_ms + 25_000, start_ms + 31_000)
        bodies = [int(read_record(bytes(record)).body) for record in found.records]
        assert bodies == list(range(25, 32))
        assert (await store.query("TopicTest", "k", 64, start_ms + 90_000, start_ms + 99_000)).records == ()
    check(disk)


async def test_a_long_chain_of_one_hash_does_not_hold_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyrocketmq.store.index_file.PAUSE_EVERY", 10)
    config = store_config(index_slot_count=1, index_entry_count=500)
    async with open_store(memory_disk(), config) as store:
        put_ok(store, new_message(body=b"wanted", keys="wanted"))
        for number in range(300):
            put_ok(store, new_message(keys=f"k{number}"))
        found = await store.query("TopicTest", "wanted", 64, *EVER)
        assert [read_record(bytes(record)).body for record in found.records] == [b"wanted"]


async def test_keys_with_equal_hashes_are_all_returned() -> None:
    async with open_store(memory_disk()) as store:
        put_ok(store, new_message(body=b"1", keys="Aa"))
        put_ok(store, new_message(body=b"2", keys="BB"))
        found = await store.query("TopicTest", "Aa", 64, *EVER)
        assert [read_record(bytes(record)).body for record in found.records] == [b"1", b"2"]


async def test_keys_beyond_ascii_and_repeated_ids_are_indexed() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_ok(store, new_message(body=b"1", keys="中文 ключ 😀"))
        put_ok(store, new_message(body=b"2", unique="short", more={"KEYS": "a  b"}))
        for key, body in (("中文", b"1"), ("😀", b"1"), ("short", b"2"), ("b", b"2")):
            found = await store.query("TopicTest", key, 64, *EVER)
            assert [read_record(bytes(record)).body for record in found.records] == [body], key
    check(disk)


async def test_a_store_without_an_index_finds_nothing_and_stores_all_the_same() -> None:
    disk = memory_disk()
    config = store_config(index_enable=False)
    async with open_store(disk, config) as store:
        put_ok(store, new_message(keys="k"))
        assert (await store.query("TopicTest", "k", 64, *EVER)).records == ()
    assert disk.list(config.root_path / "index") == []
    check(disk, config)


async def test_messages_that_are_gone_from_the_log_are_not_found_by_key() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        for number in range(12):
            put_ok(store, new_message(body=b"%02d" % number * 500, keys=f"k{number}"))
    disk.unlink(store.config.root_path / "commitlog" / ("0" * 20))
    async with open_store(disk) as store:
        assert (await store.query("TopicTest", "k0", 64, *EVER)).records == ()
        assert len((await store.query("TopicTest", "k5", 64, *EVER)).records) == 1
