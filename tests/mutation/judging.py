"""One mutant, judged: a child of this process takes it in and runs the tests that go through its lines.

All tests are collected once, and each child is forked from there: a verdict costs the tests and little else. The tests
that promise most come first, and the first that fails ends it.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.mutation.applying import NotApplicable, apply
from tests.mutation.covering import Covered
from tests.mutation.mutants import Mutant
from tests.mutation.targets import OPTIONS

TESTS_MAX = 120
OWN_TESTS_FIRST = 20  # times as much may a test of the module itself last before another one goes first,
KINDRED_TESTS_FIRST = 6  # and so much one whose file shares a word with it: `test_pull_refusals` with `pull_rules`
PASSED, FAILED, NOT_APPLICABLE = 0, 1, 77


class Verdict(StrEnum):
    KILLED = "killed"
    TIMED_OUT = "killed by time"
    SURVIVED = "survived"
    NOT_COVERED = "not covered"
    NOT_APPLICABLE = "not applicable"
    NOT_JUDGED = "not judged"  # its tests fail on good code, or could not be run


KILLS = (Verdict.KILLED, Verdict.TIMED_OUT)


@dataclass(frozen=True, eq=False)
class Trial:
    """A mutant with its tests, in the order in which they are asked."""

    module: str
    mutant: Mutant | None  # None for a control: the code as it is
    tests: tuple[str, ...]
    seconds: Mapping[str, float]  # that each test takes on good code


def trial_of(module: str, mutant: Mutant, covered: Covered, *, seconds_max: float) -> Trial:
    function = f"{module}:{mutant.function}"
    through = {name: test["lines"][function] for name, test in covered.items() if function in test["lines"]}
    of_line = {name for name, lines in through.items() if any(line in mutant.lines for line in lines)}
    seconds = {name: covered[name]["seconds"] for name in of_line}
    ordered = sorted(of_line, key=lambda name: seconds[name] / _promise(module, name))
    chosen: list[str] = []
    total = 0.0
    for name in ordered[:TESTS_MAX]:
        if not chosen or total + seconds[name] <= seconds_max:
            chosen.append(name)
            total += seconds[name]
    return Trial(module, mutant, tuple(chosen), {name: seconds[name] for name in chosen})


def _promise(module: str, test: str) -> int:
    stem = module.rpartition(".")[2]
    of_file = test.partition("::")[0].rpartition("/test_")[2].removesuffix(".py")
    if of_file == stem:
        return OWN_TESTS_FIRST
    return KINDRED_TESTS_FIRST if set(of_file.split("_")) & set(stem.split("_")) else 1


def with_tests(names: Sequence[str], use: Callable[[Mapping[str, pytest.Item]], None]) -> None:
    """Collect tests, and hand them over by name instead of running them."""
    pytest.main([*OPTIONS, "-s", *names], plugins=[_InsteadOfRunning(use)])


class _InsteadOfRunning:
    def __init__(self, use: Callable[[Mapping[str, pytest.Item]], None]) -> None:
        self._use = use

    def pytest_collection(self) -> None:
        """What Hypothesis finds in a mutant is not kept for good code, and not made smaller for anybody."""
        phases = (Phase.explicit, Phase.generate, Phase.target)
        settings.register_profile("mutants", settings(), database=None, derandomize=True, phases=phases)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._use({item.nodeid: item for item in session.items})
        return True


@dataclass
class _Child:
    trial: Trial
    reading: int  # the pipe's end: closed by its death, and by then it has told which test failed
    deadline: float
    directory: Path


class Judge:
    """As many children at a time as there are jobs."""

    def __init__(self, items: Mapping[str, pytest.Item], jobs: int) -> None:
        self._items = items
        self._jobs = jobs
        self._trusted: dict[str, bool] = {}  # whether a test that failed passes on good code
        self._running: dict[int, _Child] = {}

    def judge(self, trials: Iterable[Trial]) -> Iterator[tuple[Trial, Verdict]]:
        """Verdicts as they come."""
        for trial in trials:
            known = replace(trial, tests=tuple(name for name in trial.tests if name in self._items))
            if not trial.tests:
                yield trial, Verdict.NOT_COVERED
            elif not known.tests:
                yield trial, Verdict.NOT_JUDGED
            else:
                while len(self._running) >= self._jobs:
                    yield from self._wait()
                self._start(known)
        while self._running:
            yield from self._wait()

    def _start(self, trial: Trial) -> None:
        reading, writing = os.pipe()
        directory = Path(tempfile.mkdtemp(prefix="mutant-"))
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            os.close(reading)
            _run(trial, [self._items[name] for name in trial.tests], writing, directory)
        os.close(writing)
        deadline = time.monotonic() + 30 + 4 * sum(trial.seconds.values())
        self._running[pid] = _Child(trial, reading, deadline, directory)

    def _wait(self) -> list[tuple[Trial, Verdict]]:
        """What came of the children that ended, at least one; a trial may have been begun again instead."""
        ended: list[tuple[_Child, int, bool]] = []
        while not ended:
            next_deadline = min(child.deadline for child in self._running.values())
            ends = [child.reading for child in self._running.values()]
            select.select(ends, [], [], max(next_deadline - time.monotonic(), 0))
            for pid, child in list(self._running.items()):
                is_late = time.monotonic() >= child.deadline
                if is_late:
                    os.killpg(pid, signal.SIGKILL)
                found, status = os.waitpid(pid, 0 if is_late else os.WNOHANG)
                if found:
                    with contextlib.suppress(ProcessLookupError):  # what it started and left behind
                        os.killpg(pid, signal.SIGKILL)
                    del self._running[pid]
                    ended.append((child, status, is_late))
            if not ended:
                time.sleep(0.005)  # the pipe speaks a moment before the process has ended
        return [verdict for child, status, is_late in ended for verdict in self._verdicts(child, status, is_late)]

    def _verdicts(self, child: _Child, status: int, is_late: bool) -> list[tuple[Trial, Verdict]]:
        failed = os.read(child.reading, 65536).decode()
        os.close(child.reading)
        shutil.rmtree(child.directory, ignore_errors=True)
        trial = child.trial
        if is_late:
            return [(trial, Verdict.TIMED_OUT)]
        code = os.waitstatus_to_exitcode(status)
        if code == NOT_APPLICABLE:
            return [(trial, Verdict.NOT_APPLICABLE)]
        if code == PASSED:
            return [(trial, Verdict.SURVIVED)]
        if trial.mutant is None or not failed:
            return [(trial, Verdict.KILLED if failed else Verdict.NOT_JUDGED)]
        if self._is_trusted(failed, trial):
            return [(trial, Verdict.KILLED)]
        rest = replace(trial, tests=tuple(name for name in trial.tests if name != failed))
        if not rest.tests:
            return [(trial, Verdict.NOT_JUDGED)]
        self._start(rest)
        return []

    def _is_trusted(self, test: str, trial: Trial) -> bool:
        if test not in self._trusted:
            before = trial.tests[: trial.tests.index(test) + 1]
            control = Judge(self._items, 1)
            control._start(replace(trial, mutant=None, tests=before))
            ((_, verdict),) = control._wait()
            self._trusted[test] = verdict is Verdict.SURVIVED
        return self._trusted[test]


def _run(trial: Trial, items: Sequence[pytest.Item], writing: int, directory: Path) -> None:
    """In the child: take the mutant in, run its tests up to the first that fails, say which, and end."""
    os.setpgid(0, 0)
    code = FAILED
    with contextlib.suppress(BaseException):
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silent, descriptor)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
        try:
            if trial.mutant is not None:
                apply(f"skyrocketmq.{trial.module}", trial.mutant)
        except NotApplicable:
            os._exit(NOT_APPLICABLE)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.add_marker(pytest.mark.timeout(4 + 4 * trial.seconds[item.nodeid]))
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed:
                os.write(writing, item.nodeid.encode())
                break
        else:
            code = PASSED
    os._exit(code)
