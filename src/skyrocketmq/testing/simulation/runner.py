"""Seeds, one after the other, each in a process of its own; what they found, and how far one has come.

Rule 1: a seed fails if a promise is broken, if its run raises or does not end, or if it is another run the second time.
Rule 2: what a seed showed counts for the code that it was run with, and once. The state file has the totals of each
version of the code and its seeds, so that a long search can be interrupted and goes on where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import count, takewhile
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import msgspec

import skyrocketmq
from skyrocketmq.testing.simulation.checks import Violation, check
from skyrocketmq.testing.simulation.forks import Died, run_each
from skyrocketmq.testing.simulation.history import History
from skyrocketmq.testing.simulation.totals import FailingSeed, Totals, totals_of

__all__ = ["RunState", "Simulator", "code_version", "search", "seeds_for"]

REPEATED_EVERY = 50  # every so many seeds one is run again, and must be the same run
RUN_TIMEOUT_S = 100.0  # of processor time; most take a second or two


class Simulator(NamedTuple):
    """What the runner needs to know of the simulation."""

    plan: Callable[[int], Any]
    run: Callable[[Any], History]


def search(
    simulator: Simulator, seeds: Iterable[int], *, jobs: int = 1, repeated_every: int = REPEATED_EVERY
) -> Iterator[Totals]:
    """The totals of each seed, as it ends."""

    def work(seed: int) -> Totals:
        return _run_seed(simulator, seed, is_repeated=bool(repeated_every) and seed % repeated_every == 0)

    for seed, result in run_each(work, seeds, jobs=jobs, timeout_s=RUN_TIMEOUT_S):
        if isinstance(result, Died):
            yield Totals(seed=seed, seeds=1, failing=[FailingSeed(seed, "runs to its end", result.why)])
        else:
            yield result


def _run_seed(simulator: Simulator, seed: int, *, is_repeated: bool) -> Totals:
    began = monotonic()
    history = simulator.run(simulator.plan(seed))
    violations = check(history)
    if is_repeated:
        again = simulator.run(simulator.plan(seed))
        if again.digest() != history.digest():
            violations.insert(0, Violation("same seed, same run", _first_difference(history, again)))
    totals = totals_of(history, violations, real_s=monotonic() - began)
    totals.repeated = int(is_repeated)
    return totals


def _first_difference(one: History, other: History) -> str:
    for first, second in zip(one, other, strict=False):
        if first != second:
            return f"{first} the first time, {second} the second"
    return f"{len(one)} events the first time, {len(other)} the second"


def seeds_for(*, first: int, seed_count: int | None, seconds: float | None) -> Iterator[int]:
    """From the first on, so many of them or for so long."""
    seeds: Iterator[int] = iter(range(first, first + seed_count)) if seed_count is not None else count(first)
    if seconds is None:
        return seeds
    end = monotonic() + seconds
    return takewhile(lambda _: monotonic() < end, seeds)


class VersionState(msgspec.Struct):
    totals: Totals = msgspec.field(default_factory=Totals)
    done: list[tuple[int, int]] = msgspec.field(default_factory=list)


class RunState:
    """What every version of the code has shown, in one file."""

    def __init__(self, folder: Path, version: str) -> None:
        self.path = folder / "state.json"
        self._all = self._load()
        self._ours = self._all.setdefault(version, VersionState())

    @property
    def totals(self) -> Totals:
        return self._ours.totals

    def is_done(self, seed: int) -> bool:
        return any(first <= seed <= last for first, last in self._ours.done)

    def add(self, totals: Totals) -> None:
        self._ours.totals.add(totals)
        if totals.seed is not None:
            self._ours.done = _with_seed(self._ours.done, totals.seed)

    def _load(self) -> dict[str, VersionState]:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=dict[str, VersionState])
        except FileNotFoundError:
            return {}

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(self._all), indent=1))
        fresh.replace(self.path)


def _with_seed(done: list[tuple[int, int]], seed: int) -> list[tuple[int, int]]:
    """Ranges, both ends included, that also hold this seed; neighbours become one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted([*done, (seed, seed)]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def code_version() -> str:
    """One short text for the source of the whole package: other code, other findings."""
    root = Path(skyrocketmq.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
