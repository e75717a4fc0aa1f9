"""Who may read the files that servers write: their owner and his group, and of secrets the owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocketmq.access.accounts import AccessTable
from skyrocketmq.access.files import AccessFiles
from skyrocketmq.config import ConfigHolder, load_broker_config
from skyrocketmq.embedded import Embedded
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.wire.bodies_admin import AccountConfig

ACCOUNT = AccountConfig(access_key="account-1", secret_key="a-secret")


@pytest.fixture
def disk() -> Iterator[LocalDisk]:
    disk = LocalDisk(threads=1)
    before = os.umask(0o022)
    yield disk
    os.umask(before)
    disk.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664])
def test_a_file_keeps_its_mode_when_it_is_replaced(disk: LocalDisk, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"before")
    path.chmod(kept)
    disk.replace(path, b"after", keep_backup=True)
    assert (mode(path), mode(tmp_path / "broker.conf.bak")) == (kept, kept)
    assert (path.read_bytes(), (tmp_path / "broker.conf.bak").read_bytes()) == (b"after", b"before")


def test_new_files_are_for_owner_and_group_and_secret_ones_for_the_owner(disk: LocalDisk, tmp_path: Path) -> None:
    disk.make_directories(tmp_path / "a" / "b")
    disk.replace(tmp_path / "a" / "table.json", b"")
    disk.replace(tmp_path / "a" / "secret.yml", b"", is_secret=True)
    disk.open(tmp_path / "a" / "log", create=True).close()
    disk.lock(tmp_path / "a" / "lock").release()
    assert {name: oct(mode(tmp_path / "a" / name)) for name in disk.list(tmp_path / "a")} == {
        "b": "0o750",
        "lock": "0o640",
        "log": "0o640",
        "secret.yml": "0o600",
        "table.json": "0o640",
    }
    assert mode(tmp_path / "a") == 0o750


def test_what_a_crash_left_neither_blocks_nor_is_written_through(disk: LocalDisk, tmp_path: Path) -> None:
    path, victim = tmp_path / "broker.conf", tmp_path / "victim"
    victim.write_bytes(b"not ours")
    (tmp_path / "broker.conf.tmp").write_bytes(b"half")
    disk.replace(path, b"whole")
    (tmp_path / "broker.conf.tmp").symlink_to(victim)
    disk.replace(path, b"again")
    assert (path.read_bytes(), victim.read_bytes()) == (b"again", b"not ours")
    assert not path.is_symlink()
    assert disk.list(tmp_path) == ["broker.conf", "victim"]


def test_a_file_in_the_place_of_a_directory_is_an_error(disk: LocalDisk, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        disk.make_directories(tmp_path / "file")


def test_accounts_stay_with_their_owner(disk: LocalDisk, tmp_path: Path) -> None:
    files = AccessFiles(tmp_path / "conf" / "plain_acl.yml", disk=disk, clock=SystemClock())
    table: AccessTable = files.load()
    assert mode(files.path) == 0o600
    files.put_account(table, ACCOUNT)
    assert mode(files.path) == 0o600


async def test_a_configuration_stays_with_its_owner(disk: LocalDisk, tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("tls.server.keyPassword=hunter2\n")
    path.chmod(0o600)
    await ConfigHolder(load_broker_config(path, {}), disk=disk, clock=SystemClock()).update({"traceOn": "false"})
    assert (mode(path), mode(tmp_path / "broker.conf.bak")) == (0o600, 0o600)


async def test_nothing_of_a_cluster_is_for_everybody(disk: LocalDisk, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    async with Embedded.open(directory, disk=disk):
        pass
    found = [path for path in (directory, *directory.rglob("*")) if mode(path) & 0o007]
    assert found == []
    assert mode(directory / "broker-a.conf") == 0o600
