"""Messages in memory that a filter wants: the same as the careful way gives, in one go."""

from __future__ import annotations

import pytest

from skyrocketmq.filters import SqlFilter
from skyrocketmq.store import GetResult, GetStatus, MessageStore
from skyrocketmq.store.file_rows import file_name
from skyrocketmq.wire.properties import encode_properties
from tests.store.reader import read_records
from tests.store.support import memory_disk, new_message, open_store, put_ok, store_config

WIDE = store_config(commit_log_file_bytes=1 << 20, queue_file_bytes=20 * 2000)


class Asked:
    """An expression, asked of the store in both ways. It counts the records that were looked at one by one."""

    def __init__(self, expression: str) -> None:
        self._sql = SqlFilter(expression)
        self.count = 0

    def matches(self, record: bytes | memoryview) -> bool:
        self.count += 1
        [found] = read_records(bytes(record))
        return self._sql.matches_text(encode_properties(found.properties))

    def get(self, store: MessageStore, offset: int, count: int, *, is_quick: bool, scan_max: int = 2000) -> GetResult:
        scan = self._sql.scan if is_quick else None
        result = store.get_messages("TopicTest", 0, offset, count, matches=self.matches, scan=scan, scan_max=scan_max)
        assert isinstance(result, GetResult), "everything is in memory"
        return result


def seen(result: GetResult) -> tuple[object, ...]:
    return result.status, result.next_offset, result.max_offset, result.count, result.byte_count, result.joined()


def fill(store: MessageStore, count: int, *, body: bytes = b"body") -> None:
    for number in range(count):
        put_ok(store, new_message(body=body, more={"n": str(number), "odd": "yes" if number % 2 else "no"}))
        put_ok(store, new_message(queue_id=1))  # so that the others do not lie together


@pytest.mark.parametrize(
    ("expression", "offset", "count", "scan_max"),
    [
        ("n >= 0", 0, 32, 2000),
        ("n >= 0", 17, 300, 2000),
        ("odd = 'yes'", 0, 32, 2000),
        ("odd = 'yes' AND n BETWEEN 70 AND 90", 10, 32, 2000),
        ("n = 250", 0, 1, 2000),  # behind the cells that are looked at first
        ("n = 299", 0, 32, 2000),
        ("n = 1000", 0, 32, 2000),
        ("n = 40", 0, 32, 40),
        ("n < n OR n = 7", 0, 32, 2000),  # not quick: asked one by one
    ],
)
async def test_both_ways_give_the_same(expression: str, offset: int, count: int, scan_max: int) -> None:
    async with open_store(memory_disk(), WIDE) as store:
        fill(store, 300)
        asked = Asked(expression)
        careful = asked.get(store, offset, count, is_quick=False, scan_max=scan_max)
        assert seen(asked.get(store, offset, count, is_quick=True, scan_max=scan_max)) == seen(careful)


async def test_records_of_a_known_layout_are_not_asked_one_by_one() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        fill(store, 100)
        asked = Asked("odd = 'yes'")
        asked.get(store, 0, 4, is_quick=True)
        assert asked.count == 8
        assert asked.get(store, 0, 32, is_quick=True).count == 32
        assert asked.count == 8


async def test_messages_that_lie_together_leave_as_a_slice_of_the_log() -> None:
    async with open_store(memory_disk(), WIDE) as store:
        for number in range(40):
            put_ok(store, new_message(more={"n": str(number)}))
        [part] = Asked("n > 3").get(store, 0, 10, is_quick=True).parts
        assert isinstance(part, memoryview)


async def test_an_answer_keeps_to_the_limit_of_bytes_and_has_one_message_at_least() -> None:
    config = store_config(commit_log_file_bytes=1 << 20, queue_file_bytes=20 * 2000, pull_bytes_max_in_memory=5000)
    async with open_store(memory_disk(), config) as store:
        fill(store, 10, body=bytes(2000))
        asked = Asked("odd = 'yes'")
        first = asked.get(store, 0, 32, is_quick=True)
        assert (first.count, first.next_offset) == (2, 4)
        assert [record.queue_offset for record in read_records(first.joined())] == [1, 3]
        put_ok(store, new_message(body=bytes(9000), more={"n": "1", "odd": "yes"}))
        large = asked.get(store, 10, 32, is_quick=True)
        assert (large.status, large.count) == (GetStatus.FOUND, 1)


async def test_where_a_log_file_ends_both_ways_give_the_same() -> None:
    config = store_config(commit_log_file_bytes=8192, queue_file_bytes=20 * 50)
    async with open_store(memory_disk(), config) as store:
        fill(store, 200)
        for expression in ("odd = 'yes'", "n > 150"):
            taken: dict[bool, list[int]] = {}
            for is_quick in (False, True):
                offset, offsets = 0, []
                while offset < 200:
                    result = Asked(expression).get(store, offset, 5, is_quick=is_quick)
                    offsets += [record.queue_offset for record in read_records(result.joined())]
                    assert result.next_offset > offset
                    offset = result.next_offset
                taken[is_quick] = offsets
            assert taken[True] == taken[False]


async def test_messages_of_an_earlier_process_are_looked_at_before_they_are_given() -> None:
    disk = memory_disk()
    async with open_store(disk, WIDE) as store:
        fill(store, 20)
        [damaged] = read_records(Asked("n = 6").get(store, 6, 1, is_quick=True).joined())
    file = disk.open(WIDE.root_path / "commitlog" / file_name(0))
    file.pwrite(b"x", damaged.log_offset + 88)
    file.close()
    async with open_store(disk, WIDE) as store:
        asked = Asked("n BETWEEN 4 AND 8")
        for _ in range(2):
            result = asked.get(store, 0, 32, is_quick=True)
            assert [record.queue_offset for record in read_records(result.joined())] == [4, 5, 7, 8]
        assert store.log.bad_records.count == 1
