"""Both forms of the hot modules in one process, whichever of them the program runs.

    @pytest.mark.parametrize("cells", forms_of("cells"))
    def test_a_scan_of_nothing_takes_nothing(cells: Any) -> None: ...

Where nothing is compiled, tests of the compiled form are skipped; in CI that is an error.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from skyrocketmq import hot
from skyrocketmq.hot.form import Unusable, compiled_modules

__all__ = ["FOLDER", "compiled_form", "find_compiled", "forms_of", "plain_form"]

FOLDER = Path(hot.__file__).parent


@cache
def find_compiled() -> dict[str, ModuleType] | str:
    """The compiled modules, or why there are none."""
    try:
        return compiled_modules(FOLDER)
    except Unusable as error:
        if os.environ.get("CI"):
            raise
        return f"{error} (make compile)"


def plain_form(name: str) -> Any:
    """A module in its plain form. The type is Any, because the compiled one offers the same names."""
    return import_module(f"skyrocketmq.hot.{name}")


def compiled_form(name: str) -> Any:
    """The same module compiled. Skips the test that asks if there is none."""
    found = find_compiled()
    if isinstance(found, str):
        pytest.skip(found)
    return found[name]


def forms_of(name: str) -> list[Any]:
    """Parameters of a test: the plain form of a module and the compiled one."""
    found = find_compiled()
    if isinstance(found, str):
        compiled = pytest.param(None, id="compiled", marks=pytest.mark.skip(found))
    else:
        compiled = pytest.param(found[name], id="compiled")
    return [pytest.param(plain_form(name), id="plain"), compiled]
