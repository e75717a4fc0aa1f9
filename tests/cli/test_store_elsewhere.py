"""`skyrocketmq store` where the log is not below the store's directory, or not there at all: nothing is made worse."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from skyrocketmq.ports import LocalDisk
from tests.cli.test_store import break_queue_cell, root, run, tree

__all__ = ["root"]  # the fixture


@pytest.fixture
def elsewhere(root: Path) -> Path:
    """Where the log of the store was moved to."""
    target = root.parent / "log"
    shutil.move(root / "commitlog", target)
    return target


@pytest.fixture
def config(root: Path, elsewhere: Path) -> Path:
    path = root.parent / "broker.conf"
    path.write_text(f"storePathRootDir={root}\nstorePathCommitLog={elsewhere}\nmappedFileSizeCommitLog=16384\n")
    return path


@pytest.mark.parametrize("command", [["check"], ["repair", "--yes"], ["dump"]], ids=lambda command: command[0])
@pytest.mark.parametrize("is_crashed", [False, True], ids=["clean", "crashed"])
@pytest.mark.parametrize("has_checkpoint", [False, True], ids=["no checkpoint", "checkpoint"])
@pytest.mark.usefixtures("elsewhere")
def test_a_store_whose_log_is_not_there_is_refused_and_stays_as_it_is(
    command: list[str], is_crashed: bool, has_checkpoint: bool, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_crashed:
        (root / "abort").touch()
    if not has_checkpoint:
        (root / "checkpoint").unlink()
        (root / "checkpoint.json").unlink()
    before, directories = tree(root), sorted(root.rglob("*"))
    code, out, err = run(capsys, command[0], root, *command[1:])
    assert (code, out) == (2, "")
    assert f"there is no log in {root / 'commitlog'}" in err
    assert "-c" in err
    assert tree(root) == before
    assert sorted(root.rglob("*")) == directories, "not even an empty directory was made"


def test_with_the_configuration_the_log_is_found_even_beside_an_empty_one(
    root: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "commitlog").mkdir()
    code, out, err = run(capsys, "check", root, "-c", config)
    assert code == 0, err
    assert "messages     200 good, 0 lost" in out


def test_with_the_configuration_the_log_is_found_even_beside_another_one(
    root: Path, config: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "commitlog").mkdir()
    (root / "commitlog" / ("0" * 20)).write_bytes(bytes(16384))
    break_queue_cell(root)
    log = tree(elsewhere)
    code, out, err = run(capsys, "repair", root, "--yes", "-c", config)
    assert code == 0, err
    assert "messages     200 good, 0 lost" in out
    assert tree(elsewhere) == log


def test_a_key_on_the_command_line_tells_where_the_log_is_too(
    root: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "check", root, "--set", f"storePathCommitLog={elsewhere}")
    assert code == 0, err
    assert "messages     200 good, 0 lost" in out


def test_a_copy_with_a_log_of_its_own_never_touches_the_log_of_the_original(
    root: Path, config: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    shutil.copytree(elsewhere, copy / "commitlog")
    code, _, err = run(capsys, "repair", copy, "--yes", "-c", config)
    assert code == 2
    assert "both" in err
    assert run(capsys, "check", copy)[0] == 0


def test_a_log_that_a_broker_writes_to_is_left_alone(
    root: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    disk = LocalDisk()
    lock = disk.lock(root / "lock")
    code, _, err = run(capsys, "repair", copy, "--yes", "-c", config)
    lock.release()
    disk.close()
    assert code == 2
    assert "is locked" in err


def test_a_log_below_the_store_s_directory_has_moved_with_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = root.parent / "broker.conf"
    config.write_text(f"storePathRootDir={root}\nstorePathCommitLog={root}/commitlog\nmappedFileSizeCommitLog=16384\n")
    moved = root.parent / "moved"
    root.rename(moved)
    code, out, err = run(capsys, "check", moved, "-c", config)
    assert code == 0, err
    assert "messages     200 good, 0 lost" in out


@pytest.mark.parametrize("is_mount_point", [False, True])
def test_a_log_of_which_one_directory_is_not_mounted_is_refused(
    is_mount_point: bool, root: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = root.parent / "second"
    if is_mount_point:
        second.mkdir()
    sorted(elsewhere.iterdir())[1].unlink()
    before = tree(root)
    code, _, err = run(capsys, "repair", root, "--yes", "--set", f"storePathCommitLog={elsewhere},{second}")
    assert code == 2
    assert f"the part of the log in {second} is not there" in err
    assert tree(root) == before
