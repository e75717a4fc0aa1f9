"""A disk whose syncs take longer than this machine's: for any program, through a library that is loaded before its own.

`fsync`, `fdatasync` and `msync` first do what they do, and then wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.c_programs import build_library


@contextmanager
def slow_syncs(milliseconds: float, directory: Path) -> Iterator[None]:
    """Programs started within the block meet a disk whose every sync takes so much longer."""
    library = build_library("slow_sync", directory)
    changes = {"LD_PRELOAD": str(library), "SLOW_SYNC_US": str(int(milliseconds * 1000))}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
