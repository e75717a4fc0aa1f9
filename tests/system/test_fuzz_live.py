"""Damaged frames on running servers in the short form; `make fuzz-live` has the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.fuzz_live import run


@pytest.mark.system
def test_damaged_frames_do_not_disturb_the_servers_or_anybody_else(tmp_path: Path) -> None:
    outcome = run(tmp_path, frames=2_000, seed=11)
    assert not outcome.failures
    assert outcome.frames == 2_000
    assert outcome.asked > 10
    assert outcome.answered_bytes > 50 * outcome.frames  # they were looked at, not cut off
