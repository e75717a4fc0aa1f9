"""Ours beside an earlier version, in its quick form: every figure is there, worth nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from benchmarks.batches import BATCH_MESSAGES, batch_frames
from benchmarks.before import PARTS
from benchmarks.broker_frames import Traffic
from benchmarks.earlier import COMMIT, NoCommit, earlier_sources

from skyrocketmq.wire.batches import decode_batch
from skyrocketmq.wire.frames import FrameDecoder
from tests.benchmarks.quick import ROOT, run_quick

has_commit = subprocess.run(["git", "-C", str(ROOT), "cat-file", "-e", COMMIT], capture_output=True, check=False)
needs_commit = pytest.mark.skipif(has_commit.returncode != 0, reason=f"this checkout does not have {COMMIT}")


def test_a_batch_is_messages_that_the_broker_can_tell_apart() -> None:
    [request] = FrameDecoder().feed(next(iter(batch_frames(100, Traffic(), 1))))

    messages = decode_batch(request.body)

    assert request.code == 320
    assert (request.ext or {})["m"] == "true"
    assert [len(body) for _, body, _ in messages] == [100] * BATCH_MESSAGES


@needs_commit
def test_an_earlier_version_is_what_it_was(tmp_path: Path) -> None:
    sources = earlier_sources(tmp_path)

    assert (sources / "skyrocketmq" / "__main__.py").exists()
    assert not (sources / "skyrocketmq" / "hot").exists()  # it came later
    assert earlier_sources(tmp_path) == sources


def test_without_the_commit_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(NoCommit, match="git fetch --unshallow"):
        earlier_sources(tmp_path, "0" * 40)


@needs_commit
@pytest.mark.benchmark
@pytest.mark.system
@pytest.mark.timeout(400)
@pytest.mark.parametrize("part", PARTS)
def test_every_figure_beside_the_earlier_version_is_measured(part: str, tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "before", "--parts", part)

    assert rows
    assert all(set(row["values"]) == {"before", "ours"} and row["goal"] < 1 for row in rows.values())


@needs_commit
@pytest.mark.benchmark
@pytest.mark.system
@pytest.mark.timeout(400)
def test_the_plain_form_is_measured_beside_the_earlier_version(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "plain", "--shapes", "binary, key")

    assert rows["send 1 KB, binary, key"]["goal"] == 0.65
    assert rows["send 128 B, binary, key"]["ratio"] > 0


@pytest.mark.benchmark
@pytest.mark.system
@pytest.mark.timeout(400)
def test_two_brokers_are_measured_beside_one(tmp_path: Path) -> None:
    rows = run_quick(tmp_path, "brokers")

    assert rows["send 1 KB, binary, usual"]["ratio"] > 0
