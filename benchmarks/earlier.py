"""The state of our code at an earlier commit, to run beside today's."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

COMMIT = "ece7862"
ROOT = Path(__file__).parents[1]


class NoCommit(Exception):
    """This checkout does not have the commit."""


def earlier_sources(directory: Path, commit: str = COMMIT) -> Path:
    """The folder that holds the package as it was then; taken from git once, into a directory. Raises `NoCommit`."""
    target = directory / commit
    if not target.exists():
        command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            raise NoCommit(f"commit {commit} is not there (git fetch --unshallow brings it): {done.stderr.decode()}")
        with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
            archive.extractall(target, filter="data")
    return target / "src"
