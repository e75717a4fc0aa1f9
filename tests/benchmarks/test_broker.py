"""The broker benchmark runs from end to end, in its quick form: every figure is there, and none is worth anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.broker import SEND_FORMS

ROOT = Path(__file__).parents[2]
OUR_PARTS = ("ready", "memory", "pull", "send", "delivery")


def run_quick(tmp_path: Path, *arguments: str, benchmark: str = "broker") -> dict[str, dict[str, Any]]:
    """The rows of the report by name."""
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", benchmark, "--quick", "--directory", str(tmp_path)]
    done = subprocess.run(
        [*command, "--json", str(results), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]  # no store is left
    [report] = json.loads(results.read_text())["benchmarks"]
    return {row["name"]: row for row in report["rows"]}


@pytest.mark.benchmark
@pytest.mark.system
@pytest.mark.timeout(180)
def test_every_figure_of_ours_is_measured(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "--servers", "ours", "--parts", *OUR_PARTS)

    assert all(rows[f"send {form.name}"]["values"]["ours"][0] > 0 for form in SEND_FORMS)
    assert all(rows[f"refused, send {form.name}"]["values"]["ours"] == [0] for form in SEND_FORMS)
    assert {"time until ready", "RssAnon after 10,000 messages", "delivery to a waiting consumer"} <= set(rows)
    assert {"pull 32 x 1 KB, contiguous", "pull 32 x 1 KB, scattered"} <= set(rows)


@pytest.mark.benchmark
@pytest.mark.interop
@pytest.mark.timeout(600)
def test_every_figure_of_both_is_measured(tmp_path: Path, java_tools: None) -> None:
    rows = run_quick(tmp_path)

    assert {name: len(row["values"]) for name, row in rows.items() if len(row["values"]) != 2} == {}
    assert "p99 at half load, 1 KB, JSON" in rows
    assert rows["Java producer, 64 threads, 1 KB"]["values"]["ours"][0] > 0
