"""Running a benchmark in its quick form: every figure is there, and none is worth anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_quick(tmp_path: Path, benchmark: str, *arguments: str) -> dict[str, dict[str, Any]]:
    """The rows of the report by name."""
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", benchmark, "--quick", "--directory", str(tmp_path)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, "--json", str(results), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]  # no store is left
    [report] = json.loads(results.read_text())["benchmarks"]
    return {row["name"]: row for row in report["rows"]}
