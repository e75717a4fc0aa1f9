"""Two planted bugs that show within seconds; `make planted` has all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("bug", ["dead-letter-twice", "rollback-commits"])
def test_the_simulation_finds_a_planted_bug(bug: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.planted", bug, "--seeds", "100", "--seconds", "120", "--jobs", "1"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 found, 0 not" in done.stdout
