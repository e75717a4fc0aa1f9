"""Messages come out: statuses, limits, filters, and in which pieces."""

from __future__ import annotations

import pytest

from skyrocketmq.broker.pull_filters import SqlPullFilter
from skyrocketmq.config import BrokerRole
from skyrocketmq.filters import SqlFilter
from skyrocketmq.hot import CellLimits, TagCodes
from skyrocketmq.store import GetResult, GetStatus, MessageStore, Pending
from skyrocketmq.store.consume_queue import CELL, FILLER
from skyrocketmq.testing.clock import ManualClock
from tests.store.reader import java_hash, read_records
from tests.store.support import Picky, memory_disk, new_message, open_store, put_ok, store_config


def get(store: MessageStore, offset: int, count: int = 32, **filters: object) -> GetResult:
    result = store.get_messages("TopicTest", 0, offset, count, **filters)  # type: ignore[arg-type]
    assert isinstance(result, GetResult), "everything is in memory"
    return result


def bodies(result: GetResult) -> list[bytes]:
    return [record.body for record in read_records(result.joined())]


WIDE = store_config(commit_log_file_bytes=1 << 20, queue_file_bytes=20 * 2000)


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (0, GetStatus.FOUND, 3),
        (2, GetStatus.FOUND, 3),
        (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
async def test_the_status_says_where_the_offset_lies(offset: int, status: GetStatus, next_offset: int) -> None:
    async with open_store(memory_disk()) as store:
        for _ in range(3):
            put_ok(store, new_message())
        result = get(store, offset)
        assert (result.status, result.next_offset) == (status, next_offset)
        assert (result.min_offset, result.max_offset) == (0, 3)


async def test_a_queue_without_messages_has_none() -> None:
    async with open_store(memory_disk()) as store:
        assert get(store, 0).status is GetStatus.NO_MESSAGE_IN_QUEUE
        store.queue("TopicTest", 0)
        assert get(store, 5).status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert store.queues.topics() == []


async def test_messages_that_lie_together_come_as_one_slice_of_the_log() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        for number in range(10):
            put_ok(store, new_message(body=b"%d" % number))
        result = get(store, 2, 5)
        (part,) = result.parts
        assert isinstance(part, memoryview)
        assert part.readonly
        assert bodies(result) == [b"2", b"3", b"4", b"5", b"6"]
        assert (result.count, result.byte_count, result.next_offset) == (5, len(part), 7)


async def test_scattered_messages_come_joined() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        for number in range(20):
            put_ok(store, new_message(queue_id=number % 2, body=b"%d" % number))
        result = get(store, 0)
        (part,) = result.parts
        assert isinstance(part, bytes)
        assert bodies(result) == [b"%d" % number for number in range(0, 20, 2)]
        assert bodies(get(store, 3, 2)) == [b"6", b"8"]


async def test_a_run_is_not_continued_into_the_next_file() -> None:
    async with open_store(memory_disk()) as store:
        for number in range(6):
            put_ok(store, new_message(body=b"%d" % number * 1000))
        assert [body[:1] for body in bodies(get(store, 0, 6))] == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_a_slice_stays_valid_when_the_store_is_closed() -> None:
    async with open_store(memory_disk()) as store:
        put_ok(store, new_message(body=b"kept"))
        result = get(store, 0)
    assert bodies(result) == [b"kept"]


async def test_counts_and_bytes_are_limited_but_the_first_message_always_comes() -> None:
    config = store_config(
        commit_log_file_bytes=1 << 20,
        queue_file_bytes=20 * 2000,
        pull_bytes_max_in_memory=1000,
        pull_count_max_in_memory=4,
    )
    async with open_store(memory_disk(), config) as store:
        put_ok(store, new_message(body=b"x" * 5000))
        for _ in range(10):
            put_ok(store, new_message(body=b"y"))
        for _ in range(3):
            put_ok(store, new_message(body=b"z" * 400))
        assert get(store, 0).count == 1
        assert get(store, 1).count == 4
        assert get(store, 1, 2).count == 2
        assert get(store, 11).count == 1 + 1  # a third would pass 1000 bytes
        assert get(store, 1, 0).count == 1


async def test_tighter_limits_hold_for_messages_far_behind() -> None:
    config = store_config(
        commit_log_file_bytes=1 << 20,
        queue_file_bytes=20 * 2000,
        memory_ratio_percent=1,
        pull_count_max_on_disk=2,
    )
    async with open_store(memory_disk(), config) as store:
        for _ in range(10):
            put_ok(store, new_message())
        store._limits = CellLimits(
            bytes_max=262144,
            count_max=32,
            disk_bytes_max=65536,
            disk_count_max=2,
            memory_bytes=500,
            file_bytes=config.commit_log_file_bytes,
        )
        old = get(store, 0)
        assert (old.count, old.is_far_behind) == (2, True)
        new = get(store, 8)
        assert (new.count, new.is_far_behind) == (2, False)
        assert store.is_far_behind("TopicTest", 0, 0)
        assert not store.is_far_behind("TopicTest", 0, 9)


async def test_tags_filter_by_their_hash() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        for number in range(30):
            put_ok(store, new_message(body=b"%d" % number, tags="AaBb"[number % 3] if number % 3 < 2 else ""))
        both = get(store, 0, tags=TagCodes({java_hash("A"), java_hash("a")}))
        assert both.count == 20
        one = get(store, 0, tags=TagCodes({java_hash("a")}))
        assert bodies(one) == [b"%d" % number for number in range(1, 30, 3)]
        assert one.next_offset == 30
        none = get(store, 0, tags=TagCodes({java_hash("other")}))
        assert (none.status, none.next_offset, none.count) == (GetStatus.NO_MATCHED_MESSAGE, 30, 0)


async def test_two_tags_with_one_hash_both_pass() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        put_ok(store, new_message(tags="Aa"))
        put_ok(store, new_message(tags="BB"))
        assert get(store, 0, tags=TagCodes({java_hash("Aa")})).count == 2


async def test_one_read_looks_at_eight_hundred_cells_at_most() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        for _ in range(1000):
            put_ok(store, new_message(tags="no"))
        put_ok(store, new_message(tags="yes"))
        first = get(store, 0, tags=TagCodes({java_hash("yes")}))
        assert (first.status, first.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 800)
        second = get(store, first.next_offset, tags=TagCodes({java_hash("yes")}))
        assert (second.count, second.next_offset) == (1, 1001)


async def test_a_record_filter_decides_by_the_whole_record() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        for number in range(10):
            put_ok(store, new_message(body=b"%d" % number))
        result = get(store, 0, filter=Picky(lambda record: record[88:89] in b"13579"))
        assert bodies(result) == [b"1", b"3", b"5", b"7", b"9"]


def by(expression: str, *, scan_max: int = 2_000) -> Picky:
    sql = SqlFilter(expression)

    def wants(record: bytes) -> bool:
        [found] = read_records(record)
        return sql.matches(found.properties)

    return Picky(wants, scan_max=scan_max)


async def fill_numbered(store: MessageStore, count: int, *, body: bytes = b"body") -> None:
    for number in range(count):
        put_ok(store, new_message(body=body, more={"n": str(number), "odd": "yes" if number % 2 else "no"}))
        put_ok(store, new_message(queue_id=1))  # so that the others do not lie together


@pytest.mark.parametrize(
    ("expression", "offset", "count", "wanted", "next_offset"),
    [
        ("n >= 0", 0, 32, list(range(32)), 32),
        ("n >= 0", 17, 300, list(range(17, 300)), 300),
        ("odd = 'yes'", 0, 32, list(range(1, 64, 2)), 64),
        ("odd = 'yes' AND n BETWEEN 70 AND 90", 10, 32, list(range(71, 90, 2)), 300),
        ("n = 250", 0, 1, [250], 251),
        ("n = 1000", 0, 32, [], 300),
    ],
)
async def test_a_filter_is_asked_about_blocks_until_enough_is_found(
    expression: str, offset: int, count: int, wanted: list[int], next_offset: int
) -> None:
    config = store_config(commit_log_file_bytes=1 << 20, queue_file_bytes=20 * 2000, pull_count_max_in_memory=400)
    async with open_store(memory_disk(), config) as store:
        await fill_numbered(store, 300)
        asked = by(expression)
        result = get(store, offset, count, filter=asked)
        assert [record.queue_offset for record in read_records(result.joined())] == wanted
        assert result.count == len(wanted)
        # Nothing is passed over without having been looked at, and hardly anything is looked at for nothing.
        assert next_offset <= result.next_offset <= next_offset + 8
        assert result.next_offset - offset == asked.asked or result.next_offset == next_offset
        compiled = get(store, offset, count, filter=SqlPullFilter(SqlFilter(expression)))
        assert (compiled.joined(), compiled.status) == (result.joined(), result.status)


async def test_a_filter_looks_at_no_more_messages_than_it_may() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        await fill_numbered(store, 100)
        none = get(store, 0, 32, filter=by("n = 60", scan_max=40))
        assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 40)
        assert get(store, 40, 32, filter=by("n = 60", scan_max=40)).count == 1


async def test_a_filter_ends_with_its_turn_and_has_looked_at_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyrocketmq.store.look_turn.LOOK_S_MAX", 0.0)
    async with open_store(memory_disk(), WIDE) as store:
        await fill_numbered(store, 100)
        asked = by("n = 99")
        assert get(store, 0, 32, filter=asked).next_offset == asked.asked == 32


async def test_a_filtered_answer_keeps_to_the_limit_of_bytes_and_has_one_message_at_least() -> None:
    config = store_config(commit_log_file_bytes=1 << 20, queue_file_bytes=20 * 2000, pull_bytes_max_in_memory=5000)
    async with open_store(memory_disk(), config) as store:
        await fill_numbered(store, 10, body=bytes(2000))
        first = get(store, 0, 32, filter=by("odd = 'yes'"))
        assert [record.queue_offset for record in read_records(first.joined())] == [1, 3]
        assert first.next_offset in (4, 5), "the third did not fit and comes with the next pull"
        put_ok(store, new_message(body=bytes(9000), more={"n": "1", "odd": "yes"}))
        assert get(store, 10, 32, filter=by("odd = 'yes'")).count == 1


async def test_a_filter_finds_the_same_in_many_files_cold_or_not() -> None:
    disk = memory_disk()
    config = store_config(commit_log_file_bytes=8192, queue_file_bytes=20 * 50)
    async with open_store(disk, config) as store:
        await fill_numbered(store, 200)
    async with open_store(disk, config) as store:
        for is_cold in (False, True):
            offset, offsets = 0, []
            while offset < 200:
                if is_cold:
                    disk.cool()
                result = await store.read_messages("TopicTest", 0, offset, 5, filter=by("odd = 'yes' AND n > 20"))
                assert result is not None
                offsets += [record.queue_offset for record in read_records(result.joined())]
                assert result.next_offset > offset
                offset = result.next_offset
            assert offsets == list(range(21, 200, 2))


async def test_extension_addresses_and_fillers_in_a_queue_are_understood() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        put_ok(store, new_message(tags="a"))
        queue = store.queue("TopicTest", 0)
        queue.put(1, FILLER)
        cell = queue.read_cell(0)
        assert cell is not None
        queue.put(2, CELL.pack(cell[0], cell[1], -(2**63) + 40))
        result = get(store, 0, tags=TagCodes({java_hash("other")}))
        assert (result.count, result.next_offset) == (1, 3)
        queue.end_at(0, erase=True)
        store.queues.dirty.clear()
        put_ok(store, new_message())


async def test_cold_messages_are_fetched_by_whoever_waits() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        for number in range(8):
            put_ok(store, new_message(queue_id=number % 2, body=b"%d" % number * 500))
    async with open_store(disk) as store:
        disk.cool()
        result = store.get_messages("TopicTest", 0, 0, 10)
        assert isinstance(result, Pending)
        found = await result.finish()
        assert [body[:1] for body in bodies(found)] == [b"0", b"2", b"4", b"6"]
        assert store.statistics.cold_reads == 1
        assert get(store, 0, 10).count == 4


async def test_a_filter_on_cold_messages_reads_in_blocks() -> None:
    disk = memory_disk()
    async with open_store(disk, WIDE) as store:
        for number in range(100):
            put_ok(store, new_message(body=b"%02d" % number))
    async with open_store(disk, WIDE) as store:
        disk.cool()
        found = await store.read_messages("TopicTest", 0, 0, 32, filter=Picky(lambda record: record[89:90] == b"7"))
        assert found is not None
        assert bodies(found) == [b"%d7" % tens if tens else b"07" for tens in range(10)]


async def test_messages_whose_log_file_is_gone_are_stepped_over() -> None:
    disk = memory_disk()
    config = store_config(queue_file_bytes=20 * 100)
    async with open_store(disk, config) as store:
        for number in range(12):
            put_ok(store, new_message(body=b"%02d" % number * 500))
    disk.unlink(config.root_path / "commitlog" / ("0" * 20))
    async with open_store(disk, config) as store:
        assert store.min_offset("TopicTest", 0) == 3
        assert get(store, 0).status is GetStatus.OFFSET_TOO_SMALL
        assert get(store, 3).count == 9
        store.queue("TopicTest", 0).min_offset = 0  # type: ignore[assignment]
        result = get(store, 0, 5)
        assert result.count == 2
        assert get(store, 0, 2).status is GetStatus.MESSAGE_WAS_REMOVING


async def test_a_slave_that_may_be_behind_keeps_the_offset_it_was_asked_for() -> None:
    disk = memory_disk()
    async with open_store(disk) as store:
        put_ok(store, new_message())
    slave = store_config(broker_role=BrokerRole.SLAVE)
    async with open_store(disk, slave) as store:
        assert store.put(new_message()).status.name == "SERVICE_NOT_AVAILABLE"
        assert get(store, 9).next_offset == 9
    async with open_store(disk, store_config(broker_role=BrokerRole.SLAVE, offset_check_in_slave=True)) as store:
        assert get(store, 9).next_offset == 1


async def test_reads_count() -> None:
    async with open_store(memory_disk(), clock=ManualClock()) as store:
        put_ok(store, new_message())
        get(store, 0)
        get(store, 1)
        assert (store.statistics.get_found, store.statistics.get_missed, store.statistics.get_count) == (1, 1, 1)
        assert store.statistics.put_count == 1
        assert store.statistics.put_bytes == store.log.max_offset
