"""The benchmarks of delayed messages, SQL92 filters and TLS run from end to end, in their quick form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.quick import run_quick

pytestmark = [pytest.mark.benchmark, pytest.mark.system, pytest.mark.timeout(180)]


def test_every_figure_of_delayed_messages_is_measured(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "delay", "--servers", "ours")

    assert all(rows[f"lateness, {name}"]["values"]["ours"][0] > 0 for name in ("p50", "p99"))
    assert rows["deliveries of a burst that is due"]["values"]["ours"][0] >= 0
    assert rows["early"]["values"]["ours"] == [0]


def test_every_figure_of_sql_filters_is_measured(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "sql", "--servers", "ours")

    ways = ("SQL92, all match", "SQL92, a quarter matches")
    assert all(rows[f"pull 32 x 1 KB, {way}"]["values"]["ours"][0] > 0 for way in ("no filter", *ways))
    assert all(rows[f"CPU time of {way}, an examined message"]["values"]["ours"][0] > 0 for way in ways)
    assert {name for name, row in rows.items() if row["goal"] is not None} >= {f"pull 32 x 1 KB, {way}" for way in ways}


def test_every_figure_of_tls_is_measured(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "tls", "--servers", "ours")

    assert all(rows[f"send 1 KB, binary, usual, {way}"]["values"]["ours"][0] > 0 for way in ("plain", "TLS"))
    assert rows["CPU time of TLS, a message"]["values"]["ours"][0] > 0
