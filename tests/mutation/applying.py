"""Putting a mutant into a running process: the code of one function is exchanged, wherever it is known already."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.mutation.mutants import Mutant, mutated


class NotApplicable(Exception):
    """The function cannot be exchanged: it is made anew at each call of another, or its closure would change."""


def apply(module_name: str, mutant: Mutant) -> None:
    """Let this process run the mutant from now on."""
    module = sys.modules[module_name]
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    compiled = compile(mutated(source, mutant), module.__file__, "exec", dont_inherit=True)
    codes = [code for code in _codes(compiled) if code.co_qualname == mutant.function]
    functions = [function for function in functions_of(module) if function.__code__.co_qualname == mutant.function]
    if len(codes) != 1 or not functions:
        raise NotApplicable(f"{module_name}: {mutant.function} is there {len(functions)} times")
    for function in functions:
        try:
            function.__code__ = codes[0]
        except ValueError as error:
            raise NotApplicable(str(error)) from error


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Every function that the module defines, those of its classes too."""
    for value in list(vars(module).values()):
        yield from _functions(value, module.__name__)


def _functions(value: Any, module_name: str) -> Iterator[FunctionType]:
    if isinstance(value, type):
        if value.__module__ == module_name:
            for member in list(vars(value).values()):
                yield from _functions(member, module_name)
        return
    if isinstance(value, property):
        for accessor in (value.fget, value.fset):
            yield from _functions(accessor, module_name)
        return
    value = getattr(value, "__func__", value)  # of a static or a class method
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    if isinstance(value, FunctionType) and value.__module__ == module_name:
        yield value


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
