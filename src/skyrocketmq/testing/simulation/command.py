"""The command line of the simulation: so many seeds, or so long; one seed, or one plan, looked at closely."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from skyrocketmq.testing.simulation.runner import RunState, Simulator, code_version, search, seeds_for
from skyrocketmq.testing.simulation.stories import write_story
from skyrocketmq.testing.simulation.totals import FailingSeed, Totals

__all__ = ["main"]

TOLD_EVERY_S = 10.0
DEFAULT_SEEDS = 100


def main(simulator: Simulator, arguments: Sequence[str] | None = None, *, plan_type: type[Any] | None = None) -> int:
    """Returns the exit code: 1 if a promise was broken."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("TZ", "UTC")
    if options.plan is not None:
        assert plan_type is not None
        return _look(simulator, msgspec.json.decode(options.plan.read_bytes(), type=plan_type), "plan", options)
    if options.seed is not None:
        return _look(simulator, simulator.plan(options.seed), f"seed-{options.seed}", options)
    return _search(simulator, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m skyrocketmq.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, help=f"how many seeds in all ({DEFAULT_SEEDS}, unless there is a time)")
    parser.add_argument("--seconds", type=float, help="how long")
    parser.add_argument(
        "--from", type=int, default=1, dest="first", help="the first seed; those done before are skipped"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--folder", type=Path, default=Path(".simulation"), help="for the state and the stories")
    parser.add_argument("--failures", type=int, default=1, help="go on until so many seeds have failed")
    parser.add_argument("--shrink-seconds", type=float, default=60.0, help="how long a failing plan is made smaller")
    parser.add_argument("--seed", type=int, help="run this one only, and tell what it breaks")
    parser.add_argument("--plan", type=Path, help="run this plan only, as a story was written with")
    return parser


def _look(simulator: Simulator, plan: Any, name: str, options: argparse.Namespace) -> int:
    written = write_story(simulator, plan, options.folder, name=name, shrink_s=options.shrink_seconds)
    print(f"{name} breaks nothing" if written is None else f"{written.text}\npage: {written.page.absolute()}")
    return 0 if written is None else 1


def _search(simulator: Simulator, options: argparse.Namespace) -> int:
    seed_count = options.seeds if options.seeds or options.seconds else DEFAULT_SEEDS
    state = RunState(options.folder, code_version())
    seeds = seeds_for(first=options.first, seed_count=seed_count, seconds=options.seconds)
    now = Totals()
    began = told = monotonic()
    found: list[FailingSeed] = []
    try:
        for one in search(simulator, (seed for seed in seeds if not state.is_done(seed)), jobs=options.jobs):
            now.add(one)
            one.failing = [_tell_failing(simulator, failing, options) for failing in one.failing]
            found += one.failing
            state.add(one)
            if monotonic() - told > TOLD_EVERY_S:
                told = monotonic()
                state.save()
                rate = now.seeds / (told - began)
                print(f"{now.seeds:,} seeds, {rate:.1f} a second, the last {one.seed}; {len(found)} failed", flush=True)
            if len(found) >= options.failures:
                break
    finally:
        state.save()
    _tell_end(now, state, monotonic() - began, options)
    return 1 if found else 0


def _tell_failing(simulator: Simulator, failing: FailingSeed, options: argparse.Namespace) -> FailingSeed:
    print(f"\nseed {failing.seed} fails. {failing.check}: {failing.text}", flush=True)
    name = f"seed-{failing.seed}"
    written = write_story(
        simulator, simulator.plan(failing.seed), options.folder, name=name, shrink_s=options.shrink_seconds
    )
    if written is None:
        return failing
    print(f"{written.text}\npage: {written.page.absolute()}\nagain: --plan {written.plan}", flush=True)
    return msgspec.structs.replace(failing, page=str(written.page))


def _tell_end(now: Totals, state: RunState, seconds: float, options: argparse.Namespace) -> None:
    rate = now.seeds / seconds if seconds else 0.0
    print(f"\nthis time, from seed {options.first}: {seconds:.0f} s, {options.jobs} jobs, {rate:.1f} seeds a second:")
    for line in now.lines():
        print(f"  {line}")
    print(f"in all with this code ({state.path}):")
    for line in state.totals.lines():
        print(f"  {line}")
    for failing in state.totals.failing:
        print(f"  seed {failing.seed}: {failing.check}: {failing.text.splitlines()[-1]} {failing.page}")
