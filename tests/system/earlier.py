"""The version before this one: its source, taken from the history of the repository."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

EARLIER = "ece786202b22b95e6dd9f73f443ae5e1593b736b"
ROOT = Path(__file__).parents[2]


def earlier_source(directory: Path) -> Path:
    """Unpack the earlier version below the directory; what to put on its `PYTHONPATH`.

    Skips where the history is not there (a shallow clone, an archive of the source), which is a failure in CI.
    """
    archive = subprocess.run(["git", "archive", EARLIER, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        reason = f"the history has no commit {EARLIER[:7]}: clone with all of it. {archive.stderr.decode().strip()}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
        packed.extractall(directory, filter="data")
    return directory / "src"
