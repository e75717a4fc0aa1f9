"""The comparing of an audit, on Spark: sums of all parts, then the rows of those that differ.

Rows that differ are put together into runs before they leave Spark: a queue that was lost is one line and no million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from skyrocketmq.spark.jobs.audit_reading import Rules
from skyrocketmq.spark.jobs.audit_tasks import DETAIL_SCHEMA, SUMMARY_SCHEMA, Groups, detail_rows, summary_rows

__all__ = ["differing", "rows_of", "runs_of_cells", "runs_of_entries", "summary"]

RUNS_MAX: Final = 10_000

_Task = Callable[[Iterable[int]], Iterator[tuple[Any, ...]]]


def summary(spark: SparkSession, groups: Groups, starts: Sequence[int], rules: Rules) -> list[Row]:
    """One pass over everything. Sums of a part of the log come together here, from all queues and index files."""
    task = partial(summary_rows, groups=groups, starts=tuple(starts), rules=rules)
    found = _tasks(spark, len(groups), task, SUMMARY_SCHEMA)
    measures = {"amount", "size", "digest"}
    keys = [name for name in found.columns if name not in measures]
    return (
        found.groupBy(*keys)
        .agg(f.sum("amount").alias("amount"), f.sum("size").alias("size"), f.bit_xor("digest").alias("digest"))
        .collect()
    )


def differing(rows: Sequence[Row]) -> frozenset[tuple[str, int]]:
    """The (kind, part of the log) whose two sides do not hold the same."""
    sides: dict[tuple[str, int], dict[str, tuple[int, int]]] = {}
    for row in rows:
        if row["kind"] in ("cells", "entries"):
            sides.setdefault((row["kind"], row["part"]), {})[row["side"]] = (row["amount"], row["digest"])
    return frozenset(place for place, both in sides.items() if both.get("log") != both.get("other"))


def rows_of(
    spark: SparkSession, groups: Groups, starts: Sequence[int], wanted: frozenset[tuple[str, int]], rules: Rules
) -> DataFrame:
    """The cells and entries of both sides that lead into these parts of the log."""
    task = partial(detail_rows, groups=groups, starts=tuple(starts), wanted=wanted, rules=rules)
    return _tasks(spark, len(groups), task, DETAIL_SCHEMA)


def runs_of_cells(rows: DataFrame) -> list[Row]:
    """Places of queues that are not as the log says, neighbours together.

    `problem` is missing (no cell where a message belongs), stray (a cell that no message belongs to) or wrong (a cell
    with other values than its message's).
    """
    names = ("log_offset", "size", "tags_code")
    sides = {"should": "log", "is": "other"}
    # Of a topic that was made again the log has two messages for a place: the later one counts, with all its values.
    cells = rows.where("kind = 'cells'").groupBy("topic", "queue_id", "queue_offset")
    newest = cells.agg(
        *(f.max(f.when(f.col("side") == side, f.struct(*names))).alias(word) for word, side in sides.items())
    )
    places = newest.select(
        *("topic", "queue_id", "queue_offset"),
        *(f.col(word)[name].alias(f"{word}_{name}") for word in sides for name in names),
    )
    is_same = "should_log_offset = is_log_offset and should_size = is_size"
    is_same += " and coalesce(should_tags_code = is_tags_code, true)"
    problem = f.when(f.col("is_log_offset").isNull(), "missing").when(f.col("should_log_offset").isNull(), "stray")
    bad = places.where(f"not coalesce({is_same}, false)").withColumn("problem", problem.otherwise("wrong"))
    order = Window.partitionBy("topic", "queue_id", "problem").orderBy("queue_offset")
    runs = bad.withColumn("run", f.col("queue_offset") - f.row_number().over(order))
    return (
        runs.groupBy("topic", "queue_id", "problem", "run")
        .agg(
            f.count("*").alias("amount"),
            f.min("queue_offset").alias("first"),
            f.max("queue_offset").alias("last"),
            *(f.min(name).alias(name) for name in ("should_log_offset", "is_log_offset")),
            f.max("should_log_offset").alias("should_log_offset_max"),
            f.max("is_log_offset").alias("is_log_offset_max"),
            *(f.min(name).alias(name) for name in ("should_size", "is_size", "should_tags_code", "is_tags_code")),
        )
        .orderBy("topic", "queue_id", "first")
        .limit(RUNS_MAX)
        .collect()
    )


def runs_of_entries(rows: DataFrame, *, index_end: int, bad: Sequence[tuple[int, int]]) -> list[Row]:
    """Keys that the index has not (missing, or late: behind `index_end`, its last entry), and entries of no message.

    An entry more of the same key and message harms nobody. `bad` are stretches of the log without a good record: what
    leads there is lost with it.
    """
    entries = rows.where("kind = 'entries'")
    counted = entries.groupBy("key_hash", "log_offset").agg(
        f.count_if(f.col("side") == "log").alias("in_log"),
        f.count_if(f.col("side") == "other").alias("in_index"),
        f.max("place").alias("place"),
    )
    wrong = counted.where("in_log = 0 or in_index = 0")
    for begin, end in bad:
        wrong = wrong.where(~((f.col("in_log") == 0) & (f.col("log_offset") >= begin) & (f.col("log_offset") < end)))
    problem = f.when(f.col("in_log") == 0, "stray").when(f.col("log_offset") > index_end, "late").otherwise("missing")
    return (
        wrong.withColumn("problem", problem)
        .groupBy("problem", f.when(f.col("in_log") == 0, f.col("place")).alias("place"))
        .agg(
            f.count("*").alias("amount"),
            f.min("log_offset").alias("log_offset"),
            f.max("log_offset").alias("log_offset_max"),
        )
        .limit(RUNS_MAX)
        .collect()
    )


def _tasks(spark: SparkSession, count: int, task: _Task, schema: str) -> DataFrame:
    """A task for each number. What a task needs travels with its function."""
    rows = spark.sparkContext.parallelize(range(count), max(count, 1)).mapPartitions(task)
    return spark.createDataFrame(rows, schema, verifySchema=False)
