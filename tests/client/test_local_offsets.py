"""The file of a broadcasting consumer: Java's form, its fall-back, and what a power cut leaves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocketmq.client.local_offsets import LocalOffsets, local_offsets_root
from skyrocketmq.errors import StoreError
from skyrocketmq.model import MessageQueue
from skyrocketmq.ports import LocalDisk

from .queues import queues_of

Q0, Q1, Q2 = queues_of("broker-a", each=3)

JAVAS_FILE = b"""{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":1,
\t\t\t"topic":"T"
\t\t}:6,{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:5
\t}
}"""
OURS = b"""{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"T"
\t\t}:5,{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":1,
\t\t\t"topic":"T"
\t\t}:6
\t}
}"""


@pytest.fixture
def disk() -> Iterator[LocalDisk]:
    disk = LocalDisk()
    yield disk
    disk.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "10.0.0.1@DEFAULT" / "news" / "offsets.json"


def offsets_in(tmp_path: Path, disk: LocalDisk) -> LocalOffsets:
    return LocalOffsets(disk, root=tmp_path, client_id="10.0.0.1@DEFAULT", group="news")


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def content(path: Path) -> bytes:
    return path.read_bytes()


def exists(path: Path) -> bool:
    return path.exists()


def delete(path: Path) -> None:
    path.unlink()


async def test_a_file_that_java_wrote_is_read(tmp_path: Path, path: Path, disk: LocalDisk) -> None:
    put(path, JAVAS_FILE)
    offsets = offsets_in(tmp_path, disk)
    await offsets.load()
    assert offsets.of_topic("T") == {Q0: 5, Q1: 6}


async def test_the_file_is_written_in_javas_form(tmp_path: Path, path: Path, disk: LocalDisk) -> None:
    offsets = offsets_in(tmp_path, disk)
    offsets.update(Q1, 6)
    offsets.update(Q0, 5)
    await offsets.persist_all([Q0, Q1, Q2])
    assert content(path) == OURS


async def test_what_was_written_is_read_again(tmp_path: Path, disk: LocalDisk) -> None:
    queue = MessageQueue("T", 'broker "ä" {1}:2', 7)
    offsets = offsets_in(tmp_path, disk)
    offsets.update(queue, 2**40)
    await offsets.persist_all([queue])
    again = offsets_in(tmp_path, disk)
    await again.load()
    assert again.find(queue) == 2**40


async def test_without_a_file_nothing_is_known(tmp_path: Path, disk: LocalDisk) -> None:
    offsets = offsets_in(tmp_path, disk)
    await offsets.load()
    assert await offsets.read(Q0) is None


async def test_only_held_queues_are_written_and_memory_keeps_the_others(
    tmp_path: Path, path: Path, disk: LocalDisk
) -> None:
    offsets = offsets_in(tmp_path, disk)
    offsets.update(Q0, 5)
    offsets.update(Q1, 6)
    offsets.update(Q2, 7)
    await offsets.persist_all([Q0, Q1])
    assert content(path) == OURS
    assert offsets.find(Q2) == 7


async def test_nothing_is_written_while_no_queue_is_held(tmp_path: Path, path: Path, disk: LocalDisk) -> None:
    offsets = offsets_in(tmp_path, disk)
    offsets.update(Q0, 5)
    await offsets.persist_all([])
    assert not exists(path)


async def test_an_unchanged_table_is_not_written_again(tmp_path: Path, path: Path, disk: LocalDisk) -> None:
    offsets = offsets_in(tmp_path, disk)
    offsets.update(Q0, 5)
    await offsets.persist_all([Q0])
    delete(path)
    await offsets.persist_all([Q0])
    assert not exists(path)
    offsets.update(Q0, 6)
    await offsets.persist_all([Q0])
    assert exists(path)


async def test_the_old_content_stays_as_backup(tmp_path: Path, path: Path, disk: LocalDisk) -> None:
    put(path, JAVAS_FILE)
    offsets = offsets_in(tmp_path, disk)
    await offsets.load()
    offsets.update(Q0, 50)
    await offsets.persist_all([Q0])
    assert content(path.with_name("offsets.json.bak")) == JAVAS_FILE


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b'{"offsetTable":[]}', b'{"offsetTable":{"T":5}}'])
async def test_a_broken_file_gives_way_to_its_backup(
    tmp_path: Path, path: Path, disk: LocalDisk, broken: bytes
) -> None:
    put(path, broken)
    put(path.with_name("offsets.json.bak"), JAVAS_FILE)
    offsets = offsets_in(tmp_path, disk)
    await offsets.load()
    assert offsets.find(Q0) == 5


async def test_with_both_broken_the_consumer_does_not_start(tmp_path: Path, path: Path, disk: LocalDisk) -> None:
    put(path, b'{"offsetTable":{{"topic":"T","brokerName":"b"}:5}}')
    put(path.with_name("offsets.json.bak"), b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:"x"}}')
    with pytest.raises(StoreError, match="no queue") as failure:
        await offsets_in(tmp_path, disk).load()
    assert "by hand" in str(failure.value.__notes__)


async def test_stored_offsets_replace_what_memory_knows(tmp_path: Path, path: Path, disk: LocalDisk) -> None:
    put(path, JAVAS_FILE)
    offsets = offsets_in(tmp_path, disk)
    offsets.update(Q0, 99)
    assert await offsets.read(Q0) == 99
    assert await offsets.read_stored(Q0) == 5
    assert await offsets.read(Q1) == 6
    assert (offsets.find(Q0), offsets.find(Q1)) == (5, 6)


async def test_a_queue_given_up_stays_known(tmp_path: Path, path: Path, disk: LocalDisk) -> None:
    offsets = offsets_in(tmp_path, disk)
    offsets.update(Q0, 5)
    await offsets.persist(Q0)
    offsets.forget(Q0)
    assert not exists(path)
    assert offsets.find(Q0) == 5


async def test_a_disk_that_refuses_is_logged_and_tried_again(
    tmp_path: Path, path: Path, disk: LocalDisk, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.parent.mkdir()
    path.parent.write_bytes(b"a file where a directory should be")
    offsets = offsets_in(tmp_path, disk)
    offsets.update(Q0, 5)
    with caplog.at_level(logging.ERROR):
        await offsets.persist_all([Q0])
    assert [record.message for record in caplog.records] == ["offsets not persisted"]
    delete(path.parent)
    await offsets.persist_all([Q0])
    assert exists(path)


def test_the_directory_is_in_the_users_home_unless_the_environment_names_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert local_offsets_root({}) == tmp_path / ".rocketmq_offsets"
    assert local_offsets_root({"ROCKETMQ_CLIENT_LOCAL_OFFSET_STORE_DIR": "/elsewhere"}) == Path("/elsewhere")
