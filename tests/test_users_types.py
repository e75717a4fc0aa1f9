"""What users write is checked as strictly as what we write: the code of the documentation, and the examples."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from tests.docs_code import PAGES, ROOT, python_programs

EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def module_of(program: str) -> str:
    """What awaits outside of functions stands in a coroutine."""
    code = compile(program, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        return "async def main() -> None:\n" + indent(program, "    ")
    return program


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_code_of_the_documentation_and_the_examples_pass_a_strict_type_check(tmp_path: Path) -> None:
    files: list[Path] = []
    for page in PAGES:
        for number, program in enumerate(python_programs(page)):
            files.append(tmp_path / f"{page.stem.replace('-', '_').replace('.', '_')}_{number}.py")
            files[-1].write_text(module_of(program), encoding="utf-8")
    assert files, "the documentation has code"
    # With the project's own settings, so that what `make types` has found out about the package is used again.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *map(str, [*files, *EXAMPLES])],
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src" / "skyrocketmq" / "py.typed").exists()
