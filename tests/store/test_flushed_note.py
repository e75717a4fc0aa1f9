"""The note of how far the log was synced: believed only if it is whole, and by its own writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocketmq.store.flushed_note import NOTE_BYTES, FlushedNote, read_flushed
from skyrocketmq.testing import FaultyDisk

PATH = Path("/store/flushed")
OWNER, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_the_newest_note_counts_for_its_writer_alone() -> None:
    disk = FaultyDisk(directories=[PATH.parent])
    assert read_flushed(disk, PATH, OWNER) == 0
    note = FlushedNote(disk, PATH)
    note.begin(OWNER)
    for offset in (1, 2**40):
        note.write(offset)
        assert read_flushed(disk, PATH, OWNER) == offset
    assert read_flushed(disk, PATH, OTHER) == 0
    note.close()
    note.close()


def test_a_note_that_is_damaged_anywhere_is_none() -> None:
    disk = FaultyDisk(directories=[PATH.parent])
    note = FlushedNote(disk, PATH)
    note.begin(OWNER)
    note.write(4096)
    note.close()
    whole = disk.read(PATH)
    assert len(whole) == NOTE_BYTES
    damaged = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(NOTE_BYTES)]
    for data in (b"", whole[:-1], whole + b"\0", *damaged):
        disk.replace(PATH, data)
        assert read_flushed(disk, PATH, OWNER) == 0


def test_a_note_is_durable_when_it_was_synced_and_never_goes_down() -> None:
    disk = FaultyDisk(directories=[PATH.parent])
    note = FlushedNote(disk, PATH)
    note.begin(OWNER)
    note.write(200)
    disk.fail("fdatasync", path=str(PATH))
    with pytest.raises(OSError, match="flushed"):
        note.sync(100)
    note.sync(100)
    disk.sync_directory(PATH.parent)
    note.write(300)
    assert read_flushed(disk.after_power_loss(), PATH, OWNER) == 200
