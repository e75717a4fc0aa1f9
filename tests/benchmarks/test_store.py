"""The benchmarks of flush, recovery and backlog run from end to end, in their quick form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run_quick(name: str, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """The rows of the report by name."""
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--servers", "ours", "--directory", str(tmp_path)]
    done = subprocess.run(
        [*command, "--json", str(results)],
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


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "flush",
            {"ASYNC_FLUSH, 64 senders", "SYNC_FLUSH, 64 senders", "SYNC_FLUSH, one sender", "of what is promised"},
        ),
        ("recovery", {"recovery, messages of 1 KB", "recovery, messages of 128 B", "ready on an empty store"}),
        ("backlog", {"send, with the backlog", "pull of the backlog", "send, kept with the backlog"}),
    ],
)
def test_every_figure_is_measured(name: str, rows: set[str], tmp_path: Path) -> None:
    measured = run_quick(name, tmp_path)
    assert rows <= set(measured)
    assert all(measured[row]["values"]["ours"][0] > 0 for row in rows)
