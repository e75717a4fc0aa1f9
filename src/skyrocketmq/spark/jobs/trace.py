"""The job `trace`: what became of messages, from the traces that producers and consumers have left.

Records are read once and joined into journeys, which Spark keeps (memory, then disk) while tables are made of them.
Without `topics` a journey knows when its message was sent; with them the messages themselves are read too, and it is
known when and where each was stored.

What is traced is what clients were told to trace: a message without a sending has a producer that does not trace, and
"not consumed" means that no consumer with traces has had it up to the end of the range.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyrocketmq.model.names import TRACE_TOPIC
from skyrocketmq.spark.jobs.arguments import names_of
from skyrocketmq.spark.jobs.control import Control
from skyrocketmq.spark.jobs.inputs import Input, add_input_arguments, input_of
from skyrocketmq.spark.jobs.outputs import Parquet, refuse_used
from skyrocketmq.spark.jobs.trace_values import Delivery, GroupTrace, Journey, Skew, TopicTrace, TraceResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["Delivery", "GroupTrace", "Journey", "Skew", "TopicTrace", "TraceResult", "add_arguments", "run", "trace"]

EXAMPLES: Final = 30  # journeys that are part of the result: those that went wrong first, then the slowest
ROWS_MAX: Final = 10_000


def trace(
    spark: SparkSession,
    *,
    namesrv: str = "",
    store: str | Path | None = None,
    archive: str | Path | None = None,
    trace_topic: str = TRACE_TOPIC,
    topics: Sequence[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    parquet: str | Path | None = None,
    report: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    control: Control | None = None,
) -> TraceResult:
    """Join the traces that were stored between two times, with `topics` also with their messages.

    Raises `IllegalArgument`.
    """
    place = Input(
        namesrv=namesrv, store=store, archive=archive, since_ms=since_ms, until_ms=until_ms, options=options or {}
    )
    return _trace(spark, place, trace_topic, topics, parquet, report, control or Control())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input_arguments(parser, with_topics=False)
    parser.add_argument("--trace-topic", default=TRACE_TOPIC, metavar="TOPIC", help="(default: %(default)s)")
    parser.add_argument(
        "-t", "--topics", metavar="TOPIC[,TOPIC]", help="read their messages too: when and where they were stored"
    )
    parser.add_argument("--parquet", metavar="DIR", help="write journeys and deliveries there, as Parquet")
    parser.add_argument("--report", metavar="FILE.html", help="write a page with plots")


def run(spark: SparkSession, arguments: argparse.Namespace) -> TraceResult:
    return _trace(
        spark,
        input_of(arguments),
        arguments.trace_topic,
        names_of(arguments.topics),
        arguments.parquet,
        arguments.report,
        arguments.control,
    )


def _trace(
    spark: SparkSession,
    place: Input,
    trace_topic: str,
    topics: Sequence[str],
    parquet: str | Path | None,
    report: str | Path | None,
    control: Control,
) -> TraceResult:
    from skyrocketmq.spark.jobs import trace_journeys as joining
    from skyrocketmq.spark.jobs import trace_records as traces

    refuse_used(parquet=parquet, report=report)
    control.begin("reading traces")
    records = traces.trace_records(place.read(spark, traces.COLUMNS, topics=[trace_topic])).persist()
    try:
        unreadable = records.where(f"kind = '{traces.UNREADABLE}'").count()
        control.begin("joining journeys")
        messages = place.read(spark, joining.MESSAGE_COLUMNS, topics=topics) if topics else None
        delivered, sent = joining.deliveries(records), joining.sendings(records)
        results = joining.group_results(delivered, sent).persist()
        journeys = joining.journeys(delivered, sent, results, messages).persist()
        try:
            result = _result(place, trace_topic, unreadable, journeys, results)
            if parquet is not None:
                writing = Parquet(spark, parquet)
                writing.write_frame("journeys", journeys)
                writing.write_frame("deliveries", delivered)
        finally:
            journeys.unpersist()
            results.unpersist()
    finally:
        records.unpersist()
    if report is not None:
        from skyrocketmq.spark.jobs.trace_report import trace_page
        from skyrocketmq.spark.reports import write_report

        write_report(Path(report), trace_page(result))
    return result


def _result(place: Input, trace_topic: str, unreadable: int, journeys: DataFrame, results: DataFrame) -> TraceResult:
    from pyspark.sql import functions as f

    from skyrocketmq.spark.jobs import trace_journeys as joining
    from skyrocketmq.spark.jobs.stats_tables import bucket, percentiles

    topics = journeys.groupBy("topic", "state").agg(
        f.count("*").alias("messages"), percentiles("send_cost_ms").alias("send")
    )
    groups = results.groupBy("topic", "client_group").agg(
        f.count("*").alias("messages"),
        f.sum("attempts").alias("attempts"),
        f.sum("failures").alias("failures"),
        f.count_if(f.expr("successes = 0")).alias("without_success"),
        percentiles("wait_ms").alias("wait"),
        f.max("wait_ms").alias("wait_max"),
        percentiles("cost_ms").alias("call"),
    )
    made_topics = tuple(
        sorted(map(_topic, topics.limit(ROWS_MAX).collect()), key=lambda one: (one.topic or "", one.state))
    )
    made_groups = tuple(
        sorted(map(_group, groups.limit(ROWS_MAX).collect()), key=lambda one: (one.topic or "", one.group or ""))
    )
    waits = journeys.where("wait_ms is not null").groupBy(bucket("wait_ms").alias("bucket")).count()
    skewed = joining.skews(journeys).orderBy(f.desc("ahead_ms")).limit(100).collect()
    rank = f.array_position(f.array(*map(f.lit, list(joining.STATES)[:3])), f.col("state"))
    worst = journeys.orderBy(f.when(rank > 0, rank).otherwise(9), f.desc_nulls_last("wait_ms"), "msg_id")
    states = {state: sum(one.messages for one in made_topics if one.state == state) for state in joining.STATES}
    return TraceResult(
        place=place.name,
        trace_topic=trace_topic,
        messages=sum(states.values()),
        states={state: messages for state, messages in states.items() if messages},
        unreadable=unreadable,
        topics=made_topics,
        groups=made_groups,
        skews=tuple(Skew(**row.asDict()) for row in skewed),
        waits={row["bucket"]: row["count"] for row in sorted(waits.collect())},
        examples=tuple(map(_journey, worst.limit(EXAMPLES).collect())),
    )


def _topic(row: Row) -> TopicTrace:
    p50, p95, p99 = row.send or (None, None, None)
    return TopicTrace(
        topic=row.topic, state=row.state, messages=row.messages, send_p50_ms=p50, send_p95_ms=p95, send_p99_ms=p99
    )


def _group(row: Row) -> GroupTrace:
    p50, p95, p99 = row.wait or (None, None, None)
    call_p50, _, call_p99 = row.call or (None, None, None)
    return GroupTrace(
        topic=row.topic,
        group=row.client_group,
        messages=row.messages,
        attempts=row.attempts,
        failures=row.failures,
        without_success=row.without_success,
        wait_p50_ms=p50,
        wait_p95_ms=p95,
        wait_p99_ms=p99,
        wait_max_ms=row.wait_max,
        call_p50_ms=call_p50,
        call_p99_ms=call_p99,
    )


def _journey(row: Row) -> Journey:
    names: dict[str, Any] = {
        name: row[name]
        for name in (
            "msg_id",
            "topic",
            "tags",
            "keys",
            "state",
            "kind",
            "producer",
            "store_host",
            "sent_ms",
            "send_cost_ms",
            "stored_ms",
            "transaction_state",
            "transaction_ms",
            "wait_ms",
            "done_ms",
        )
    }
    calls = tuple(
        Delivery(
            group=call.client_group,
            client=call.client,
            begun_ms=call.begun_ms,
            ended_ms=call.ended_ms,
            outcome=call.outcome,
            retry_times=call.retry_times,
        )
        for call in row.deliveries or ()
    )
    return Journey(**names, deliveries=calls)
