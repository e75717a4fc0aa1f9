"""Measurements of several rounds, their medians, and how they are shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from statistics import median

from benchmarks import observe

APACHE = "apache"
OURS = "ours"
PLAIN = "plain"  # ours without compiled modules
BEFORE = "before"  # ours at an earlier commit


class Better(Enum):
    """Which way a measurement should go."""

    MORE = "more"
    LESS = "less"


@dataclass
class Row:
    """One measurement, of ours and of another, over all rounds."""

    name: str
    unit: str
    better: Better
    goal: float | None = None  # the ratio, ours to the other's, that we promise
    limit: float | None = None  # what we promise of ours, whatever the other's is
    is_detail: bool = False  # for the JSON file only
    beside: str = APACHE  # whose values ours are compared with
    subject: str = OURS  # what of ours is compared: another form of it has another name
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, server: str, value: float) -> None:
        self.values.setdefault(server, []).append(value)

    def median_of(self, server: str) -> float | None:
        return median(self.values[server]) if self.values.get(server) else None

    @property
    def ratio(self) -> float | None:
        """Ours to the other's."""
        ours, others = self.median_of(self.subject), self.median_of(self.beside)
        return ours / others if ours is not None and others else None

    @property
    def is_met(self) -> bool:
        """Not missed: what was not measured is not."""
        return all(self._holds(value, promised) for value, promised in self._promises if value is not None)

    @property
    def verdict(self) -> str:
        if not self.is_met:
            return "missed"
        return "met" if all(value is not None for value, _ in self._promises) else "not measured"

    @property
    def _promises(self) -> list[tuple[float | None, float]]:
        """What was measured, and what was promised of it."""
        each = [(self.ratio, self.goal), (self.median_of(self.subject), self.limit)]
        return [(value, promised) for value, promised in each if promised is not None]

    def _holds(self, value: float, promised: float) -> bool:
        return value >= promised if self.better is Better.MORE else value <= promised


@dataclass
class Report:
    """A benchmark's rows and what they were measured with."""

    name: str
    settings: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    others: str = "Apache's"  # heads the column of what ours are compared with
    ours: str = "ours"  # heads the column of ours

    def row(
        self,
        name: str,
        unit: str,
        better: Better,
        goal: float | None = None,
        *,
        limit: float | None = None,
        is_detail: bool = False,
        beside: str = APACHE,
        subject: str = OURS,
    ) -> Row:
        """The row of that name, made on first use."""
        for row in self.rows:
            if row.name == name:
                return row
        self.rows.append(Row(name, unit, better, goal, limit, is_detail, beside, subject))
        return self.rows[-1]

    def table(self) -> str:
        cells = [("", "unit", self.others, self.ours, "ratio", "goal")]
        cells += [
            (
                row.name,
                row.unit,
                _number(row.median_of(row.beside)),
                _number(row.median_of(row.subject)),
                "" if row.ratio is None else f"{row.ratio:.2f}",
                _goal(row),
            )
            for row in self.rows
            if not row.is_detail
        ]
        widths = [max(len(line[column]) for line in cells) for column in range(6)]
        lines = [
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in cells
        ]
        heading = f"{self.name}: " + ", ".join(f"{key} {value}" for key, value in self.settings.items())
        return "\n".join([heading, *lines])


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:,.2f}"


def _goal(row: Row) -> str:
    sign = ">=" if row.better is Better.MORE else "<="
    promised = [f"{sign} {row.goal:.3g}"] if row.goal is not None else []
    promised += [f"{sign} {row.limit:g} {row.unit}"] if row.limit is not None else []
    if not promised:
        return ""
    return f"{', '.join(promised)}: {row.verdict}"


def write_json(reports: Sequence[Report], path: Path) -> None:
    """Everything, round by round, for a program to read."""
    content = {
        "machine": observe.machine(),
        "benchmarks": [
            {
                "name": report.name,
                "settings": report.settings,
                "rows": [
                    {**asdict(row), "better": row.better.value, "ratio": row.ratio, "is_met": row.is_met}
                    for row in report.rows
                ],
            }
            for report in reports
        ],
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
