"""Which parts of a store are read: nothing twice, nothing left out, and no more than filters need."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.spark.filters import CLOCK_SLACK_MS, Interval
from skyrocketmq.spark.store_planning import Cut, LogPart, cell_range, first_true, in_time, log_parts
from skyrocketmq.spark.store_planning import packed as packed_parts

FILE = 1000
FILLER = 0x7FFFFFFF


def files(*numbers: int) -> list[tuple[int, Path]]:
    return [(number * FILE, Path(f"{number}")) for number in numbers]


@pytest.mark.parametrize("seed", range(20))
def test_parts_lie_side_by_side_up_to_the_end_of_the_log(seed: int) -> None:
    chance = random.Random(seed)
    numbers = range(3, 3 + chance.randrange(1, 5))
    end = chance.randrange(3 * FILE, numbers.stop * FILE + 1)
    cuts = [Cut(at, at) for at in sorted(chance.sample(range(3 * FILE, end + 1), min(9, end - 3 * FILE)))]
    parts = log_parts(files(*numbers), FILE, cuts, log_end=end)
    at = 3 * FILE
    for part in parts:
        assert part.start == at < part.end
        assert part.file_start <= part.start < part.end <= part.file_start + FILE
        assert part.path == Path(f"{part.start // FILE}")
        at = part.end
    assert at == end


def test_a_gap_between_files_belongs_to_no_part() -> None:
    parts = log_parts(files(0, 2), FILE, [Cut(500, 1)], log_end=2500)
    assert [(part.start, part.end) for part in parts] == [(0, 500), (500, 1000), (2000, 2500)]


def test_times_leave_out_parts_on_both_sides_but_for_the_slack_of_clocks() -> None:
    hour = 3_600_000
    cuts = [Cut(number * 100, (number + 1) * hour) for number in range(10)]
    parts = log_parts(files(0), FILE, cuts, log_end=1000)

    def starts(wanted: Interval) -> list[int]:
        return [part.start for part in in_time(parts, wanted)]

    assert starts(Interval()) == list(range(0, 1000, 100))
    assert starts(Interval(low=5 * hour + CLOCK_SLACK_MS + 1)) == [400, 500, 600, 700, 800, 900]
    assert starts(Interval(low=5 * hour + CLOCK_SLACK_MS)) == [300, 400, 500, 600, 700, 800, 900]
    assert starts(Interval(high=2 * hour - CLOCK_SLACK_MS - 1)) == [0]
    assert starts(Interval(low=20 * hour)) == [900], "the last part has no known end"


def test_a_part_whose_first_record_is_damaged_is_never_left_out_for_its_beginning() -> None:
    parts = log_parts(files(0, 1), FILE, [Cut(0, 10_000_000), Cut(1100, 20_000_000)], log_end=1500)
    assert [part.start for part in in_time(parts, Interval(high=0))] == [1000], "the time of [1000, 1100) is unknown"


@pytest.mark.parametrize("count", range(6))
def test_the_first_of_a_row_is_found(count: int) -> None:
    for edge in range(count + 1):
        assert first_true(0, count, lambda number, edge=edge: number >= edge) == edge  # type: ignore[misc]


def test_cells_are_those_that_lead_into_the_log() -> None:
    cells = [(0, FILLER)] * 3 + [(100 * number, 100) for number in range(1, 8)] + [(0, 0)] * 5

    def found(low: int | None, high: int | None) -> tuple[int, int]:
        return cell_range(0, len(cells), cells.__getitem__, is_filler=FILLER.__eq__, log=Interval(low, high))

    assert found(None, None) == (3, 10)
    assert found(0, 800) == (3, 10)
    assert found(250, 799) == (5, 9)
    assert found(900, 1000) == (10, 10)
    assert found(0, 0) == (3, 3)


def test_tasks_have_their_share_and_keep_the_order() -> None:
    parts = [LogPart(Path("x"), 0, FILE, start, start + size) for start, size in [(0, 4), (4, 5), (9, 3), (12, 50)]]
    tasks = packed_parts(parts, 10)
    assert [[part.start for part in task] for task in tasks] == [[0, 4], [9], [12]]
    assert packed_parts([], 10) == []
