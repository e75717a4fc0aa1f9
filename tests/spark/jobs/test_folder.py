"""Folders: of this machine, and through Spark's own libraries, which must do the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.errors import IllegalArgument, StoreError, StoreLocked
from skyrocketmq.ports import LocalDisk
from skyrocketmq.spark.jobs.folder import FileStatus, Folder, LocalFolder, SparkFolder, folder_at
from skyrocketmq.spark.jobs.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.system


@pytest.fixture(params=["local", "spark"])
def folder(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Folder:
    root = tmp_path / "a b"
    if request.param == "spark":
        return SparkFolder(spark, f"file://{root}")
    return LocalFolder(LocalDisk(threads=1), root)


def test_small_files_are_made_replaced_and_deleted(folder: Folder) -> None:
    assert folder.read("x/one") is None
    assert folder.names("x") == []
    assert folder.files("x") == []
    folder.create("x/one", b"1")
    with pytest.raises(StoreLocked, match="another run has written it"):
        folder.create("x/one", b"2")
    assert folder.read("x/one") == b"1"
    folder.replace("x/one", b"\x00\xff")
    folder.replace("x/two", b"22")
    assert folder.read("x/one") == b"\x00\xff"
    assert folder.names("x") == ["one", "two"]
    folder.delete("x/one")
    folder.delete("x/one")
    assert folder.names("x") == ["two"]
    folder.delete("x")
    assert folder.names("") == []


def test_files_are_listed_and_moved_more_than_once(folder: Folder) -> None:
    for name in ("s/topic=a/day=1/p", "s/_SUCCESS", "s/topic=a/day=1/.p.crc", "s/_x=1/q"):
        folder.replace(name, b"123")
    listed = folder.files("s")
    assert [(status.name, status.size) for status in listed] == [("s/_x=1/q", 3), ("s/topic=a/day=1/p", 3)]
    assert all(isinstance(status, FileStatus) and status.modified_ms > 1_600_000_000_000 for status in listed)
    folder.make_durable("s/topic=a/day=1/p")
    for _ in range(2):
        folder.move("s/topic=a/day=1/p", "topic=a/day=1/p")
    assert folder.read("topic=a/day=1/p") == b"123"
    assert folder.url("topic=%25").endswith("/a%20b/topic=%2525")
    assert folder.path("x").endswith("/a b/x")


def test_the_last_commit_counts(folder: Folder) -> None:
    ledger = Ledger(folder, "_job", kind="test")
    assert (ledger.number, ledger.latest()) == (0, None)
    for number in range(8):
        ledger.commit({"n": number})
    rival = Ledger(folder, "_job", kind="test")
    assert rival.latest() == {"kind": "test", "n": 7}
    assert len(folder.names("_job")) == 5
    ledger.commit({"n": 8})
    with pytest.raises(StoreLocked):
        rival.commit({"n": 9})
    for number in range(9, 16):
        ledger.commit({"n": number})
    with pytest.raises(StoreLocked, match="was written to by another run"):
        rival.commit({"n": 9})  # the number that it would take is free again
    with pytest.raises(StoreError, match="belongs to the job test, not to other"):
        Ledger(folder, "_job", kind="other").latest()
    folder.replace("_job/commit-00000099.json", b"{")
    with pytest.raises(StoreError, match="is no commit of a job"):
        Ledger(folder, "_job", kind="test").latest()


def test_a_file_system_that_spark_does_not_know_is_named(spark: SparkSession) -> None:
    with pytest.raises(IllegalArgument, match=r"gopher://x/y cannot be used: .*gopher"):
        folder_at(spark, "gopher://x/y")
    with pytest.raises(IllegalArgument, match="the path is empty"):
        folder_at(spark, " ")
