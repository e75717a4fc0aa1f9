"""Archives as values: commits, merges, and the list for Spark's readers."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.jobs.archive_state import ArchiveFile, ArchiveState, Merge, plan_merges, spark_metadata

QUEUE = MessageQueue("Orders", "broker-a", 0)


def file(number: int, size: int = 10, partition: str = "topic=Orders/day=2024-05-01") -> ArchiveFile:
    return ArchiveFile(f"{partition}/part-{number}.parquet", size, 1000 + number)


def test_a_commit_survives_being_written_and_read() -> None:
    state = ArchiveState({QUEUE: 7}, (file(1), file(2)), (("_archive/staging/x/part-2", file(2).name),), (("old", 12),))
    assert ArchiveState.from_json(json.loads(json.dumps(state.to_json()))) == state
    assert ArchiveState.from_json(json.loads(json.dumps(ArchiveState().to_json()))) == ArchiveState()


def test_a_batch_adds_files_and_moves_places_on() -> None:
    other = MessageQueue("Orders", "broker-a", 1)
    state = ArchiveState({QUEUE: 7, other: 3}, (file(1),), (("done", "before"),))
    after = state.with_batch({QUEUE: 9}, [file(2)], [("staged", file(2).name)])
    assert after == ArchiveState({QUEUE: 9, other: 3}, (file(1), file(2)), (("staged", file(2).name),))


def test_a_merge_replaces_files_and_keeps_the_old_ones_for_a_while() -> None:
    state = ArchiveState({QUEUE: 7}, (file(1), file(2), file(3)))
    merged = state.with_merge(Merge("p", (file(1), file(3))), [file(9)], [("staged", file(9).name)], now_ms=500)
    assert (merged.files, merged.offsets) == ((file(2), file(9)), {QUEUE: 7})
    assert merged.without_retired(499)[1] == []
    after, gone = merged.without_retired(500)
    assert gone == [file(1).name, file(3).name]
    assert after.retired == ()


def test_small_files_of_one_day_are_merged_once_there_are_enough() -> None:
    day = [file(number) for number in range(4)]
    other = [file(number, partition="topic=Orders/day=2024-05-02") for number in range(3)]
    large = [file(99, size=800)]
    assert plan_merges([*day, *other, *large], count_min=4, target_bytes=1000) == [
        Merge("topic=Orders/day=2024-05-01", tuple(day))
    ]
    assert plan_merges(day, count_min=5, target_bytes=1000) == []


@given(st.lists(st.integers(1, 2000), max_size=40), st.integers(2, 6), st.integers(100, 3000))
def test_merges_take_each_file_once_and_make_no_file_too_large(sizes: list[int], count_min: int, target: int) -> None:
    files = [file(number, size) for number, size in enumerate(sizes)]
    merges = plan_merges(files, count_min=count_min, target_bytes=target)
    taken = [one for merge in merges for one in merge.files]
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(files)
    for merge in merges:
        assert len(merge.files) > 1
        assert sum(one.size for one in merge.files) <= target


def test_names_are_escaped_in_the_list_for_readers() -> None:
    lines = spark_metadata([file(1, partition="topic=%25DLQ%25g/day=2024-05-01")], "file:///a%20b").decode().split("\n")
    assert lines[0] == "v1"
    told = json.loads(lines[1])
    assert told["path"] == "file:///a%20b/topic=%2525DLQ%2525g/day=2024-05-01/part-1.parquet"
    assert (told["size"], told["isDir"], told["action"]) == (10, False, "add")
