"""The job `stats`: throughput, sizes, latencies, tags and keys of topics, by window.

Messages are read once: short rows without bodies are kept in Spark's cache (memory, then disk) while the figures are
made of them, so all tables tell of the same messages, also of topics that are being written.

Latency is the time from birth (the producer's clock) to storing (the broker's); with traces also up to the first call
of a handler (the consumer's clock). A negative one shows that clocks differ; it is counted and not hidden.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.spark.jobs.arguments import names_of
from skyrocketmq.spark.jobs.control import Control
from skyrocketmq.spark.jobs.inputs import Input, add_input_arguments, input_of, window_ms_of
from skyrocketmq.spark.jobs.outputs import Parquet, refuse_used
from skyrocketmq.spark.jobs.stats_values import Bucket, Deliveries, StatsResult, TopValue, Traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["Bucket", "Deliveries", "StatsResult", "TopValue", "Traffic", "add_arguments", "run", "stats"]

ROWS_MAX: Final = 200_000  # of the table by window and topic


def stats(
    spark: SparkSession,
    *,
    namesrv: str = "",
    store: str | Path | None = None,
    archive: str | Path | None = None,
    topics: Sequence[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    window: str = "1m",
    top: int = 20,
    trace_topic: str = "",
    parquet: str | Path | None = None,
    report: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    control: Control | None = None,
) -> StatsResult:
    """Look at topics of a cluster, a store or an archive; without `topics` at all but the system's own.

    `trace_topic` adds how long messages took to their consumers. `parquet` is a directory for the tables, `report` a
    file for the page. Raises `IllegalArgument`.
    """
    place = Input(
        namesrv=namesrv, store=store, archive=archive, since_ms=since_ms, until_ms=until_ms, options=options or {}
    )
    return _stats(spark, place, topics, window, top, trace_topic, parquet, report, control or Control())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input_arguments(parser)
    parser.add_argument("--window", default="1m", metavar="TIME", help="length of a window (default: %(default)s)")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="tags and keys of a topic (default: 20)")
    parser.add_argument("--trace-topic", default="", metavar="TOPIC", help="also latencies up to consumers, by traces")
    parser.add_argument("--parquet", metavar="DIR", help="write the tables there, as Parquet")
    parser.add_argument("--report", metavar="FILE.html", help="write a page with plots")


def run(spark: SparkSession, arguments: argparse.Namespace) -> StatsResult:
    return _stats(
        spark,
        input_of(arguments),
        names_of(arguments.topics),
        arguments.window,
        arguments.top,
        arguments.trace_topic,
        arguments.parquet,
        arguments.report,
        arguments.control,
    )


def _stats(
    spark: SparkSession,
    place: Input,
    topics: Sequence[str],
    window: str,
    top: int,
    trace_topic: str,
    parquet: str | Path | None,
    report: str | Path | None,
    control: Control,
) -> StatsResult:
    from skyrocketmq.spark.jobs import stats_tables as tables

    window_ms = window_ms_of(window)
    if top < 1:
        raise IllegalArgument(f"top is {top}: it is how many tags and keys are listed, from 1 on")
    refuse_used(parquet=parquet, report=report)
    rows = tables.narrowed(place.read(spark, tables.COLUMNS, topics=topics), window_ms=window_ms).persist()
    try:
        control.begin("reading messages")
        traffic = _traffic(tables.traffic(rows), window, window_ms)
        control.begin("counting tags and keys")
        values = sorted(
            (TopValue(**row.asDict()) for row in tables.top_values(rows, top=top).collect()),
            key=lambda one: (one.kind, one.topic, one.rank),
        )
        histogram = _buckets(tables.histograms(rows))
        deliveries = _deliveries(spark, place, rows, trace_topic, control) if trace_topic else ()
    finally:
        rows.unpersist()
    result = StatsResult(
        place=place.name,
        window_ms=window_ms,
        total=next((row for row in traffic if row.begin_ms is None and row.topic is None), None),
        topics=tuple(row for row in traffic if row.begin_ms is None and row.topic is not None),
        windows=tuple(row for row in traffic if row.begin_ms is not None and row.topic is None),
        windows_by_topic=tuple(row for row in traffic if row.begin_ms is not None and row.topic is not None),
        tags=tuple(one for one in values if one.kind == "tag"),
        keys=tuple(one for one in values if one.kind == "key"),
        histogram=histogram,
        deliveries=deliveries,
    )
    _write(spark, result, parquet, report)
    return result


def _traffic(found: DataFrame, window: str, window_ms: int) -> list[Traffic]:
    rows = found.limit(ROWS_MAX + 1).collect()
    if len(rows) > ROWS_MAX:
        raise IllegalArgument(
            f"windows of {window} make more than {ROWS_MAX:,} rows: give a longer window, fewer topics or less time"
        )
    made = [_traffic_row(row, window_ms) for row in rows if row["messages"]]
    return sorted(made, key=lambda row: (row.begin_ms or 0, row.topic or ""))


def _traffic_row(row: Row, window_ms: int) -> Traffic:
    seconds = window_ms / 1000 if row.begin_ms is not None else max(row.last_ms - row.first_ms, 1) / 1000
    sizes, latencies = row.size_percentiles, row.latency_percentiles
    return Traffic(
        begin_ms=row.begin_ms,
        topic=row.topic,
        messages=row.messages,
        bytes=row.bytes,
        messages_per_s=round(row.messages / seconds, 3),
        bytes_per_s=round(row.bytes / seconds, 3),
        **{f"size_{name}": value for name, value in zip(_NAMES, sizes, strict=True)},
        size_max=row.size_max,
        **{f"latency_{name}_ms": value for name, value in zip(_NAMES, latencies, strict=True)},
        latency_max_ms=row.latency_max,
        skewed=row.skewed,
        again=row.again,
        first_ms=row.first_ms,
        last_ms=row.last_ms,
    )


_NAMES: Final = ("p50", "p95", "p99")


def _buckets(found: DataFrame) -> tuple[Bucket, ...]:
    rows = sorted(found.collect(), key=lambda row: (row["what"], row["bucket"]))
    return tuple(
        Bucket(what=what, low=2 ** (bucket - 1) if bucket else 0, high=2**bucket, messages=messages)
        for what, bucket, messages in rows
    )


def _deliveries(
    spark: SparkSession, place: Input, rows: DataFrame, trace_topic: str, control: Control
) -> tuple[Deliveries, ...]:
    from skyrocketmq.spark.jobs import stats_tables as tables
    from skyrocketmq.spark.jobs import trace_records as traces

    control.begin("reading traces")
    records = traces.trace_records(place.read(spark, traces.COLUMNS, topics=[trace_topic]))
    found = tables.deliveries(rows, records).limit(ROWS_MAX).collect()
    made = [
        Deliveries(
            begin_ms=row.begin_ms,
            group=row.client_group,
            messages=row.messages,
            calls=row.calls,
            **{f"wait_{name}_ms": value for name, value in zip(_NAMES, row.percentiles, strict=True)},
            wait_max_ms=row.wait_max,
            skewed=row.skewed,
        )
        for row in found
        if row.messages
    ]
    return tuple(sorted(made, key=lambda row: (row.begin_ms or 0, row.group or "")))


def _write(spark: SparkSession, result: StatsResult, parquet: str | Path | None, report: str | Path | None) -> None:
    if parquet is not None:
        tables: dict[str, tuple[type[Any], Sequence[Any]]] = {
            "topics": (Traffic, result.topics),
            "windows": (Traffic, result.windows_by_topic),
            "values": (TopValue, [*result.tags, *result.keys]),
            "histogram": (Bucket, result.histogram),
            "deliveries": (Deliveries, result.deliveries),
        }
        writing = Parquet(spark, parquet)
        for name, (kind, rows) in tables.items():
            writing.write(name, kind, [asdict(row) for row in rows])
    if report is not None:
        from skyrocketmq.spark.jobs.stats_report import stats_page
        from skyrocketmq.spark.reports import write_report

        write_report(Path(report), stats_page(result))
