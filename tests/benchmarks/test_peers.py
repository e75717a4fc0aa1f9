"""The benchmark beside other systems runs from end to end, in its quick form: none of its figures is worth anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.peer_servers import PEERS, Unavailable

from tests.benchmarks.quick import run_quick

OURS_ALONE = ("produced, a request for each message", "consumed, a call of a handler for each")


def available() -> dict[str, str]:
    """The systems that can be had here, and the names of their clients."""
    found = {}
    for peer in (make() for make in PEERS.values()):
        try:
            peer.prepare()
        except Unavailable:
            continue
        found[peer.name] = peer.title
    return found


@pytest.mark.benchmark
@pytest.mark.system
@pytest.mark.timeout(900)
def test_ours_and_every_system_that_can_be_had_are_measured(tmp_path: Path) -> None:
    peers = available()
    rows = run_quick(tmp_path, "peers")

    assert all(rows[name]["values"]["ours"][0] > 0 for name in OURS_ALONE)
    for name, title in peers.items():
        for kind in ("produced", "consumed"):
            values = rows[f"{kind}, beside {title}"]["values"]
            assert values.keys() == {name, "ours"}
            assert min(values[name] + values["ours"]) > 0
    assert len(rows) == 4 * len(peers) + 4


@pytest.mark.benchmark
@pytest.mark.system
def test_ours_is_measured_where_no_other_system_is_asked_for(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "peers", "--peers")

    assert set(rows) == {*OURS_ALONE, *(f"client's CPU time, {name}" for name in OURS_ALONE)}
