"""The replication benchmark runs from end to end, in its quick form: every figure is there, worth nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.replication import LOADS, SHAPES

from tests.benchmarks.quick import run_quick

ROWS = [f"{way}, {load}, {shape.name}" for way in ("synchronous", "asynchronous") for load in LOADS for shape in SHAPES]


@pytest.mark.benchmark
@pytest.mark.system
@pytest.mark.timeout(180)
def test_every_figure_of_our_replication_is_measured(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "replication", "--servers", "ours")

    assert all(rows[name]["values"]["ours"][0] > 0 for name in ROWS)
    assert {name for name, row in rows.items() if row["goal"] is not None} == {
        name for name in ROWS if name.startswith("synchronous")
    }
