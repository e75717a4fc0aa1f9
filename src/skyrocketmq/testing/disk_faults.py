"""What is to go wrong on a `FaultyDisk`, and when: errors, delays, the end of the power."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

__all__ = ["DiskCall", "PowerLost", "Troubles", "disk_error"]


class PowerLost(BaseException):
    """The power of a `FaultyDisk` is off. No `Exception`, so that code which heals its errors cannot heal this one."""


class DiskCall(NamedTuple):
    """One call that a program made."""

    operation: str
    path: Path

    def matches(self, operation: str, path: str) -> bool:
        return self.operation == operation and fnmatchcase(str(self.path), path)


class Outcome(NamedTuple):
    """What a call is to meet with."""

    error: OSError | None
    seconds: float
    written: float = 0.5  # of a write that fails, the share that is done all the same


_FINE = Outcome(None, 0.0)


@dataclass(slots=True)
class _Trouble:
    operation: str
    path: str
    after: int
    times: int | None
    error: int | None
    seconds: float
    written: float

    def meets(self, call: DiskCall) -> bool:
        """Whether this call is one of those; counts."""
        if self.times == 0 or not call.matches(self.operation, self.path):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class Troubles:
    """The errors and delays that were ordered and have not all come yet."""

    def __init__(self) -> None:
        self._ordered: list[_Trouble] = []

    def order(
        self,
        operation: str,
        path: str,
        *,
        after: int,
        times: int | None,
        error: int | None = None,
        seconds: float = 0.0,
        written: float = 0.5,
    ) -> None:
        self._ordered.append(_Trouble(operation, path, after, times, error, seconds, written))

    def clear(self) -> None:
        self._ordered.clear()

    def meet(self, call: DiskCall) -> Outcome:
        if not self._ordered:
            return _FINE
        met = [trouble for trouble in self._ordered if trouble.meets(call)]
        failing = next((trouble for trouble in met if trouble.error is not None), None)
        seconds = sum(trouble.seconds for trouble in met)
        if failing is None or failing.error is None:
            return Outcome(None, seconds)
        return Outcome(disk_error(failing.error, call.path), seconds, failing.written)


def disk_error(number: int, path: Path) -> OSError:
    """The error that the system raises for an error number: `FileNotFoundError` for `ENOENT` and so on."""
    return OSError(number, os.strerror(number), str(path))
