"""JSON files of the broker: whole or as they were, with a backup that is always good."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from skyrocketmq.errors import StoreError
from skyrocketmq.store import ConfigFile
from skyrocketmq.testing.disk import FaultyDisk, PowerLost

PATH = Path("/store/config/consumerOffset.json")
BACKUP = Path("/store/config/consumerOffset.json.bak")


def disk_with(**files: bytes) -> FaultyDisk:
    disk = FaultyDisk(directories=[PATH.parent])
    for name, data in files.items():
        disk.replace(PATH if name == "file" else BACKUP, data)
    return disk


def test_the_text_is_written_as_apache_writes_it() -> None:
    disk = disk_with()
    ConfigFile(disk, PATH).save({"offsetTable": {"TopicTest@g1": {1: 7, 0: 5}}})
    assert disk.read(PATH) == b'{\n\t"offsetTable":{\n\t\t"TopicTest@g1":{0:5,1:7\n\t\t}\n\t}\n}'


def test_what_was_saved_is_loaded_and_the_one_before_is_the_backup() -> None:
    disk = disk_with()
    file = ConfigFile(disk, PATH)
    assert file.load_json() is None
    file.save({"a": 1})
    assert not disk.exists(BACKUP)
    file.save({"a": 2})
    assert ConfigFile(disk, PATH).load_json() == {"a": 2}
    assert disk.read(BACKUP) == b'{\n\t"a":1\n}'


@pytest.mark.parametrize("broken", [b"", b"  \n", b"{", b"\0\0\0\0", b'{"a":'])
def test_a_broken_file_is_replaced_by_its_backup(broken: bytes) -> None:
    disk = disk_with(file=broken, backup=b'{"a":1}')
    file = ConfigFile(disk, PATH)
    assert file.load_json() == {"a": 1}
    file.save({"a": 2})
    assert disk.read(BACKUP) == b'{"a":1}', "the broken one must not become the backup"
    file.save({"a": 3})
    assert disk.read(BACKUP) == b'{\n\t"a":2\n}'


def test_a_missing_file_is_replaced_by_its_backup() -> None:
    assert ConfigFile(disk_with(backup=b'{"offsetTable":{"t@g":{0:5}}}'), PATH).load_json() == {
        "offsetTable": {"t@g": {"0": 5}}
    }


def test_two_broken_files_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(StoreError, match=r"consumerOffset.json: .*consumerOffset.json.bak: ") as caught:
        ConfigFile(disk_with(file=b"{", backup=b""), PATH).load_json()
    assert any("by hand" in note for note in caught.value.__notes__)


def test_a_power_cut_at_any_call_leaves_the_old_content_or_the_new() -> None:
    for crash_at in range(1, 40):
        disk = disk_with(file=b'{"a":1}', backup=b'{"a":0}')
        disk.crash_at = len(disk.calls) + crash_at - 1
        try:
            ConfigFile(disk, PATH).save({"a": 2})
        except PowerLost:
            for seed in (None, 1, 2, 3):
                survivor = disk.after_power_loss(seed)
                assert ConfigFile(survivor, PATH).load_json() in ({"a": 1}, {"a": 2}), (crash_at, seed)
        else:
            assert crash_at > 6
            break


def test_a_failed_save_leaves_the_file_as_it_was() -> None:
    disk = disk_with(file=b'{"a":1}')
    file = ConfigFile(disk, PATH)
    disk.fail("pwrite", error=errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        file.save({"a": 2})
    assert file.load_json() == {"a": 1}
    file.save({"a": 2})
    assert file.load_json() == {"a": 2}


def test_the_directory_is_made_when_needed() -> None:
    disk = FaultyDisk(directories=[Path("/store")])
    ConfigFile(disk, PATH).save({})
    assert disk.read(PATH) == b"{}"
