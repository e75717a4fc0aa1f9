"""`skyrocketmq store check|repair|dump`: what is intact is said to be so, what is broken is found and mended."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.cli.main import main
from skyrocketmq.ports import LocalDisk, SystemClock
from skyrocketmq.store import MessageStore
from tests.store.reader import Record, read_log
from tests.store.support import check as check_files
from tests.store.support import new_message, open_store, put_ok, sizes_of, store_config, unique_id


def settings(root: Path) -> Any:
    return store_config(
        root, commit_log_file_bytes=16 * 1024, queue_file_bytes=20 * 50, index_slot_count=100, index_entry_count=500
    )


def fill(store: MessageStore) -> None:
    for number in range(200):
        put_ok(
            store,
            new_message(
                f"T{number % 2}",
                number % 3,
                b"%05d" % number + b"." * 100,
                keys=f"k{number}",
                unique=unique_id(number),
                tags="TagA",
            ),
        )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that was closed in order."""
    root = tmp_path / "store"

    async def make() -> None:
        disk = LocalDisk()
        async with open_store(disk, settings(root), clock=SystemClock()) as store:
            fill(store)
        disk.close()

    asyncio.run(make())
    config = root / "config"
    config.mkdir()
    topics = '{"topicConfigTable":{"T0":{"topicName":"T0"},"T1":{"topicName":"T1"}}}'
    (config / "topics.json").write_text(topics)
    (config / "topics.json.bak").write_text(topics)
    return root


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["store", *map(str, arguments), "--set", "maxHashSlotNum=100", "--set", "maxIndexNum=500"])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def checked(capsys: pytest.CaptureFixture[str], root: Path) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, "check", root, "--output", "json")
    return code, json.loads(out)


def records(root: Path) -> list[Record]:
    disk = LocalDisk()
    try:
        return read_log(disk, root, sizes_of(settings(root)))[0]
    finally:
        disk.close()


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_store_that_was_closed_is_intact_and_stays_as_it_is(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(root)
    code, out, _ = run(capsys, "check", root)
    assert code == 0
    assert "messages     200 good, 0 lost" in out
    assert out.rstrip().endswith("intact")
    _, report = checked(capsys, root)
    assert (report["records"], report["queues"], report["index_entries"]) == (200, 6, 400)
    assert report["findings"] == []
    assert tree(root) == before


def test_a_bad_record_is_told_with_its_place_and_what_is_lost(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = records(root)[70]
    file = root / "commitlog" / f"{bad.log_offset // 16384 * 16384:020d}"
    overwrite(file, bad.log_offset % 16384 + 95, b"!!")
    code, report = checked(capsys, root)
    assert code == 1
    assert (report["records"], report["lost_records"]) == (199, 1)
    texts = [f"{finding['part']} {finding['where']} {finding['what']}" for finding in report["findings"]]
    assert f"log {bad.log_offset} {bad.total} bytes hold no good record: what was there is lost" in texts
    queue = f"queue {bad.topic}-{bad.queue_id} 1 messages are not in the log"
    assert f"{queue}: offsets {bad.queue_offset}..{bad.queue_offset}" in texts
    assert not any(finding["can_repair"] for finding in report["findings"]), "nothing knows what was there"


def break_queue_cell(root: Path) -> None:
    overwrite(root / "consumequeue" / "T0" / "0" / ("0" * 20), 40, b"\0\0\0\0\0\0\1\1")


def lose_queue_file(root: Path) -> None:
    (root / "consumequeue" / "T1" / "1" / ("0" * 20)).unlink()


def lose_queues_of_a_topic(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "T1")


def break_index_entry(root: Path) -> None:
    [path] = (root / "index").iterdir()
    overwrite(path, 40 + 400 + 20 * 33 + 4, b"\0\0\0\0\0\0\0\7")


def break_index_slots(root: Path) -> None:
    [path] = (root / "index").iterdir()
    overwrite(path, 40, bytes(200))


def lose_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def break_config(root: Path) -> None:
    (root / "config" / "topics.json").write_text('{"topicConf')


BREAKAGES = {
    "queue": [break_queue_cell, lose_queue_file, lose_queues_of_a_topic],
    "index": [break_index_entry, break_index_slots, lose_index],
    "config": [break_config],
}


@pytest.mark.parametrize(
    ("part", "breakage"), [(part, breakage) for part, each in BREAKAGES.items() for breakage in each]
)
@pytest.mark.parametrize("has_snapshot", [True, False], ids=["ours", "as Apache leaves it"])
def test_what_can_be_built_again_is_found_and_repaired(
    part: str, breakage: Any, has_snapshot: bool, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not has_snapshot:
        (root / "checkpoint.json").unlink()
    breakage(root)
    code, report = checked(capsys, root)
    assert code == 1
    assert {finding["part"] for finding in report["findings"] if finding["is_damage"]} == {part}
    assert all(finding["can_repair"] for finding in report["findings"] if finding["is_damage"])

    code, out, err = run(capsys, "repair", root, "--yes")
    assert code == 0, err
    assert "To be done:" in err
    assert out.rstrip().endswith("intact")
    disk = LocalDisk()
    assert len(check_files(disk, settings(root)).records) == 200
    disk.close()
    assert not (root / "repair-plan.json").exists()
    assert checked(capsys, root)[0] == 0


def test_without_a_yes_nothing_is_done(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_queue_cell(root)
    before = tree(root)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    code, _, err = run(capsys, "repair", root)
    assert code == 1
    assert "build consume queue T0-0 again from the log" in err
    assert tree(root) == before


def test_an_intact_store_needs_no_repair(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(root)
    code, out, err = run(capsys, "repair", root)
    assert (code, err) == (0, "")
    assert "intact" in out
    assert tree(root) == before


def test_a_repair_keeps_the_messages_behind_a_bad_record_that_no_checkpoint_covers(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = records(root)[150]
    overwrite(root / "commitlog" / f"{bad.log_offset // 16384 * 16384:020d}", bad.log_offset % 16384 + 95, b"!!")
    for name in ("checkpoint", "checkpoint.json"):
        (root / name).unlink()
    (root / "abort").touch()
    break_queue_cell(root)
    code, out, _ = run(capsys, "repair", root, "--yes")
    assert code == 1, "the record itself is lost"
    assert "messages     199 good, 1 lost" in out
    assert "repair builds" not in out, "and nothing else is left to do"


def test_what_a_crash_leaves_is_a_note_and_no_damage(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = records(root)[-1]
    end = last.log_offset + last.total
    path = root / "commitlog" / f"{end // 16384 * 16384:020d}"
    overwrite(path, end % 16384, b"\0\0\1\0\xda\xa3\x20\xa7 torn")
    (root / "abort").touch()
    code, report = checked(capsys, root)
    assert code == 0
    assert [(finding["part"], finding["is_damage"]) for finding in report["findings"]] == [("log", False)]


def test_a_store_in_use_is_left_alone(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disk = LocalDisk()
    lock = disk.lock(root / "lock")
    code, _, err = run(capsys, "check", root)
    lock.release()
    disk.close()
    assert code == 2
    assert "is locked" in err


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()], ids=["nothing", "an empty directory"])
def test_what_is_no_store_is_told(make: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "nowhere")
    code, _, err = run(capsys, "check", tmp_path / "nowhere")
    assert code == 2
    assert "no directory" in err or "holds no store" in err


def test_a_dump_gives_the_messages_of_a_queue(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "dump", root, "--topic", "T0", "--queue", "0", "--output", "json")
    assert code == 0
    messages = [json.loads(line) for line in out.splitlines()]
    assert [message["queueOffset"] for message in messages] == list(range(len(messages)))
    expected = [record for record in records(root) if (record.topic, record.queue_id) == ("T0", 0)]
    assert [base64.b64decode(message["body"]) for message in messages] == [record.body for record in expected]
    assert messages[0]["properties"]["KEYS"] == "k0"


def test_a_dump_begins_and_ends_where_it_is_told(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    third = records(root)[2]
    code, out, _ = run(capsys, "dump", root, "--from", str(third.log_offset), "--count", "2")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"{third.log_offset} {third.topic}-{third.queue_id}@{third.queue_offset} ")
    assert "00002..." in lines[0]
    code, _, err = run(capsys, "dump", root, "--from", str(third.log_offset + 1))
    assert code == 2
    assert f"no record begins at {third.log_offset + 1}" in err


def test_long_work_tells_how_far_it_is(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyrocketmq.cli.store.PROGRESS_EVERY_S", 0.0)
    _, out, err = run(capsys, "check", root)
    assert "checked 0 of 0 MiB of the log" in err
    assert "of the log" not in out
    break_queue_cell(root)
    code, _, err = run(capsys, "repair", root, "--yes")
    assert code == 0
    said = [line.split(" 0 of 0 MiB")[0] for line in err.splitlines() if line.endswith("MiB of the log")]
    assert list(dict.fromkeys(said)) == ["checked", "built again from"]
    assert said[-1] == "checked", "and what was mended is looked at again"
