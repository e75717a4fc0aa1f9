"""Where the time of a run went: the ten units that took longest, printed at its end.

A unit is what `spread.py` keeps on one worker. Its figures there are to be kept near those printed here.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

SHOWN: Final = 10
WORTH_SHOWING_S: Final = 5.0


class UnitTimes:
    """A plugin of pytest, in the process that prints: adds up what each unit's tests and fixtures took."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        from tests.spread import unit_of  # here: pytest-xdist need not be there

        unit = unit_of(report.nodeid)
        self.seconds[unit] += report.duration  # type: ignore[assignment]  # a counter of floats
        self.tests[unit] += report.when == "call"

    def lines(self) -> list[str]:
        return [
            f"{seconds:7.1f} s  {self.tests[unit]:4} tests  {unit}"
            for unit, seconds in self.seconds.most_common(SHOWN)
            if seconds >= WORTH_SHOWING_S
        ]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if lines := self.lines():
            terminalreporter.section("units that took longest", sep="-")
            for line in lines:
                terminalreporter.write_line(line)
