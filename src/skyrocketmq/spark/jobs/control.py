"""What a job and whoever runs it tell each other: how far it is, that it should end, and what came of it.

Rule 1: a job calls `begin`, `add_rows` and `check`; the command line shows what they say and calls `stop`. Neither
knows the other. Every method may be called from any thread.
Rule 2: a job that works in steps, each of which is whole or not at all, does so inside `in_steps`: it looks at
`is_stopping` between them. Of any other job Spark's tasks are cancelled when it should stop.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from skyrocketmq.errors import MQError

__all__ = ["Control", "JobResult", "JobStopped"]


class JobStopped(MQError):
    """The job was asked to stop, and did so before its end."""


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """What a job found or did. Fields are plain values, so that they can be printed as JSON."""

    @property
    def exit_code(self) -> int:
        """With what the command ends: 0, unless the result itself is bad news."""
        return 0

    def text(self) -> str:
        """For people: a line a field; a job that has a better picture draws it here."""
        named: list[tuple[str, Any]] = [(one.name.replace("_", " "), getattr(self, one.name)) for one in fields(self)]
        width = max((len(name) for name, _ in named), default=0)
        return "\n".join(f"{name:<{width}}  {_shown(value)}" for name, value in named)


class Control:
    """One run of a job, as seen from outside and from inside."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # guards the fields below; nothing is called while it is held
        self._phase = "starting"
        self._row_count = 0
        self._steps_open = 0

    # --------------------------------------------------------------------------------------------- for the job

    def begin(self, phase: str) -> None:
        """Say what is being done now, in a word or two."""
        self.check()
        with self._lock:
            self._phase = phase

    def add_rows(self, count: int) -> None:
        """So many rows more are done."""
        with self._lock:
            self._row_count += count

    def check(self) -> None:
        """Raise `JobStopped` if the job should end."""
        if self.is_stopping and not self.is_in_steps:
            raise JobStopped("stopped before the end")

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the job should stop; whether it should."""
        return self._stopping.wait(seconds)

    @contextmanager
    def in_steps(self) -> Iterator[None]:
        """The job ends by itself, between two steps: nothing is cancelled meanwhile."""
        with self._lock:
            self._steps_open += 1
        try:
            yield
        finally:
            with self._lock:
                self._steps_open -= 1

    # --------------------------------------------------------------------------------------- for who runs it

    def stop(self) -> None:
        """Ask the job to end."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def is_in_steps(self) -> bool:
        with self._lock:
            return self._steps_open > 0

    @property
    def phase(self) -> str:
        with self._lock:
            return self._phase

    @property
    def row_count(self) -> int:
        with self._lock:
            return self._row_count


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return str(value)
