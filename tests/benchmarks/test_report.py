from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from benchmarks.report import APACHE, OURS, Better, Report, write_json

from benchmarks import hot
from skyrocketmq.hot import PLAIN_MODULES


def report() -> Report:
    result = Report("namesrv", {"brokers": "100"})
    rate = result.row("queries", "1/s", Better.MORE, 1.0)
    memory = result.row("RssAnon", "MiB", Better.LESS, 0.25)
    for apaches, ours in [(1000.0, 900.0), (1100.0, 1300.0), (5000.0, 1200.0)]:
        rate.add(APACHE, apaches)
        rate.add(OURS, ours)
        memory.add(APACHE, 800.0)
        memory.add(OURS, 400.0)
    return result


def test_ratios_are_those_of_the_medians() -> None:
    rate, memory = report().rows

    assert rate.ratio == 1200 / 1100
    assert memory.ratio == 0.5


def test_a_goal_is_met_or_missed_in_the_direction_that_is_better() -> None:
    rate, memory = report().rows

    assert rate.is_met
    assert not memory.is_met


def test_the_table_shows_both_servers_the_ratio_and_the_goal() -> None:
    assert report().table().splitlines() == [
        "namesrv: brokers 100",
        "         unit  Apache's   ours  ratio             goal",
        "queries  1/s      1,100  1,200   1.09        >= 1: met",
        "RssAnon  MiB        800    400   0.50  <= 0.25: missed",
    ]


def test_a_server_that_was_left_out_has_no_ratio_and_misses_no_goal() -> None:
    result = Report("namesrv", {})
    row = result.row("queries", "1/s", Better.MORE, 1.0)
    row.add(APACHE, 1000.0)

    assert (row.ratio, row.is_met) == (None, True)
    assert result.table().splitlines()[-1].split() == ["queries", "1/s", "1,000", "-", ">=", "1:", "not", "measured"]


def test_details_are_for_the_file_only(tmp_path: Path) -> None:
    result = report()
    result.row("generator", "%", Better.LESS, is_detail=True).add(OURS, 30.0)

    write_json([result], tmp_path / "results.json")

    assert "generator" not in result.table()
    [written] = json.loads((tmp_path / "results.json").read_text())["benchmarks"]
    assert [row["name"] for row in written["rows"]] == ["queries", "RssAnon", "generator"]
    assert written["rows"][0]["values"]["apache"] == [1000.0, 1100.0, 5000.0]


def test_a_limit_is_for_ours_whatever_apaches_is() -> None:
    result = Report("broker", {})
    row = result.row("delivery", "ms", Better.LESS, limit=10.0)
    shown = []
    row.add(APACHE, 1.0)
    for ours in (9.0, 30.0):
        row.add(OURS, ours)
        shown.append((row.median_of(OURS), row.is_met, result.table().splitlines()[-1].partition("<=")[2]))

    assert shown == [(9.0, True, " 10 ms: met"), (19.5, False, " 10 ms: missed")]


@pytest.mark.benchmark
def test_every_case_of_the_hot_modules_runs(capsys: pytest.CaptureFixture[str]) -> None:
    report = hot.run(argparse.Namespace(quick=True))
    assert {row.name.split(":")[0] for row in report.rows} == set(PLAIN_MODULES)
    assert all(row.median_of("plain") for row in report.rows)
