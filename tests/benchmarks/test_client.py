"""The client benchmark runs from end to end, in its quick form: every figure is there, and none is worth anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.quick import run_quick

RATES = ("1,000 in flight, 128 B", "1,000 in flight, 1 KB", "push consumption, 128 B", "push consumption, 1 KB")


@pytest.mark.benchmark
@pytest.mark.system
def test_every_figure_of_our_client_is_measured(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "client", "--servers", "ours")

    assert all(rows[name]["values"]["ours"][0] > 0 for name in RATES)
    assert rows["p50 of one sender, 128 B"]["values"]["ours"][0] > 0
    assert rows["p99 of one blocking sender, 128 B"]["values"]["ours"][0] > 0


@pytest.mark.benchmark
@pytest.mark.interop
@pytest.mark.timeout(300)
def test_every_figure_of_both_clients_is_measured(tmp_path: Path, java_tools: None) -> None:
    rows = run_quick(tmp_path, "client", "--client-bytes", "128")

    assert {name: len(row["values"]) for name, row in rows.items() if len(row["values"]) != 2} == {}
    assert {name for name, row in rows.items() if row["goal"] is not None} == {
        "p50 of one sender, 128 B",
        "1,000 in flight, 128 B",
        "push consumption, 128 B",
    }
