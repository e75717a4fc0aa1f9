"""The smallest plan that still breaks the same promise.

Rule 1: a plan is a frozen value made of frozen values. Everything in it that is a tuple of more can do with fewer:
faults, operations, actors. Everything that is a number of seconds or a count, by its name, can do with less.
Rule 2: a smaller plan counts if its run breaks the same promise; one that cannot be run at all does not.
Rule 3: it ends. Each step is kept only if the plan got smaller, and the runs are limited.

Tuples are shortened as in Zeller's ddmin: first without halves, then without ever smaller pieces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, cast

import msgspec

__all__ = ["Shrinking", "pieces_of"]

P = TypeVar("P")
Path = tuple[str | int, ...]
SHRINKING_NUMBERS = ("_s", "_count", "_bytes")  # how the names of numbers end that may be made smaller


class Shrinking(Generic[P]):
    """One search. `fails` runs a plan and tells whether it breaks the promise; `is_over` may end the search early."""

    def __init__(
        self,
        fails: Callable[[P], bool],
        *,
        runs_max: int = 400,
        is_over: Callable[[], bool] = lambda: False,
        is_fixed: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self._fails = fails
        self._runs_max = runs_max
        self._is_over = is_over
        self._is_fixed = is_fixed
        self._tried: dict[Any, bool] = {}
        self.run_count = 0

    def shrink(self, plan: P) -> P:
        """The plan itself is known to fail."""
        before = None
        while before != plan and self._goes_on():
            before = plan
            for path, items in list(pieces_of(plan)):
                if self._goes_on() and not self._is_fixed(_name(path)) and _get_or_none(plan, path) == items:
                    plan = self._shorten(plan, path, items)
            for path, number in list(_numbers_of(plan)):
                if self._goes_on() and not self._is_fixed(_name(path)) and _get_or_none(plan, path) == number:
                    plan = self._lessen(plan, path, number)
        return plan

    def _shorten(self, plan: P, path: Path, items: tuple[Any, ...]) -> P:
        size = len(items)
        while size and items and self._goes_on():
            start = 0
            while start < len(items) and self._goes_on():
                fewer = items[:start] + items[start + size :]
                smaller = _put(plan, path, fewer)
                if self._still_fails(smaller):
                    plan, items = smaller, fewer
                else:
                    start += size
            size = min(size, len(items)) // 2 if size > 1 else 0
        return plan

    def _lessen(self, plan: P, path: Path, number: float) -> P:
        for part in (0.0, 0.25, 0.5, 0.75):
            less = type(number)(number * part)
            smaller = _put(plan, path, less)
            if less < number and self._goes_on() and self._still_fails(smaller):
                return smaller
        return plan

    def _still_fails(self, plan: P) -> bool:
        key = msgspec.json.encode(plan)
        if key not in self._tried:
            self.run_count += 1
            try:
                self._tried[key] = self._fails(plan)
            except Exception:  # a plan without what another part of it needs: not the failure that is looked for
                self._tried[key] = False
        return self._tried[key]

    def _goes_on(self) -> bool:
        return self.run_count < self._runs_max and not self._is_over()


def pieces_of(plan: object, path: Path = ()) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """Every tuple in the plan that could be shorter, outer ones before those inside."""
    if isinstance(plan, tuple):
        if plan and not hasattr(plan, "_fields") and not isinstance(plan[0], str | int | float):
            yield path, plan
        for index, item in enumerate(plan):
            yield from pieces_of(item, (*path, index))
    for name in _fields(plan):
        yield from pieces_of(getattr(plan, name), (*path, name))


def _numbers_of(plan: object, path: Path = ()) -> Iterator[tuple[Path, float]]:
    if isinstance(plan, tuple):
        for index, item in enumerate(plan):
            yield from _numbers_of(item, (*path, index))
    for name in _fields(plan):
        value = getattr(plan, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            if value > 0 and name.endswith(SHRINKING_NUMBERS):
                yield (*path, name), value
        else:
            yield from _numbers_of(value, (*path, name))


def _fields(value: object) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    return ()


def _name(path: Path) -> str:
    return ".".join(step for step in path if isinstance(step, str))


def _get(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def _get_or_none(value: Any, path: Path) -> Any:
    try:
        return _get(value, path)
    except (IndexError, AttributeError):  # it went with a tuple that became shorter
        return None


def _put(value: P, path: Path, new: object) -> P:
    """The same value with another one at that place."""
    if not path:
        return cast("P", new)
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        assert isinstance(value, tuple)
        return cast("P", (*value[:step], _put(value[step], rest, new), *value[step + 1 :]))
    changed = _put(getattr(value, step), rest, new)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **{step: changed})
    return cast("P", dataclasses.replace(cast("Any", value), **{step: changed}))
