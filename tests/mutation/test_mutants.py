"""The tool itself: what it breaks, and that a broken rule is seen."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

from tests.mutation.applying import apply
from tests.mutation.mutants import Mutant, mutants, mutated
from tests.mutation.targets import all_modules, path_of, rule_modules

SOURCE = '''
def grow(limit: int, sizes: list[int]) -> int:
    """Add them up, 7 at most."""
    total = 0
    for size in sizes:
        if size < limit and not size == 3:
            total += size
        elif is_over(size):
            break
    logger.info("done 5", extra={"total": total})
    if total > 7:
        raise ValueError(f"too much: {total + 1}")
    return max(total, 1)
'''


JUDGING = """
from tests.mutation.judging import Judge, Trial, with_tests
from tests.mutation.mutants import mutants
from tests.mutation.targets import path_of
import skyrocketmq.ha.rules

found = mutants(path_of("ha.rules").read_text())
files = ["tests/ha/test_rules.py", "tests/model/test_flags.py"]

def use(items):
    by_file = [tuple(name for name in items if name.startswith(file)) for file in files]
    for tests in (*by_file, ("tests/ha/no_such_test.py::test",)):
        trial = Trial("ha.rules", found[0], tests, dict.fromkeys(tests, 1.0))
        print(*[str(verdict) for _, verdict in Judge(items, 1).judge([trial])])

with_tests(files, use)
"""


def test_what_decides_or_does_something_is_broken_once_each() -> None:
    assert [(mutant.kind, mutant.what) for mutant in mutants(SOURCE)] == [
        ("constant", "0 -> 1"),
        ("and-or", "`size < limit and (not size == 3)` with Or"),
        ("compare", "`size < limit` with LtE for Lt"),
        ("not", "`not size == 3` without not"),
        ("compare", "`size == 3` with NotEq for Eq"),
        ("constant", "3 -> 4"),
        ("left out", "without `total += size`"),
        ("condition", "not (is_over(size))"),
        ("loop", "break -> continue"),
        ("compare", "`total > 7` with GtE for Gt"),
        ("constant", "7 -> 8"),
        ("left out", "without `raise ValueError(f'too much: {total + 1}')`"),
        ("call", "max -> min"),
        ("constant", "1 -> 2"),
    ]


@pytest.mark.parametrize("mutant", mutants(SOURCE), ids=lambda mutant: mutant.name)
def test_each_mutant_is_another_program(mutant: Mutant) -> None:
    changed = mutated(SOURCE, mutant)
    compile(changed, "grow", "exec")
    assert ast.unparse(changed) != ast.unparse(ast.parse(SOURCE))


def test_a_mutant_is_taken_in_wherever_the_function_is_known() -> None:
    from skyrocketmq.broker import transaction_rules

    known = next(value for value in vars(transaction_rules).values() if isinstance(value, FunctionType))
    source = path_of("broker.transaction_rules").read_text()
    mutant = next(mutant for mutant in mutants(source) if mutant.function == known.__qualname__)
    before = known.__code__
    try:
        apply("skyrocketmq.broker.transaction_rules", mutant)
        assert known.__code__ is not before
    finally:
        known.__code__ = before


def test_every_target_is_a_module_with_something_to_break() -> None:
    assert {"ha.rules", "store.flushing", "broker.queue_locks", "client.allocation"} <= set(rule_modules())
    assert set(rule_modules()) < set(all_modules())
    assert all(mutants(path_of(module).read_text()) for module in rule_modules())


def test_a_judge_tells_a_mutant_that_is_noticed_from_one_that_is_not(tmp_path: Path) -> None:
    """In a process of its own: it forks, and the children run pytest."""
    program = tmp_path / "judge.py"
    program.write_text(JUDGING)
    root = Path(__file__).parents[2]
    said = subprocess.run(
        [sys.executable, str(program)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert said.stdout.splitlines()[:3] == ["killed", "survived", "not judged"], said.stderr
