"""The figures of `stats` as DataFrames over messages: pure, nothing is computed here.

Rule 1: `narrowed` leaves of a message what figures need, and no body; all else is made from that.
Rule 2: percentiles are Spark's approximate ones with an accuracy of 1/10,000: exact for as many different values.
Rule 3: a message belongs to the window of its store time, since that is when the broker had it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

__all__ = [
    "COLUMNS",
    "PERCENTILES",
    "bucket",
    "deliveries",
    "histograms",
    "narrowed",
    "percentiles",
    "top_values",
    "traffic",
]

COLUMNS: Final = (
    "topic",
    "tags",
    "keys",
    "body",
    "msg_id",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
)
PERCENTILES: Final = (0.5, 0.95, 0.99)
ACCURACY: Final = 10_000


def narrowed(messages: DataFrame, *, window_ms: int) -> DataFrame:
    """One short row a message: sizes and times in place of bodies. `messages` has `COLUMNS`."""
    born, stored = f.unix_millis("born_timestamp"), f.unix_millis("store_timestamp")
    return messages.select(
        "topic",
        "tags",
        "keys",
        "msg_id",
        f.length("body").cast("long").alias("size"),
        born.alias("born_ms"),
        stored.alias("store_ms"),
        (stored - born).alias("latency_ms"),
        (f.floor(stored / window_ms) * window_ms).alias("begin_ms"),
        (f.col("reconsume_times") > 0).alias("is_again"),
    )


def traffic(rows: DataFrame) -> DataFrame:
    """Messages, bytes, sizes and latencies: of each topic in each window, of topics, of windows, and of everything.

    `topic` and `begin_ms` are null where a row is about all of them.
    """
    return rows.cube("begin_ms", "topic").agg(
        f.count("*").alias("messages"),
        f.sum("size").alias("bytes"),
        percentiles("size").alias("size_percentiles"),
        f.max("size").alias("size_max"),
        percentiles("latency_ms").alias("latency_percentiles"),
        f.max("latency_ms").alias("latency_max"),
        f.count_if(f.col("latency_ms") < 0).alias("skewed"),
        f.count_if("is_again").alias("again"),
        f.min("store_ms").alias("first_ms"),
        f.max("store_ms").alias("last_ms"),
    )


def top_values(rows: DataFrame, *, top: int) -> DataFrame:
    """The tags and the keys that most messages have, `top` of each topic; a tag may be null: messages without one."""
    tags = rows.select("topic", f.lit("tag").alias("kind"), f.col("tags").alias("value"), "size")
    keys = rows.select("topic", f.lit("key").alias("kind"), f.explode("keys").alias("value"), "size")
    counted = tags.union(keys).groupBy("topic", "kind", "value")
    counts = counted.agg(f.count("*").alias("messages"), f.sum("size").alias("bytes"))
    # Equal counts stand in the order of their values, so that the same messages give the same table.
    order = Window.partitionBy("topic", "kind").orderBy(f.desc("messages"), "value")
    return counts.withColumn("rank", f.row_number().over(order)).where(f.col("rank") <= top)


def histograms(rows: DataFrame) -> DataFrame:
    """How many messages have which size and which latency, by powers of two: bucket n goes up to 2^n, without it."""
    size = rows.select(f.lit("size").alias("what"), bucket("size").alias("bucket"))
    latency = rows.select(f.lit("latency").alias("what"), bucket("latency_ms").alias("bucket"))
    return size.union(latency).groupBy("what", "bucket").count()


def deliveries(rows: DataFrame, records: DataFrame) -> DataFrame:
    """From birth to the handlers: of each group in each window, and of each group, for messages that were traced.

    `records` are those of `trace_records`. A delivery is the beginning of a handler's call; the first one of a message
    in a group counts for its latency.
    """
    first = (
        records.where("kind = 'SubBefore'")
        .groupBy("msg_id", "client_group")
        .agg(f.min("at_ms").alias("at_ms"), f.count("*").alias("calls"))
    )
    joined = rows.select("msg_id", "topic", "born_ms", "begin_ms").join(first, "msg_id")
    late = joined.withColumn("wait_ms", f.col("at_ms") - f.col("born_ms"))
    return late.cube("begin_ms", "client_group").agg(
        f.count("*").alias("messages"),
        f.sum("calls").alias("calls"),
        percentiles("wait_ms").alias("percentiles"),
        f.max("wait_ms").alias("wait_max"),
        f.count_if(f.col("wait_ms") < 0).alias("skewed"),
    )


def percentiles(name: str, wanted: Sequence[float] = PERCENTILES) -> Column:
    return f.percentile_approx(name, list(wanted), ACCURACY)


def bucket(name: str) -> Column:
    """0 for 0 and less, else how many binary digits the number has."""
    return f.when(f.col(name) <= 0, 0).otherwise(f.length(f.bin(name))).cast("int")
