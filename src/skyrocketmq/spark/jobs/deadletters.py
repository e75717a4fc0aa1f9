"""The job `deadletters`: which messages groups have given up, why as far as is known, and giving them another chance.

What is known of a cause: the group, the topic, the tags, how often it was tried, and whether that was as often as
allowed; with traces also how the last handler ended.

Sending again (`redrive`) is effectively once; `deadletters_redrive` says how.

Rule: nothing is sent unless `yes` says so; without it the job tells what it would do.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.names import DLQ_PREFIX, dlq_topic
from skyrocketmq.spark.jobs.arguments import names_of
from skyrocketmq.spark.jobs.control import Control, JobResult
from skyrocketmq.spark.jobs.deadletters_redrive import WAYS, Redrive, Wish, redrive_letters
from skyrocketmq.spark.jobs.inputs import Input, add_input_arguments, input_of
from skyrocketmq.spark.jobs.outputs import Parquet, as_table, refuse_used

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Cause", "DeadLettersResult", "Redrive", "add_arguments", "deadletters", "run"]

CAUSES_MAX: Final = 10_000
USUAL_LIMIT: Final = 16
_COLUMNS: Final = (
    *("topic", "tags", "keys", "body", "properties", "broker", "queue_id", "queue_offset", "msg_id"),
    *("offset_msg_id", "born_timestamp", "store_timestamp", "born_host", "reconsume_times"),
)


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Dead letters that are alike."""

    group: str
    origin_topic: str | None
    tags: str | None
    cause: str
    attempts: int
    last_outcome: str | None  # of the last handler, where it was traced
    messages: int
    bytes: int
    first_ms: int  # when they became dead letters
    last_ms: int
    oldest_born_ms: int
    example: str | None  # id of one of them


@dataclass(frozen=True, kw_only=True)
class DeadLettersResult(JobResult):
    """The dead letters that were looked at, by cause; the largest first."""

    place: str
    letters: int
    causes: tuple[Cause, ...]
    redrive: Redrive | None

    def text(self) -> str:
        parts = [f"{self.place}: {self.letters:,} dead letters"]
        if self.causes:
            headings = ["group", "topic", "tags", "cause", "last outcome", "attempts", "messages", "bytes", "newest"]
            rows = [
                [
                    *(one.group, one.origin_topic, one.tags, one.cause, one.last_outcome),
                    *(one.attempts, one.messages, one.bytes, _time(one.last_ms)),
                ]
                for one in self.causes
            ]
            parts.append(as_table(headings, rows, texts=5))
        if (done := self.redrive) is not None:
            parts.append(
                f"to {', '.join(done.targets) or 'nowhere'}: {done.chosen:,} chosen, {done.already:,} sent before, "
                f"{done.without_origin:,} that do not tell their topic, {done.without_body:,} without a body, "
                f"{done.sent:,} sent now"
            )
            if not done.is_done:
                parts.append(f"nothing was sent: {done.to_send:,} messages would be, with --yes")
        return "\n\n".join(parts)


def _time(milliseconds: int) -> str:
    from skyrocketmq.spark.reports.scales import moment

    return moment(milliseconds)


def deadletters(
    spark: SparkSession,
    *,
    namesrv: str = "",
    store: str | Path | None = None,
    archive: str | Path | None = None,
    groups: Sequence[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    where: str = "",
    trace_topic: str = "",
    parquet: str | Path | None = None,
    redrive: str = "",
    to: str = "",
    rate: float | None = None,
    yes: bool = False,
    options: Mapping[str, str] | None = None,
    control: Control | None = None,
) -> DeadLettersResult:
    """Look at the dead letters of some groups, or of all, and export or send them again.

    `where` is an SQL condition on the columns of `letters_of`. `redrive` is retry (to its group alone), origin (to its
    topic, and so to all groups) or topic (`to` names it); `rate` is messages a second, of all tasks together. Raises
    `IllegalArgument`.
    """
    place = Input(
        namesrv=namesrv, store=store, archive=archive, since_ms=since_ms, until_ms=until_ms, options=options or {}
    )
    wish = Wish(redrive, to, rate, yes)
    return _deadletters(spark, place, groups, where, trace_topic, parquet, wish, control or Control())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input_arguments(parser, with_topics=False)
    parser.add_argument("-g", "--groups", metavar="GROUP[,GROUP]", help="whose dead letters (default: all groups')")
    parser.add_argument("--where", default="", metavar="SQL", help="a condition, as \"tags = 'new' and attempts > 3\"")
    parser.add_argument("--trace-topic", default="", metavar="TOPIC", help="also how the last handler ended, by traces")
    parser.add_argument("--parquet", metavar="DIR", help="write the dead letters and their causes there, as Parquet")
    again = parser.add_argument_group("sending again")
    again.add_argument("--redrive", choices=WAYS, default="", help="to its group, to its topic, or to another one")
    again.add_argument("--to", default="", metavar="TOPIC", help="where to, with --redrive topic")
    again.add_argument("--rate", type=float, metavar="N", help="at most so many messages a second")
    again.add_argument("--yes", action="store_true", help="send; without it is only told what would be sent")


def run(spark: SparkSession, arguments: argparse.Namespace) -> DeadLettersResult:
    return _deadletters(
        spark,
        input_of(arguments),
        names_of(arguments.groups),
        arguments.where,
        arguments.trace_topic,
        arguments.parquet,
        Wish(arguments.redrive, arguments.to, arguments.rate, arguments.yes),
        arguments.control,
    )


def letters_of(messages: DataFrame) -> DataFrame:
    """Dead letters with what is known of them: group, origin_topic, origin_msg_id, attempts, cause, letter_id."""
    from pyspark.sql import functions as f

    told = f.col("properties")
    limit = told["MAX_RECONSUME_TIMES"].try_cast("int")
    attempts = f.col("reconsume_times")
    cause = (
        f.when(attempts >= limit, f.concat(f.lit("all attempts failed, of "), limit.cast("string")))
        .when(attempts > USUAL_LIMIT, f"all attempts failed, of {USUAL_LIMIT}")
        .when(attempts <= 1, "given up at the first attempt")
        .otherwise("given up before the usual limit")
    )
    return messages.select(
        f.col("topic").substr(f.lit(len(DLQ_PREFIX) + 1), f.length("topic")).alias("group"),
        told["RETRY_TOPIC"].alias("origin_topic"),
        told["ORIGIN_MESSAGE_ID"].alias("origin_msg_id"),
        attempts.alias("attempts"),
        cause.alias("cause"),
        f.col("offset_msg_id").alias("letter_id"),
        *(name for name in _COLUMNS if name not in ("offset_msg_id", "reconsume_times")),
    )


def _deadletters(
    spark: SparkSession,
    place: Input,
    groups: Sequence[str],
    where: str,
    trace_topic: str,
    parquet: str | Path | None,
    wish: Wish,
    control: Control,
) -> DeadLettersResult:
    refuse_used(parquet=parquet, report=None)
    wish.check(place)
    topics = [dlq_topic(group) for group in groups]
    control.begin("reading dead letters")
    letters = letters_of(place.read(spark, _COLUMNS, topics=topics, pattern=f"{DLQ_PREFIX}.+"))
    letters = _with_outcomes(spark, place, letters, trace_topic)
    if where:
        letters = _narrowed(letters, where)
    letters = letters.persist()
    try:
        causes = _causes(letters)
        if parquet is not None:
            writing = Parquet(spark, parquet)
            writing.write_frame("letters", letters)
            writing.write("causes", Cause, [asdict(one) for one in causes])
        done = redrive_letters(spark, place, letters, wish, control) if wish.way and causes else None
    finally:
        letters.unpersist()
    return DeadLettersResult(
        place=place.name, letters=sum(one.messages for one in causes), causes=tuple(causes), redrive=done
    )


def _with_outcomes(spark: SparkSession, place: Input, letters: DataFrame, trace_topic: str) -> DataFrame:
    """With how the last handler of the group ended."""
    from pyspark.sql import functions as f

    if not trace_topic:
        return letters.withColumn("last_outcome", f.lit(None).cast("string"))
    from skyrocketmq.spark.jobs import trace_journeys as joining
    from skyrocketmq.spark.jobs import trace_records as traces

    # A message was handled before it became a dead letter: the beginning of the range does not count for traces.
    whole = Input(
        namesrv=place.namesrv, store=place.store, archive=place.archive, until_ms=place.until_ms, options=place.options
    )
    delivered = joining.deliveries(traces.trace_records(whole.read(spark, traces.COLUMNS, topics=[trace_topic])))
    last = delivered.groupBy("msg_id", f.col("client_group").alias("group")).agg(
        f.max_by("outcome", "begun_ms").alias("last_outcome")
    )
    return letters.join(last, ["msg_id", "group"], "left")


def _narrowed(letters: DataFrame, where: str) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException

    try:
        narrowed = letters.where(where)
        _ = narrowed.schema  # Spark looks at names now, also where it is a client of a cluster
    except (AnalysisException, ParseException) as error:
        first = str(error).strip().splitlines()[0]
        names = ", ".join(letters.columns)
        raise IllegalArgument(f"the condition {where!r} cannot be used: {first} Columns are {names}") from error
    return narrowed


def _causes(letters: DataFrame) -> list[Cause]:
    from pyspark.sql import functions as f

    counted = letters.groupBy("group", "origin_topic", "tags", "cause", "attempts", "last_outcome").agg(
        f.count("*").alias("messages"),
        f.sum(f.length("body")).alias("bytes"),
        f.unix_millis(f.min("store_timestamp")).alias("first_ms"),
        f.unix_millis(f.max("store_timestamp")).alias("last_ms"),
        f.unix_millis(f.min("born_timestamp")).alias("oldest_born_ms"),
        f.min("msg_id").alias("example"),
    )
    rows = counted.limit(CAUSES_MAX + 1).collect()
    if len(rows) > CAUSES_MAX:
        raise IllegalArgument(f"there are more than {CAUSES_MAX:,} causes: narrow the groups, the time or where")
    made = [Cause(**row.asDict()) for row in rows]
    return sorted(made, key=lambda one: (-one.messages, one.group, one.origin_topic or "", one.tags or ""))
