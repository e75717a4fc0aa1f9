"""Extension files of consume queues: Apache's layout, and never a unit that is wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from skyrocketmq.store.consume_queue import CELL, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.queue_extension import EXT_ADDRESS_MAX, ExtensionUnit, QueueExtensions
from skyrocketmq.testing import FaultyDisk

ROOT = Path("/store")
EXT = ROOT / "consumequeue_ext"
FILE_BYTES = 128
BASE = -(2**63)


class Row:
    """One queue, its cells and its units, over one or several lives."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.queues = ConsumeQueues(disk, ROOT / "consumequeue", file_bytes=2000)
        self.queue: ConsumeQueue = self.queues.get("T", 0)
        self.extensions = QueueExtensions(disk, EXT, file_bytes=FILE_BYTES)

    def put(self, *, tags_code: int = 7, store_ms: int = 1000, bit_map: bytes = b"") -> int:
        self.extensions.bit_map_of = lambda topic, properties: bit_map
        address = self.extensions.extend(self.queue, b"", tags_code, store_ms)
        self.queue.put(int(self.queue.max_offset), CELL.pack(100 * int(self.queue.max_offset), 100, address))
        return address

    def reopened(self, *, is_clean: bool = True) -> Row:
        self.queue.write_out()
        self.extensions.close()
        self.queues.close()
        count = int(self.queue.max_offset)
        again = Row(self.disk)
        if not is_clean:
            again.extensions.give_up_all()
        again.queue.load(is_clean=True)
        again.queue.end_at(count, erase=False)
        return again

    @property
    def files(self) -> list[str]:
        return list(self.disk.list(EXT / "T" / "0"))


@pytest.fixture
def row() -> Row:
    return Row(FaultyDisk(directories=[ROOT]))


def test_a_unit_is_found_by_its_address(row: Row) -> None:
    first = row.put(tags_code=-5, store_ms=1_700_000_000_000, bit_map=b"\x01\x02")
    second = row.put(tags_code=9, store_ms=3)
    assert (first, second) == (BASE, BASE + 22)
    assert max(first, second) <= EXT_ADDRESS_MAX
    assert row.extensions.find(row.queue, first) == ExtensionUnit(-5, 1_700_000_000_000, b"\x01\x02")
    assert row.extensions.find(row.queue, second) == ExtensionUnit(9, 3, b"")
    assert row.extensions.find(row.queue, second + 20) is None
    assert row.extensions.find(row.queue, BASE + 5 * FILE_BYTES) is None


def test_the_bytes_are_apaches(row: Row) -> None:
    row.put(tags_code=-5, store_ms=1_700_000_000_000, bit_map=bytes(range(14)))
    data = row.disk.read(EXT / "T" / "0" / ("0" * 20))
    assert data[:34] == struct.pack(">hqqh", 34, -5, 1_700_000_000_000, 14) + bytes(range(14))
    assert data[34:] == bytes(FILE_BYTES - 34)


def test_a_unit_lies_in_one_file_and_the_end_of_a_file_is_marked(row: Row) -> None:
    addresses = [row.put(bit_map=bytes([number] * 10)) for number in range(9)]  # four of 30 bytes and 4 spare fit
    assert [address - BASE for address in addresses] == [0, 30, 60, 90, 128, 158, 188, 218, 256]
    assert row.disk.read(EXT / "T" / "0" / ("0" * 20))[120:122] == b"\xff\xff"
    for number, address in enumerate(addresses):
        assert row.extensions.find(row.queue, address) == ExtensionUnit(7, 1000, bytes([number] * 10))


def test_after_a_clean_stop_units_go_on_behind_the_last(row: Row) -> None:
    addresses = [row.put(bit_map=b"a"), row.put(bit_map=b"b")]
    again = row.reopened()
    addresses.append(again.put(bit_map=b"c"))
    assert [address - BASE for address in addresses] == [0, 21, 42]
    assert [again.extensions.find(again.queue, address) for address in addresses] == [
        ExtensionUnit(7, 1000, each) for each in (b"a", b"b", b"c")
    ]


def test_after_a_crash_no_old_unit_is_believed_and_no_address_is_used_twice(row: Row) -> None:
    old = [row.put(bit_map=b"a") for _ in range(8)]
    again = row.reopened(is_clean=False)
    assert [again.extensions.find(again.queue, address) for address in old] == [None] * 8
    new = again.put(bit_map=b"b")
    assert new > max(old)
    assert again.extensions.find(again.queue, new) == ExtensionUnit(7, 1000, b"b")
    third = again.reopened(is_clean=False)
    assert third.put(bit_map=b"c") > new
    assert [third.extensions.find(third.queue, address) for address in (*old, new)] == [None] * 9


def test_without_units_for_the_last_messages_the_next_begin_a_file(row: Row) -> None:
    row.put(bit_map=b"a")
    row.queue.put(1, CELL.pack(100, 100, 7))  # as recovery writes it, or a broker with extensions switched off
    again = row.reopened()
    assert again.put(bit_map=b"b") - BASE == FILE_BYTES


def test_a_disk_that_fails_costs_the_unit_and_not_the_message(row: Row) -> None:
    big = b"x" * 40_000
    row.extensions.bit_map_of = lambda topic, properties: big
    assert row.extensions.extend(row.queue, b"", 7, 1000) == 7
    assert row.put(bit_map=b"a") <= EXT_ADDRESS_MAX


def test_units_that_no_cell_holds_are_deleted_by_the_file(row: Row) -> None:
    for _ in range(9):
        row.put(bit_map=bytes(10))
    assert len(row.files) == 3
    row.extensions.clean()
    assert len(row.files) == 3
    row.queue.correct_min_offset(500)
    row.extensions.clean()
    assert [int(name) for name in row.files] == [128, 256]
    row.queue.clear()
    row.extensions.clean()
    assert row.files == []
    assert row.put(bit_map=b"a") == BASE
