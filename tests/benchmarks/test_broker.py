"""What is measured of the broker beside Apache's, in its quick form: every figure is there, worth nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.send_shapes import SHAPES

from benchmarks import wakeups
from tests.benchmarks.quick import run_quick

STAGED = ("memory", "wakeups", "latency", "java", "pulls", "broker")

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]


def is_measured(row: dict[str, Any], *servers: str) -> bool:
    return all(row["values"][server][0] > 0 for server in servers)


@pytest.mark.system
def test_sends_of_every_shape_are_measured(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "sends", "--servers", "ours")

    assert all(is_measured(rows[f"send {shape.name}"], "ours") for shape in SHAPES)
    assert {rows[f"send {shape.name}"]["goal"] for shape in SHAPES} == {4, 5, 6}
    assert {rows[f"slowest shape of {size}, of the fastest"]["limit"] for size in ("128 B", "1 KB")} == {0.45}


@pytest.mark.system
def test_the_shapes_can_be_chosen(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "sends", "--servers", "ours", "--shapes", "1 KB, binary, key")

    assert [name for name in rows if name.startswith("send ")] == ["send 1 KB, binary, key"]


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("memory", ["RssAnon"]),
        ("wakeups", [f"64 senders, {shape.name}" for shape in wakeups.SHAPES]),
        ("pulls", ["pull 32 x 1 KB, scattered, binary", "pull 32 x 128 B, contiguous, binary, a quarter has the tag"]),
        ("broker", ["time until ready", "delivery to a waiting consumer"]),
    ],
)
def test_every_figure_of_ours_is_measured(name: str, expected: list[str], tmp_path: Path) -> None:
    rows = run_quick(tmp_path, name, "--servers", "ours")

    assert all(is_measured(rows[row], "ours") for row in expected)


@pytest.mark.system
def test_latencies_are_measured_at_a_given_rate(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "latency", "--servers", "ours", "--rate", "1000")

    assert is_measured(rows["p99 at half load, 1 KB, binary, usual"], "ours")


@pytest.mark.system
def test_ours_is_measured_beside_the_null_server(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "floor")

    shown = [row for row in rows.values() if not row["is_detail"]]
    assert len(shown) == 12
    assert all(row["ratio"] > 0 for row in shown if row["unit"] == "1/s")


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STAGED)
def test_every_figure_of_both_is_measured(name: str, tmp_path: Path, java_tools: None) -> None:
    rows = run_quick(tmp_path, name)

    assert {name: len(row["values"]) for name, row in rows.items() if len(row["values"]) != 2} == {}
    assert any(row["goal"] is not None for row in rows.values())
