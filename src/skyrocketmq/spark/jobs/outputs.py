"""What jobs hand over besides their result: tables as Parquet, texts as tables for a terminal.

Rule: nothing is overwritten. A directory that is there already is refused before any work begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyrocketmq.errors import IllegalArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Parquet", "as_table", "refuse_used"]

TEXT_CHARACTERS_MAX: Final = 60
_TYPES: Final = {"int": "long", "str": "string", "float": "double", "bool": "boolean"}


def refuse_used(*, parquet: str | Path | None, report: str | Path | None) -> None:
    """Raises `IllegalArgument` for places that cannot be written to, as far as this machine can tell."""
    if parquet is not None and "://" not in str(parquet) and Path(parquet).exists():
        raise IllegalArgument(f"{parquet} is there already: tables are written to a directory that is not")
    if report is not None and not Path(report).parent.is_dir():
        raise IllegalArgument(f"the report cannot be written: {Path(report).parent} is no directory")


class Parquet:
    """A directory with a table in each of its subdirectories."""

    def __init__(self, spark: SparkSession, directory: str | Path) -> None:
        self._spark = spark
        self._directory = str(directory).rstrip("/")

    def write(self, name: str, kind: type[Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows whose columns are the fields of a dataclass of plain values."""
        columns = [(one.name, _TYPES[str(one.type).removesuffix(" | None")]) for one in fields(kind)]
        schema = ", ".join(f"`{column}` {spark_type}" for column, spark_type in columns)
        values = [tuple(row[column] for column, _ in columns) for row in rows]
        self.write_frame(name, self._spark.createDataFrame(values, schema).coalesce(1))

    def write_frame(self, name: str, frame: DataFrame) -> None:
        frame.write.parquet(f"{self._directory}/{name}")


def as_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    texts: int = 1,
    characters: int = TEXT_CHARACTERS_MAX,
) -> str:
    """Columns under their headings: the first `texts` to the left, numbers to the right; long texts are cut."""
    cells = [[heading.replace("_", " ") for heading in headings]]
    cells += [[_shown(value, characters) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    lines = [
        "  ".join(
            text.ljust(width) if column < texts else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def _shown(value: object, characters: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = "".join(char if char.isprintable() else "?" for char in str(value))
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
