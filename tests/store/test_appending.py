"""Messages go in: the bytes they become, and what is refused."""

from __future__ import annotations

import errno
import logging

import pytest

from skyrocketmq.store import Arrival, MessageStore, PutStatus, RunningFlag
from skyrocketmq.testing.clock import ManualClock
from tests.store.reader import read_log
from tests.store.support import (
    BORN_HOST,
    HOST_V6,
    ROOT,
    STORE_HOST,
    check,
    memory_disk,
    new_message,
    open_store,
    put_batch,
    put_ok,
    sizes_of,
    store_config,
    unique_id,
)

GOLDEN_RECORD = bytes.fromhex(
    "0000007a daa320a7 3610a686 00000002 00000001 0000000000000000 0000000000000000 00000000"
    "0000018bcfe56800 0a0000010000c350 0000018bcfe5687b 0a00000200002a9f 00000000 0000000000000000"
    "00000005 68656c6c6f 09 546f70696354657374 0011 544147530154616741024b455953016b31"
)


async def test_a_message_becomes_the_bytes_of_the_format() -> None:
    disk = memory_disk()
    async with open_store(disk, clock=ManualClock(start_ms=1_700_000_000_123)) as store:
        first = new_message(queue_id=2, body=b"hello", flag=1, properties=b"TAGS\x01TagA\x02KEYS\x01k1")
        assert put_ok(store, first).log_offset == 0
        assert store.put(new_message(queue_id=2)).queue_offset == 1
    assert disk.read(ROOT / "commitlog" / ("0" * 20))[:122] == GOLDEN_RECORD
    cells = disk.read(ROOT / "consumequeue" / "TopicTest" / "2" / ("0" * 20))
    assert cells[:20] == bytes.fromhex("0000000000000000 0000007a 000000000027a807")
    content = check(disk)
    assert [record.body for record in content.records] == [b"hello", b"hello"]
    assert content.times == (1_700_000_000_123,) * 3


@pytest.mark.parametrize("born_host", [BORN_HOST, HOST_V6], ids=["born-v4", "born-v6"])
@pytest.mark.parametrize("store_host", [STORE_HOST, HOST_V6], ids=["store-v4", "store-v6"])
async def test_hosts_of_both_kinds_are_stored(born_host: bytes, store_host: bytes) -> None:
    disk = memory_disk()
    async with open_store(disk, store_host=store_host) as store:
        put_ok(store, new_message(born_host=born_host, unique="id-1", sys_flag=0x30))
        put_ok(store, new_message(born_host=born_host, store_host=STORE_HOST))
    first, second = check(disk).records
    assert (first.born_host, first.store_host) == (born_host, store_host)
    assert second.store_host == STORE_HOST
    assert first.sys_flag == (len(born_host) == 20) * 0x10 + (len(store_host) == 20) * 0x20


async def test_a_full_file_ends_with_a_blank_record_and_the_next_one_goes_on() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        offsets = [put_ok(store, new_message(body=b"x" * 900, unique=unique_id(n))).log_offset for n in range(20)]
        assert len(disk.list(ROOT / "commitlog")) >= 5
    content = check(disk)
    assert [record.log_offset for record in content.records] == offsets
    assert [record.queue_offset for record in content.records] == list(range(20))


async def test_a_record_that_leaves_exactly_the_room_of_a_blank_one_fits() -> None:
    disk = memory_disk()
    body_bytes = 4096 - 8 - 91 - len("TopicTest")
    async with open_store(disk) as store:
        assert put_ok(store, new_message(body=b"x" * body_bytes)).log_offset == 0
        assert put_ok(store, new_message(body=b"x" * body_bytes)).log_offset == 4096
        assert store.put(new_message(body=b"x" * (body_bytes + 1))).status is PutStatus.MESSAGE_ILLEGAL
    assert len(check(disk).records) == 2


async def test_a_batch_that_does_not_fit_goes_into_the_next_file_as_a_whole() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_ok(store, new_message(body=b"x" * 2500))
        batch = [new_message(body=bytes([n]) * 500, unique=unique_id(n)) for n in range(4)]
        result, places = put_batch(store, batch)
        assert (result.log_offset, result.queue_offset) == (places[0], 1)
        assert places[0] == 4096
        assert len(places) == 4
        too_large, nowhere = put_batch(store, [new_message(body=b"x" * 1000)] * 5)
        assert (too_large.status, nowhere) == (PutStatus.MESSAGE_ILLEGAL, [])
        assert store.max_offset("TopicTest", 0) == 5
    assert len(check(disk).records) == 5


async def test_one_bad_message_refuses_its_whole_batch() -> None:
    disk = memory_disk()
    async with open_store(disk, store_config(message_bytes_max=100)) as store:
        result, places = put_batch(store, [new_message(), new_message(body=b"x" * 101), new_message()])
        assert (result.status, places) == (PutStatus.MESSAGE_ILLEGAL, [])
        assert "maxMessageSize allows 100" in result.remark
        assert store.max_offset("TopicTest", 0) == 0
    assert check(disk).records == []


async def test_messages_of_one_buffer_go_to_many_queues_with_one_write() -> None:
    disk = memory_disk()
    config = store_config(commit_log_file_bytes=65536)
    async with open_store(disk, config) as store:
        put_ok(store, new_message())
        writes = disk.count("pwrite", "*/commitlog/*")
        batch = store.begin()
        for number in range(30):
            batch.add(new_message(f"T{number % 3}", number % 2, tags="a", unique=unique_id(number)))
        assert batch.commit().refusal is None
        assert disk.count("pwrite", "*/commitlog/*") == writes + 1
        assert [store.max_offset("T0", queue_id) for queue_id in (0, 1)] == [5, 5]
    assert len(check(disk, config).records) == 31


async def test_prepared_messages_are_indexed_and_rolled_back_ones_are_not_and_neither_is_queued() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        for number, bits in enumerate((0x4, 0xC, 0x8, 0x0)):
            put_ok(store, new_message(unique=f"key-{number}", sys_flag=bits, prepared_transaction_offset=7))
        assert store.max_offset("TopicTest", 0) == 2
        found = [len((await store.query("TopicTest", f"key-{n}", 9, 0, 1 << 62)).records) for n in range(4)]
        assert found == [1, 0, 1, 1]
    records = check(disk).records
    assert [record.queue_offset for record in records] == [0, 0, 0, 1]
    assert [record.prepared_offset for record in records] == [7, 7, 7, 7]


async def test_a_delayed_message_keeps_its_time_of_delivery_in_the_queue() -> None:
    disk = memory_disk()
    async with open_store(disk, clock=(clock := ManualClock())) as store:
        put_ok(store, new_message("SCHEDULE_TOPIC_XXXX", 2, tags="TagA", more={"DELAY": "3"}))
        put_ok(store, new_message("SCHEDULE_TOPIC_XXXX", 0, tags="TagA"))
        put_ok(store, new_message("SCHEDULE_TOPIC_XXXX", 1, tags="TagA", more={"DELAY": "0"}))
        cell = store.queue("SCHEDULE_TOPIC_XXXX", 2).read_cell(0)
        assert cell is not None
        assert cell[2] == clock.now_ms() + 10_000
    check(disk)


async def test_a_level_beyond_the_last_waits_as_long_as_the_last() -> None:
    async with open_store(memory_disk(), store_config(delay_levels="1s 2s")) as store:
        put_ok(store, new_message("SCHEDULE_TOPIC_XXXX", 1, more={"DELAY": "18"}))
        cell = store.queue("SCHEDULE_TOPIC_XXXX", 1).read_cell(0)
        assert cell is not None
        assert cell[2] == store.writer.newest_ms + 2_000


async def test_limits_are_told_in_words() -> None:
    async with open_store(memory_disk(), store_config(commit_log_file_bytes=1 << 20)) as store:
        long_properties = store.put(new_message(more={"a": "x" * 33_000}))
        assert long_properties.status is PutStatus.PROPERTIES_SIZE_EXCEEDED
        assert "32767" in long_properties.remark
        long_topic = store.put(new_message("t" * 128))
        assert long_topic.status is PutStatus.MESSAGE_ILLEGAL
        assert "127" in long_topic.remark
        assert long_topic.log_offset == -1
        evil = store.put(new_message("../evil"))
        assert evil.status is PutStatus.MESSAGE_ILLEGAL
        assert "contains" in evil.remark
        assert store.log.max_offset == 0


async def test_the_largest_body_may_change_while_the_store_is_open() -> None:
    async with open_store(memory_disk()) as store:
        put_ok(store, new_message(body=b"x" * 200))
        store.apply_config(store_config(message_bytes_max=100))
        assert store.put(new_message(body=b"x" * 200)).status is PutStatus.MESSAGE_ILLEGAL
        put_ok(store, new_message(body=b"x" * 100))


async def test_a_closed_store_refuses_with_a_reason() -> None:
    async with open_store(memory_disk()) as store:
        put_ok(store, new_message())
    result = store.put(new_message())
    assert result.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "closed" in result.remark
    assert store.get_messages("TopicTest", 0, 0, 1) is None


async def test_arrivals_are_told_for_watched_queues_only() -> None:
    async with open_store(memory_disk()) as store:
        told: list[Arrival] = []
        store.on_arrival = told.extend
        store.queue("TopicTest", 1).is_watched = True
        put_ok(store, new_message(queue_id=0))
        put_ok(store, new_message(queue_id=1, tags="TagA", unique=unique_id(5)))
        store.queue("TopicTest", 1).is_watched = False
        put_ok(store, new_message(queue_id=1))
        (arrival,) = told
        assert arrival[:4] == ("TopicTest", 1, 1, 2598919)
        assert arrival.properties == f"UNIQ_KEY\x01{unique_id(5)}\x02TAGS\x01TagA".encode()
        assert arrival.store_timestamp == store.writer.newest_ms


async def test_a_watcher_may_append_and_read_when_it_is_told() -> None:
    async with open_store(memory_disk()) as store:
        found: list[int] = []

        def answer(arrivals: list[Arrival]) -> None:
            store.queue("TopicTest", 0).is_watched = False
            found.append(store.max_offset("TopicTest", 0))
            put_ok(store, new_message("Reply"))

        store.on_arrival = answer
        store.queue("TopicTest", 0).is_watched = True
        put_ok(store, new_message())
        assert found == [1]
        assert store.max_offset("Reply", 0) == 1


async def test_readers_see_nothing_of_a_batch_before_it_is_committed() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        batch = store.begin()
        batch.add(new_message("T", 0, b"one"))
        assert store.max_offset("T", 0) == 0
        assert store.log.max_offset == 0
        assert store.begin() is batch, "all who add share the open one"
        batch.add(new_message("T", 0, b"two"))
        batch.commit()
        result = await store.read_messages("T", 0, 0, 10)
        assert result is not None
        assert result.count == 2
    assert [record.body for record in check(disk).records] == [b"one", b"two"]


async def test_whoever_commits_all_who_added_hear_of_it() -> None:
    async with open_store(memory_disk()) as store:
        heard: list[tuple[str, int]] = []
        batch = store.begin()
        result = batch.add(new_message("T", 0, b"one"))
        batch.on_end(lambda outcome: heard.append(("one", int(outcome.of(result).log_offset))))
        put_ok(store, new_message("T", 0, b"two"))
        assert heard == [("one", 0)]
        assert store.begin() is not batch


async def test_a_listener_that_fails_keeps_nobody_else_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    async with open_store(memory_disk()) as store:
        heard: list[int] = []
        batch = store.begin()
        batch.on_end(lambda outcome: 1 // 0)
        batch.on_end(lambda outcome: heard.append(int(outcome.end)))
        batch.add(new_message("T", 0, b"one"))
        with caplog.at_level(logging.CRITICAL):
            batch.commit()
        assert heard == [store.log.max_offset]


# ------------------------------------------------------------------------------------------------------------- trouble


async def test_a_failed_write_takes_its_numbers_back_and_the_next_one_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_ok(store, new_message(body=b"before", unique=unique_id(0)))
        disk.fail("pwrite", path="*/commitlog/*", error=errno.EIO)
        with caplog.at_level(logging.CRITICAL):
            result, _ = put_batch(store, [new_message(body=b"lost" * 50, unique=unique_id(n)) for n in (1, 2)])
        assert result.status is PutStatus.UNKNOWN_ERROR
        assert store.max_offset("TopicTest", 0) == 1
        assert store.statistics.put_failed == 2
        assert put_ok(store, new_message(body=b"after", unique=unique_id(3))).queue_offset == 1
    assert [record.body for record in check(disk).records] == [b"before", b"after"]


async def test_messages_before_a_roll_stay_stored_when_the_write_behind_it_fails() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_ok(store, new_message(body=b"x" * 2000))
        disk.fail("pwrite", path="*/00000000000000004096", error=errno.EIO)
        batch = store.begin()
        first, second = (batch.add(new_message(body=body * 1000)) for body in (b"a", b"b"))
        assert (first.log_offset, second.log_offset) == (2100, 4096)
        outcome = batch.commit()
        assert outcome.failed_from == 4096
        assert outcome.of(first) == first
        assert outcome.of(second).status is PutStatus.UNKNOWN_ERROR
        assert store.max_offset("TopicTest", 0) == 2
        put_ok(store, new_message(body=b"c"))
    assert [record.body[:1] for record in check(disk).records] == [b"x", b"a", b"c"]


async def test_after_a_failed_write_the_rest_of_the_batch_is_refused() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_ok(store, new_message(body=b"x" * 2000))
        disk.fail("pwrite", path="*/commitlog/*", error=errno.EIO)
        batch = store.begin()
        assert batch.add(new_message(body=b"a" * 1000)).log_offset == 2100
        # The roll writes first.
        assert batch.add(new_message(body=b"b" * 1500)).status is PutStatus.UNKNOWN_ERROR
        assert batch.add(new_message(body=b"c")).status is PutStatus.UNKNOWN_ERROR
        assert batch.commit().failed_from == 2100
        assert put_ok(store, new_message(body=b"d")).log_offset == 2100
    assert [record.body[:1] for record in check(disk).records] == [b"x", b"d"]


async def test_a_full_disk_refuses_and_heals_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        put_ok(store, new_message(body=b"x" * 1000))
        await clock.settle()
        disk.fail("allocate", error=errno.ENOSPC, times=None)
        statuses = [store.put(new_message(body=b"y" * 1000)).status for _ in range(20)]
        assert statuses[:2] == [PutStatus.PUT_OK] * 2, "the present file takes what fits"
        assert set(statuses[2:]) == {PutStatus.SERVICE_NOT_AVAILABLE}
        assert "disk is full" in store.put(new_message(body=b"y" * 1000)).remark
        assert sum("no next log file" in record.message for record in caplog.records) == 1, "said once"
        await clock.advance(5)
        assert store.refusal is not None
        disk.heal()
        await clock.advance(1.1)
        assert put_ok(store, new_message(body=b"z" * 1000)).queue_offset == 3
    check(disk)


async def test_a_file_that_cannot_be_mapped_is_tried_again() -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        put_ok(store, new_message(body=b"x" * 3000))
        await clock.settle()
        disk.fail("map", error=errno.ENOMEM)
        assert store.put(new_message(body=b"y" * 3000)).status is PutStatus.CREATE_MAPEDFILE_FAILED
        assert store.refusal is not None
        await clock.settle()
        assert put_ok(store, new_message(body=b"y" * 3000)).log_offset == 4096
    check(disk)


async def test_a_queue_that_cannot_be_written_stops_appends_until_it_can() -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        disk.fail("pwrite", path="*/consumequeue/*", error=errno.ENOSPC, times=None)
        put_ok(store, new_message())
        await clock.advance(1.5)
        assert store.state.flags & RunningFlag.QUEUE_WRITE_ERROR
        refused = store.put(new_message())
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert "consume queue" in refused.remark
        found = await store.read_messages("TopicTest", 0, 0, 10)
        assert found is not None
        assert found.count == 1
        disk.heal()
        await clock.advance(1.5)
        put_ok(store, new_message())
    assert len(check(disk).records) == 2


async def test_an_index_that_cannot_be_written_catches_up_when_it_can() -> None:
    disk = memory_disk()
    clock = ManualClock()
    async with open_store(disk, clock=clock) as store:
        put_ok(store, new_message(unique=unique_id(0)))
        disk.fail("pwrite", path="*/index/*", error=errno.ENOSPC, times=None)
        put_ok(store, new_message(unique=unique_id(1), keys="a b"))
        await clock.advance(1.5)  # keys wait for others of the same time, at most so long
        assert store.put(new_message(unique=unique_id(2))).status is PutStatus.SERVICE_NOT_AVAILABLE
        await clock.advance(3)
        assert store.refusal is not None
        disk.heal()
        await clock.advance(1.5)
        put_ok(store, new_message(unique=unique_id(3)))
        assert len((await store.query("TopicTest", "b", 9, 0, 1 << 62)).records) == 1
    check(disk)


async def test_a_key_is_found_at_once_though_the_index_gets_it_later() -> None:
    disk = memory_disk()
    async with open_store(disk, clock=ManualClock()) as store:
        put_ok(store, new_message(unique=unique_id(0)))
        before = disk.count("pwrite", "*/index/*")
        for number in range(1, 10):
            put_ok(store, new_message(unique=unique_id(number)))
        assert disk.count("pwrite", "*/index/*") == before
        assert len((await store.query("TopicTest", unique_id(9), 9, 0, 1 << 62)).records) == 1
    check(disk)


async def test_two_log_directories_take_files_in_turn() -> None:
    disk = memory_disk()
    config = store_config(commit_log_path="/store/log-a,/store/log-b")
    async with open_store(disk, config) as store:
        for _ in range(12):
            put_ok(store, new_message(body=b"x" * 1000))
        a, b = (list(disk.list(ROOT / name)) for name in ("log-a", "log-b"))
        assert [int(name) // 4096 for name in a[:2]] == [0, 2]
        assert int(b[0]) // 4096 == 1
    async with open_store(disk, config) as store:
        assert store.max_offset("TopicTest", 0) == 12
        found = await store.read_messages("TopicTest", 0, 0, 10)
        assert found is not None
        assert found.count == 10


def test_the_refusals_of_a_new_store_name_the_reason() -> None:
    store = MessageStore(store_config(), disk=memory_disk(), clock=ManualClock())
    assert store.refusal is not None
    assert "starting or stopping" in store.refusal.remark


async def test_what_the_log_holds_is_readable_while_the_store_is_open() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        for number in range(6):
            put_ok(store, new_message(body=b"%d" % number * 300))
        records, end = read_log(disk, ROOT, sizes_of(store_config()), until_bad=True)
        assert len(records) == 6
        assert end == store.log.max_offset
