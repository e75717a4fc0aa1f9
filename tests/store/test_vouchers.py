"""Vouchers by themselves: what is written, what is believed, and when a file may go."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import DiskFull
from skyrocketmq.store.vouchers import ENTRY_BYTES, OFFSETS_MAX, Ranges, Vouchers, matching_ranges, read_vouchers
from skyrocketmq.testing import FaultyDisk
from skyrocketmq.testing.disk import FaultyFile

PLACE = Path("/store/vouchers")
LOG = bytes(range(256)) * 16


class WatchedDisk(FaultyDisk):
    """Knows which of its files are open."""

    def __init__(self) -> None:
        super().__init__(directories=[PLACE])
        self.opened: list[FaultyFile] = []

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> FaultyFile:
        self.opened.append(super().open(path, create=create, writable=writable))
        return self.opened[-1]

    @property
    def open_count(self) -> int:
        count = 0
        for file in self.opened:
            with suppress(OSError):
                count += file.size() >= 0
        return count


def new_disk() -> FaultyDisk:
    return FaultyDisk(directories=[PLACE])


def read_log(begin: int, end: int) -> bytes:
    return LOG[begin:end]


def entry(begin: int, end: int) -> tuple[int, int, int]:
    return begin, end - begin, crc32(LOG[begin:end])


def sync(vouchers: Vouchers) -> None:
    work = vouchers.take_unsynced()
    assert work is not None
    work()


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=12), st.integers(0, 80), st.integers(1, 20))
def test_ranges_cover_what_lies_within_one_stretch_without_a_gap(
    parts: list[tuple[int, int]], begin: int, length: int
) -> None:
    ranges = Ranges()
    covered: set[int] = set()
    for at, size in sorted(parts):
        ranges.add(at, at + size)
        covered |= set(range(at, at + size))
    assert ranges.cover(begin, begin + length) == (set(range(begin, begin + length)) <= covered)


def test_entries_are_read_as_they_were_written_and_a_torn_one_is_none() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    vouchers.vouch(10, LOG[10:30])
    vouchers.vouch(30, LOG[30:31])
    vouchers.close()
    assert read_vouchers(disk, PLACE) == [entry(10, 30), entry(30, 31)]
    (name,) = disk.list(PLACE)
    whole = disk.read(PLACE / name)
    assert len(whole) == 2 * ENTRY_BYTES
    for cut in range(1, ENTRY_BYTES):
        disk.replace(PLACE / name, whole[:-cut])
        assert read_vouchers(disk, PLACE) == [entry(10, 30)]
    for at in range(ENTRY_BYTES, 2 * ENTRY_BYTES):
        disk.replace(PLACE / name, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert read_vouchers(disk, PLACE) == [entry(10, 30)]


def test_behind_a_torn_entry_of_an_earlier_life_the_next_one_is_found() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    vouchers.vouch(10, LOG[10:30])
    vouchers.close()
    (name,) = disk.list(PLACE)
    for torn in (b"", b"\1", b"\1" * (ENTRY_BYTES - 1), b"\1" * ENTRY_BYTES):
        disk.replace(PLACE / name, disk.read(PLACE / name)[:ENTRY_BYTES] + torn)
        again = Vouchers(disk, PLACE)
        again.vouch(30, LOG[30:50])
        again.close()
        assert read_vouchers(disk, PLACE) == [entry(10, 30), entry(30, 50)]


def test_bytes_are_believed_where_one_of_their_entries_matches() -> None:
    other = (40, 20, crc32(b"something else"))
    ranges = matching_ranges([entry(60, 80), other, entry(40, 60), (90, 0, 0), entry(10, 20)], read_log)
    assert ranges.cover(40, 80)
    assert ranges.cover(10, 20)
    assert not ranges.cover(10, 21)
    assert not ranges.cover(90, 90), "an entry of nothing says nothing"
    assert not matching_ranges([other], read_log).cover(40, 41)


def test_entries_are_durable_once_they_are_synced_and_are_not_synced_twice() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    assert vouchers.take_unsynced() is None
    vouchers.vouch(10, LOG[10:30])
    vouchers.vouch(30, LOG[30:50])
    sync(vouchers)
    assert disk.count("fdatasync", "*") == 1
    assert disk.count("sync_directory", "*") == 1, "the name is new"
    assert vouchers.take_unsynced() is None
    vouchers.vouch(50, LOG[50:60])
    sync(vouchers)
    assert disk.count("sync_directory", "*") == 1, "and known from then on"
    vouchers.vouch(60, LOG[60:70])
    assert len(read_vouchers(disk.after_power_loss(), PLACE)) == 3


def test_a_file_goes_with_the_checkpoint_that_covers_it_and_not_before() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    vouchers.vouch(10, LOG[10:30])
    vouchers.begin(100)
    vouchers.vouch(100, LOG[100:120])
    assert read_vouchers(disk, PLACE) == [entry(10, 30), entry(100, 120)]
    sync(vouchers)
    assert disk.count("fdatasync", "*") == 2, "the older file too: its checkpoint is not there yet"
    vouchers.drop_old()
    assert read_vouchers(disk, PLACE) == [entry(100, 120)]
    vouchers.begin(100)
    vouchers.vouch(120, LOG[120:130])
    assert len(disk.list(PLACE)) == 1, "nothing came since the last checkpoint, and the file is the same"
    assert read_vouchers(disk, PLACE) == [entry(100, 120), entry(120, 130)]
    vouchers.close()


def test_files_that_are_not_needed_are_neither_synced_nor_left_open() -> None:
    disk = WatchedDisk()
    vouchers = Vouchers(disk, PLACE)
    for begin in (0, 100, 200, 300):
        vouchers.begin(begin)
        vouchers.vouch(begin, LOG[begin : begin + 10])
        vouchers.drop_old()
    syncs = disk.count("fdatasync", "*")
    sync(vouchers)
    assert disk.count("fdatasync", "*") - syncs == 2, "the present one, and the one that was dropped last"
    assert disk.open_count == 2, "those of the checkpoints before are closed: nobody can be syncing them"
    vouchers.begin(400)
    vouchers.close()
    assert disk.open_count == 0
    vouchers.close()
    assert vouchers.take_unsynced() is None


def test_old_files_that_cannot_be_deleted_wait_for_the_next_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    vouchers.vouch(10, LOG[10:30])
    vouchers.begin(100)
    disk.fail("unlink")
    vouchers.drop_old()
    assert "old vouchers not deleted" in caplog.text
    assert read_vouchers(disk, PLACE) == [entry(10, 30)]
    vouchers.drop_old()
    assert read_vouchers(disk, PLACE) == []
    vouchers.close()


def test_without_room_for_an_entry_nothing_is_vouched_for() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    disk.fail("pwrite", error=errno.ENOSPC)
    with pytest.raises(DiskFull):
        vouchers.vouch(10, LOG[10:30])
    vouchers.vouch(10, LOG[10:20])
    vouchers.close()
    assert read_vouchers(disk, PLACE) == [entry(10, 20)]


def test_where_the_log_is_cut_the_part_that_stays_is_vouched_for_again() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    vouchers.begin(8)
    vouchers.vouch_again(20, read_log)
    assert read_vouchers(disk, PLACE) == [], "nothing was said of these bytes, so nothing need be said again"
    vouchers.vouch(10, LOG[10:30])
    vouchers.vouch(30, LOG[30:50])
    vouchers.vouch_again(50, read_log)
    assert read_vouchers(disk, PLACE)[2:] == [entry(30, 50)]
    vouchers.vouch_again(40, read_log)
    assert read_vouchers(disk, PLACE)[3:] == [entry(30, 40)]
    vouchers.vouch_again(30, read_log)
    assert len(read_vouchers(disk, PLACE)) == 4, "of what begins there nothing stays"
    vouchers.vouch(20, LOG[20:25])
    vouchers.vouch_again(24, read_log)
    assert read_vouchers(disk, PLACE)[5:] == [entry(20, 24)], "what followed was dropped, and is forgotten"
    vouchers.vouch_again(9, read_log)
    assert read_vouchers(disk, PLACE)[6:] == [entry(8, 9)], "before all of them, from where the file begins"
    vouchers.close()


def test_a_cut_before_the_newest_entries_goes_back_to_where_the_file_begins() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    for at in range(OFFSETS_MAX + 2):
        vouchers.vouch(2 + at, b"x")
    vouchers.vouch_again(3, read_log)
    vouchers.close()
    assert read_vouchers(disk, PLACE)[-1] == entry(0, 3)


def test_a_start_keeps_what_it_finds_whole_and_nothing_of_another_programs_life() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    vouchers.vouch(10, LOG[10:30])
    vouchers.close()
    disk.replace(PLACE / "00000000000000000100", b"torn")
    left = disk.after_kill()
    Vouchers(left, PLACE).carry_over()
    assert len(left.list(PLACE)) == 1
    survived = left.after_power_loss()
    assert read_vouchers(survived, PLACE) == [entry(10, 30)]
    Vouchers(survived, PLACE).forget()
    assert survived.list(PLACE) == []


def test_where_a_start_cuts_the_log_the_part_that_stays_is_vouched_for_durably() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    for begin, end in ((10, 30), (30, 60), (60, 90)):
        vouchers.vouch(begin, LOG[begin:end])
    vouchers.vouch(40, b"of another life, and written over")
    vouchers.close()
    left = disk.after_kill()
    before = read_vouchers(left, PLACE)
    Vouchers(left, PLACE).shorten(60, read_log)
    assert read_vouchers(left, PLACE) == before, "no entry spans this place"
    Vouchers(left, PLACE).shorten(50, read_log)
    assert read_vouchers(left.after_power_loss(), PLACE) == [*before, entry(30, 50)]


def test_a_file_that_was_being_replaced_is_not_read_and_goes_with_the_next_start() -> None:
    disk = new_disk()
    vouchers = Vouchers(disk, PLACE)
    vouchers.vouch(10, LOG[10:30])
    vouchers.close()
    name = disk.list(PLACE)[0]
    disk.replace(PLACE / f"{name}.tmp", disk.read(PLACE / name))
    assert read_vouchers(disk, PLACE) == [entry(10, 30)]
    Vouchers(disk, PLACE).carry_over()
    assert disk.list(PLACE) == [name]
    assert read_vouchers(disk, PLACE) == [entry(10, 30)]
