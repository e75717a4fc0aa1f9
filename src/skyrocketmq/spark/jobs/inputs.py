"""Where the jobs that look at messages find them: a cluster, a store directory, or Parquet that `archive` has written.

Rule 1: exactly one of the three is given. Times are store times, from `since_ms` up to `until_ms`, without it.
Rule 2: whatever the place, columns have the same names and meanings; those that are asked for are read, no others.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from skyrocketmq.spark.jobs.archive_reading import read_archive
from skyrocketmq.spark.jobs.arguments import moment_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OWN_TOPICS", "Input", "add_input_arguments", "input_of", "window_ms_of"]

# Topics of users: what the system itself writes is left out unless it is named.
OWN_TOPICS: Final = (
    "(?!"
    + "|".join(map(re.escape, (RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX)))
    + "|(?:"
    + "|".join(map(re.escape, sorted(SYSTEM_TOPICS)))
    + ")$).+"
)


@dataclass(frozen=True, kw_only=True)
class Input:
    """One of the places, and the time range that counts."""

    namesrv: str = ""
    store: str | Path | None = None
    archive: str | Path | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)  # of the format: for access, TLS, or the store reader

    def __post_init__(self) -> None:
        given = [name for name in ("namesrv", "store", "archive") if getattr(self, name)]
        if len(given) != 1:
            said = " and ".join(given) if given else "none"
            raise IllegalArgument(f"messages come from one of namesrv, store and archive: {said} is given")
        if self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms:
            raise IllegalArgument(
                f"the time range is empty: from {_utc(self.since_ms)} up to {_utc(self.until_ms)}, without it"
            )

    @property
    def name(self) -> str:
        """For people."""
        place = f"cluster {self.namesrv}" if self.namesrv else f"store {self.store}" if self.store else None
        bounds = (("from", self.since_ms), ("to", self.until_ms))
        times = [f"{word} {_utc(time_ms):%Y-%m-%d %H:%M:%S}" for word, time_ms in bounds if time_ms is not None]
        return " ".join([place or f"archive {self.archive}", *times])

    def read(
        self, spark: SparkSession, columns: Sequence[str], *, topics: Sequence[str] = (), pattern: str = OWN_TOPICS
    ) -> DataFrame:
        """The messages of these topics, or of all that match the pattern."""
        if self.namesrv:
            return self._of_cluster(spark, columns, topics, pattern)
        found = self._of_store(spark, columns, topics) if self.store else read_archive(spark, str(self.archive))
        topic = found["topic"]
        found = found.where(topic.isin(list(topics)) if topics else topic.rlike(f"^(?:{pattern})$"))
        if self.since_ms is not None:
            found = found.where(found["store_timestamp"] >= _utc(self.since_ms))
        if self.until_ms is not None:
            found = found.where(found["store_timestamp"] < _utc(self.until_ms))
        return found.select(*columns)

    def _of_cluster(
        self, spark: SparkSession, columns: Sequence[str], topics: Sequence[str], pattern: str
    ) -> DataFrame:
        reader = spark.read.format("rocketmq").schema(_schema(columns)).option("namesrv", self.namesrv)
        reader = reader.options(**dict(self.options))
        reader = reader.option("subscribe", ",".join(topics)) if topics else reader.option("subscribePattern", pattern)
        if self.since_ms is not None:
            reader = reader.option("startingTimestamp", self.since_ms)
        if self.until_ms is not None:
            reader = reader.option("endingTimestamp", self.until_ms)
        return reader.load()

    def _of_store(self, spark: SparkSession, columns: Sequence[str], topics: Sequence[str]) -> DataFrame:
        wanted = list(dict.fromkeys([*columns, "topic", "store_timestamp"]))
        reader = spark.read.format("rocketmq-store").schema(_schema(wanted)).options(**dict(self.options))
        if topics:
            reader = reader.option("subscribe", ",".join(topics))
        return reader.load(str(self.store))


def _schema(columns: Sequence[str]) -> Any:
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    from skyrocketmq.spark.columns import SCHEMA

    return from_arrow_schema(pa.schema([SCHEMA.field(name) for name in columns]))


# ------------------------------------------------------------------------------------------------------ command line


def add_input_arguments(parser: argparse.ArgumentParser, *, with_topics: bool = True) -> None:
    """The options of which `input_of` makes an `Input`."""
    group = parser.add_argument_group("messages", "from the cluster, unless one of --store and --archive is given")
    if with_topics:
        group.add_argument(
            "-t", "--topics", metavar="TOPIC[,TOPIC]", help="which topics (default: all but the system's own)"
        )
    group.add_argument("--store", metavar="DIR", type=Path, help="a store directory, with no broker")
    group.add_argument("--archive", metavar="DIR", help="Parquet that the job archive has written")
    group.add_argument("--since", metavar="TIME", help="stored then or later: 2024-05-01T12:00 (UTC), or milliseconds")
    group.add_argument("--until", metavar="TIME", help="stored before that")


def input_of(arguments: argparse.Namespace) -> Input:
    is_elsewhere = bool(arguments.store or arguments.archive)
    return Input(
        namesrv="" if is_elsewhere else arguments.namesrv,
        store=arguments.store,
        archive=arguments.archive,
        since_ms=moment_ms(arguments.since, option="--since"),
        until_ms=moment_ms(arguments.until, option="--until"),
        options={} if is_elsewhere else arguments.connection,
    )


_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def window_ms_of(text: str) -> int:
    """A length of time: 500ms, 30s, 1m, 2h, 1d. Raises `IllegalArgument`."""
    match = re.fullmatch(r"([1-9]\d{0,8})\s*(ms|s|m|h|d)", text.strip())
    if match is None:
        raise IllegalArgument(f"a window is {text!r}: write a number and ms, s, m, h or d, as 1m")
    return int(match[1]) * _UNITS_MS[match[2]]


def _utc(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)
