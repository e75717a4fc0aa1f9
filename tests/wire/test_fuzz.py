"""The fuzz loop in its short form; `make fuzz` runs the long one."""

from __future__ import annotations

import time
from pathlib import Path

from skyrocketmq.errors import ProtocolError
from tests.wire.fuzz import SECONDS_MAX, SECONDS_PER_BYTE_MAX, TARGETS, run
from tests.wire.fuzz_messages import Target
from tests.wire.fuzz_state import FuzzState


def test_every_seed_is_understood() -> None:
    for target in TARGETS:
        understood = 0
        for seed in target.seeds:
            try:
                target.decode(seed)
                understood += 1
            except ProtocolError:
                pass  # a few seeds show what is refused
        assert understood > 0, target.name


def test_damaged_inputs_give_a_value_or_a_protocol_error() -> None:
    outcome = run(inputs=40_000, seed=20_240_229)
    assert outcome.failure is None
    assert set(outcome.per_target) == {target.name for target in TARGETS}  # each decoder got something it could read


def test_the_loop_notices_a_wrong_exception() -> None:
    outcome = run(inputs=500, seed=1, targets=[Target("int", int, [b"12"])])
    assert outcome.failure is not None
    assert outcome.failure.startswith("int: ValueError")


def test_the_loop_notices_a_decoder_that_takes_too_long() -> None:
    def slow(data: bytes) -> None:
        end = time.process_time() + SECONDS_MAX + SECONDS_PER_BYTE_MAX * len(data) + 0.05
        while time.process_time() < end:
            pass

    outcome = run(inputs=1, seed=2, targets=[Target("slow", slow, [b"0123456789"])])
    assert outcome.failure is not None
    assert outcome.failure.startswith("slow: ")


def test_a_long_run_goes_on_where_it_ended_and_begins_anew_for_other_code(tmp_path: Path) -> None:
    path = tmp_path / "fuzz" / "state.json"
    FuzzState(path, packages=("wire",)).note(7)
    assert FuzzState(path, packages=("wire",)).pieces == 7
    assert FuzzState(path, packages=("model",)).pieces == 0
