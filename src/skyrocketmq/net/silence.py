"""How long something has stood still, found by looking now and then instead of noting each change.

A connection counts what it reads and writes; a coarse timer hands the counts to a `Silence`. So a message pays
nothing for the idle time-out, and the time-out comes late by one interval of the timer at most.
"""

from __future__ import annotations

__all__ = ["CHECKS_PER_LIMIT", "Silence"]

CHECKS_PER_LIMIT = 12  # a limit of 120 s is looked after every 10 s


class Silence:
    """What the counters said when they were last seen to change, and the time of that look."""

    __slots__ = ("_mark", "_since")

    def __init__(self, mark: object, now: float) -> None:
        self._mark = mark
        self._since = now

    def seconds(self, mark: object, now: float) -> float:
        """For how long the counters have said the same, as far as the looks so far can tell."""
        if mark != self._mark:
            self._mark = mark
            self._since = now
        return now - self._since
