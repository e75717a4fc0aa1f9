"""Which tests run through which lines: recorded once for each file of tests, and again when the file has changed.

A pytest plug-in that notes, for each test, the lines of the target packages that ran while it did, and how long it
took. Lines are counted from the first one of their function, so that a record stays true when other functions grow.
Only what passes counts.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutation.mutants import functions
from tests.mutation.targets import LONG, OPTIONS, TESTS, module_of

Covered = dict[str, dict[str, Any]]  # test -> seconds, and lines by `module:function`
RECORDED_AT_A_TIME = 4
SECONDS_MAX = 20  # of a test; a longer one is of no use, with each mutant anew


class LinesLeft:
    """The lines of one piece of code that did not run yet in this test."""

    def __init__(self, code: CodeType) -> None:
        self.lines = frozenset(line for _, _, line in code.co_lines() if line)
        self.left = set(self.lines)

    def note(self, frame: FrameType, _event: str, _: object) -> Any:
        self.left.discard(frame.f_lineno)
        return self.note

    def take(self) -> frozenset[int]:
        """The lines that ran; from now on they are awaited again."""
        ran = self.lines - self.left
        self.left = set(self.lines)
        return ran


class Covering:
    """The plug-in, for one process."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._codes: dict[CodeType, LinesLeft | None] = {}
        self._ran: dict[LinesLeft, str] = {}  # in this test, with their modules
        self._functions: dict[str, dict[int, tuple[str, int]]] = {}  # by module and line: function, its first line
        self._tests: Covered = {}
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._ran = {}
        started = time.perf_counter()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            seconds = time.perf_counter() - started
            self._tests[item.nodeid] = {"seconds": round(seconds, 3), "lines": self._taken()}

    def _enter(self, frame: FrameType, _event: str, _: object) -> Any:
        code = frame.f_code
        try:
            lines = self._codes[code]
        except KeyError:
            is_asked = code.co_name != "<module>" and module_of(Path(code.co_filename))
            lines = self._codes[code] = LinesLeft(code) if is_asked else None
        if lines is None:
            return None
        self._ran.setdefault(lines, code.co_filename)
        return lines.note if lines.left else None

    def _taken(self) -> dict[str, list[int]]:
        taken: defaultdict[str, set[int]] = defaultdict(set)
        for lines, filename in list(self._ran.items()):
            module = module_of(Path(filename))
            if filename not in self._functions:
                self._functions[filename] = _functions_by_line(Path(filename).read_text())
            for line in lines.take():
                if found := self._functions[filename].get(line):
                    function, first = found
                    taken[f"{module}:{function}"].add(line - first)
        return {function: sorted(relative) for function, relative in taken.items()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        kept = {name: test for name, test in self._tests.items() if name not in self._failed and test["lines"]}
        self._target.write_text(json.dumps(kept))


def _functions_by_line(source: str) -> dict[int, tuple[str, int]]:
    return {
        line: (name, node.lineno)
        for name, node in functions(ast.parse(source))
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def covered(root: Path, state: Path) -> Covered:
    """What each test covers; files of tests that changed since are run for it, some at a time."""
    found_paths = (path for directory in TESTS for path in (root / directory).rglob("test_*.py"))
    paths = sorted(path for path in found_paths if path.name not in LONG)
    stored = {path: state / f"{_digest(path, root)}.json" for path in paths}
    missing = [path for path in paths if not stored[path].exists()]
    for begin in range(0, len(missing), RECORDED_AT_A_TIME):
        some = missing[begin : begin + RECORDED_AT_A_TIME]
        print(f"recording what tests run through: {begin} of {len(missing)} files", flush=True)
        found = _recorded([str(path.relative_to(root)) for path in some], state)
        for path in some:
            name = f"{path.relative_to(root).as_posix()}::"
            of_file = {test: lines for test, lines in found.items() if test.startswith(name)}
            stored[path].write_text(json.dumps(of_file))
    everything: Covered = {}
    for path in paths:
        everything |= json.loads(stored[path].read_text())
    return everything


def _digest(path: Path, root: Path) -> str:
    name = path.relative_to(root).as_posix()
    return f"covered-{hashlib.sha256(name.encode() + path.read_bytes()).hexdigest()[:16]}"


def _recorded(names: list[str], state: Path) -> Covered:
    target = state / "covered.new"
    target.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "tests.mutation.covering", str(target), *names], check=False)
    found: Covered = json.loads(target.read_text())
    return found


if __name__ == "__main__":
    pytest.main([*OPTIONS, f"--timeout={SECONDS_MAX}", *sys.argv[2:]], plugins=[Covering(Path(sys.argv[1]))])
