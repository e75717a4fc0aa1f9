"""The benchmarks of flush, recovery and backlog run from end to end, in their quick form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.quick import run_quick


@pytest.mark.benchmark
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
    measured = run_quick(tmp_path, name, "--servers", "ours")
    assert rows <= set(measured)
    assert all(measured[row]["values"]["ours"][0] > 0 for row in rows)
