"""Giving dead letters another chance: to their group, to their topic, or to another one, and each once.

A copy carries the id of its dead letter, and copies can only have been stored after it; so the targets are read from
the time of the oldest chosen dead letter on, and what has its copy there is not sent. That holds as long as the target
keeps its messages, and for one such job at a time. Tasks that are repeated and connections that are lost do not make
copies twice either: `deadletters_sending` looks first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from skyrocketmq.errors import IllegalArgument, NoRoute
from skyrocketmq.model.names import RETRY_PREFIX, check_send_topic
from skyrocketmq.spark.jobs.control import Control
from skyrocketmq.spark.jobs.copying import has_body
from skyrocketmq.spark.jobs.inputs import Input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["WAYS", "Redrive", "Wish", "redrive_letters"]

WAYS: Final = ("retry", "origin", "topic")
CLOCK_SLACK_MS: Final = 60_000  # the brokers of dead letter and copy may have different clocks


@dataclass(frozen=True, kw_only=True)
class Redrive:
    """What was sent again, or would be."""

    way: str
    targets: tuple[str, ...]
    chosen: int
    without_origin: int  # that do not tell their topic: they cannot go there
    without_body: int  # of the others: no client could send them
    already: int  # that have been sent before
    to_send: int
    sent: int
    is_done: bool  # False: nothing was sent, for nobody has said yes


@dataclass(frozen=True)
class Wish:
    """What is to be sent again, as it was asked for."""

    way: str
    to: str
    rate: float | None
    yes: bool

    def check(self, place: Input) -> None:
        if not self.way:
            if self.to or self.yes or self.rate is not None:
                raise IllegalArgument("to, rate and yes belong to redrive: retry, origin or topic")
            return
        if self.way not in WAYS:
            raise IllegalArgument(f"redrive is {self.way!r}: it can be {', '.join(WAYS)}")
        if not place.namesrv:
            raise IllegalArgument("only dead letters of a cluster can be sent again: replay does it from an archive")
        if (self.way == "topic") != bool(self.to):
            raise IllegalArgument("a topic is named with redrive=topic, and only then")
        if self.to:
            check_send_topic(self.to)
        if self.rate is not None and self.rate <= 0:
            raise IllegalArgument(f"rate is {self.rate}: messages a second, above 0")


def redrive_letters(spark: SparkSession, place: Input, letters: DataFrame, wish: Wish, control: Control) -> Redrive:
    """Send what has not been sent before, or only count it. Raises `IllegalArgument` for a target that is not there."""
    from pyspark.sql import functions as f

    from skyrocketmq.spark.jobs import deadletters_sending as tasks

    targets = {
        "retry": f.concat(f.lit(RETRY_PREFIX), f.col("group")),
        "origin": f.col("origin_topic"),
        "topic": f.lit(wish.to),
    }
    aimed = letters.withColumn("target", targets[wish.way])
    counted = aimed.groupBy("target").agg(
        f.count("*").alias("amount"),
        f.count_if(~has_body()).alias("empty"),
        f.unix_millis(f.min("store_timestamp")).alias("oldest"),
    )
    rows = counted.collect()
    names = sorted(row["target"] for row in rows if row["target"] is not None)
    chosen = sum(row["amount"] for row in rows)
    without = sum(row["amount"] for row in rows if row["target"] is None)
    empty = sum(row["empty"] for row in rows if row["target"] is not None)
    ends = _ends_of(place, names)
    control.begin("looking what was sent before")
    oldest = min((row["oldest"] for row in rows if row["target"] is not None), default=None)
    to_send = aimed.where("target is not null").where(has_body())
    if oldest is not None:
        since = Input(namesrv=place.namesrv, since_ms=max(oldest - CLOCK_SLACK_MS, 0), options=place.options)
        copies = since.read(spark, ("properties",), topics=names)
        sent_before = copies.select(f.col("properties")[tasks.LETTER_ID].alias("letter_id")).where(
            "letter_id is not null"
        )
        to_send = to_send.join(sent_before.distinct(), "letter_id", "left_anti")
    to_send = to_send.persist()
    try:
        count = to_send.count()
        sent = _send(spark, place, to_send, wish, ends, control) if wish.yes and count else 0
    finally:
        to_send.unpersist()
    return Redrive(
        way=wish.way,
        targets=tuple(names),
        chosen=chosen,
        without_origin=without,
        without_body=empty,
        already=chosen - without - empty - count,
        to_send=count,
        sent=sent,
        is_done=wish.yes,
    )


def _ends_of(place: Input, targets: Sequence[str]) -> dict[Any, int]:
    """Where the queues of the targets end now. A target that is not there is found before anything is sent."""
    from skyrocketmq.spark.cluster import Cluster
    from skyrocketmq.spark.options import SinkOptions

    options = SinkOptions.parse({**place.options, "namesrv": place.namesrv})
    with Cluster(options.name_servers, options.link) as cluster:
        ends: dict[Any, int] = {}
        for topic in targets:
            try:
                queues = cluster.writable_queues(topic)
            except NoRoute as error:
                raise IllegalArgument(
                    f"dead letters cannot go to {topic}, which is not there: create it, or start the group's consumer"
                ) from error
            ends |= {queue: cluster.max_offset(queue) for queue in queues}
    return ends


def _send(
    spark: SparkSession, place: Input, rows: DataFrame, wish: Wish, ends: dict[Any, int], control: Control
) -> int:
    from skyrocketmq.spark.jobs import deadletters_sending as tasks
    from skyrocketmq.spark.options import SinkOptions

    control.begin("sending")
    # A rate is kept by one task, for all: whoever gives one does not want it to be high.
    task_count = 1 if wish.rate is not None else max(spark.sparkContext.defaultParallelism, 1)
    texts = {**place.options, "namesrv": place.namesrv, "batchBytes": "1"}
    if wish.rate is not None:
        texts["ratePerTask"] = f"{wish.rate:.6f}"
    again = tasks.Again(SinkOptions.parse(texts), wish.way == "retry", ends)
    ordered = rows.repartition(task_count, "target", "broker", "queue_id")
    ordered = ordered.sortWithinPartitions("broker", "queue_id", "queue_offset").select(*tasks.COLUMNS)
    return sum(ordered.rdd.mapPartitions(partial(tasks.send_again, again=again)).collect())
