"""The transactions benchmark runs from end to end, in its quick form: every figure is there, worth nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.quick import run_quick


@pytest.mark.benchmark
@pytest.mark.system
@pytest.mark.timeout(180)
def test_every_figure_of_our_transactions_is_measured(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "transactions", "--servers", "ours")

    for size in ("128 B", "1 KB"):
        assert rows[f"transactions, {size}"]["values"]["ours"][0] > 0
        assert rows[f"server's CPU time for each, {size}"]["values"]["ours"][0] > 0
