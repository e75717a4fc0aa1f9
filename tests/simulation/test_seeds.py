"""What docs/guarantees.md promises, in clusters that nobody thought of: others in every run of the tests but for CI's.

`SIMULATE_SECONDS` says how long (90), `SIMULATE_FROM` with which seed to begin; it is printed at the end of the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = float(os.environ.get("SIMULATE_SECONDS", "90"))


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 2 + 300)
def test_every_promise_holds_in_whatever_happens(tmp_path: Path) -> None:
    first = os.environ["SIMULATE_FROM"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "skyrocketmq.testing.simulation"),
            *("--from", first, "--seconds", str(SECONDS), "--jobs", "1", "--folder", str(tmp_path)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, f"seeds from {first}: a promise was broken; run `make simulate FROM={first}`"
    assert "\n  0 seeds" not in done.stdout
