"""Trace records joined into journeys, as DataFrames: pure, nothing is computed here.

    records -> deliveries     a call of a handler: its beginning and its end, by message and request id
            -> group_results  what came of a message in a group
            -> journeys       a message: its sending, its storing, the end of its transaction, its deliveries

Rule 1: a record that is missing leaves a hole and no row out: an end without a beginning, a delivery without a sending.
Rule 2: times are those of the machines that wrote them. Where an effect has an earlier time than its cause, clocks
differ by at least that much, and `skews` names the two machines.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from skyrocketmq.wire.trace import ConsumeOutcome, TraceMessageType

__all__ = ["MESSAGE_COLUMNS", "STATES", "deliveries", "group_results", "journeys", "sendings", "skews"]

MESSAGE_COLUMNS: Final = ("msg_id", "topic", "broker", "queue_id", "queue_offset", "store_timestamp")

# What became of a message, the worst first.
STATES: Final = {
    "failed": "a group was given it and has not succeeded with it",
    "send failed": "its producer was not told that it is stored, or that it is safe",
    "not consumed": "no handler was called with it",
    "undecided": "its transaction has not ended",
    "under way": "a handler has it",
    "rolled back": "its transaction was rolled back",
    "consumed": "every group that was given it has succeeded",
}
_OUTCOMES: Final = {
    ConsumeOutcome.TIMEOUT: "timed out",
    ConsumeOutcome.EXCEPTION: "raised",
    ConsumeOutcome.RETURNED_NULL: "returned nothing",
}
_TYPES: Final = {
    TraceMessageType.NORMAL: "normal",
    TraceMessageType.TRANSACTION_HALF: "transaction",
    TraceMessageType.TRANSACTION_COMMIT: "transaction",
    TraceMessageType.DELAY: "delayed",
}


def deliveries(records: DataFrame) -> DataFrame:
    """A row for each call of a handler with a message."""
    calls = records.where("kind in ('SubBefore', 'SubAfter')")
    is_after = f.col("kind") == "SubAfter"
    joined = calls.groupBy("msg_id", "request_id").agg(
        f.max("client_group").alias("client_group"),
        f.max("client").alias("client"),
        f.max("retry_times").alias("retry_times"),
        f.min(f.when(~is_after, f.col("at_ms"))).alias("begun_ms"),
        f.max(f.when(is_after, f.col("at_ms"))).alias("ended_ms"),
        f.max("cost_ms").alias("cost_ms"),
        f.max("is_success").alias("is_success"),
        f.max("code").alias("code"),
        f.count_if(is_after).alias("afters"),
    )
    # Of older clients an end has no time, and of a call whose beginning was dropped there is only the end.
    begun = f.coalesce("begun_ms", f.col("ended_ms") - f.col("cost_ms"))
    ended = f.coalesce("ended_ms", f.col("begun_ms") + f.col("cost_ms"))
    outcome = f.when(f.col("afters") == 0, "unfinished").when(f.col("is_success"), "success")
    for code, name in _OUTCOMES.items():
        outcome = outcome.when(f.col("code") == int(code), name)
    return joined.select(
        "msg_id",
        "request_id",
        "client_group",
        "client",
        "retry_times",
        begun.alias("begun_ms"),
        ended.alias("ended_ms"),
        "cost_ms",
        outcome.otherwise("failed").alias("outcome"),
    )


def sendings(records: DataFrame) -> DataFrame:
    """A row for each message that a producer has told of, with the end of its transaction."""
    is_pub = f.col("kind") == "Pub"

    def told(name: str) -> Column:
        return f.min(f.when(is_pub, f.col(name)))

    is_end = f.col("kind") == "EndTransaction"
    kind = f.lit("normal")
    for number, text in _TYPES.items():
        kind = f.when(f.col("message_type") == int(number), text).otherwise(kind)
    ended = f.when(is_end, f.col("at_ms"))
    return (
        records.where("kind in ('Pub', 'EndTransaction')")
        .groupBy("msg_id")
        .agg(
            *(f.max(name).alias(name) for name in ("topic", "tags", "keys", "store_host", "body_bytes")),
            f.max("client_group").alias("producer_group"),
            f.max("client").alias("producer"),
            f.max("offset_msg_id").alias("offset_msg_id"),
            told("at_ms").alias("sent_ms"),
            told("cost_ms").alias("send_cost_ms"),
            f.max(f.when(is_pub, f.col("is_success"))).alias("is_sent"),
            told("message_type").alias("message_type"),
            f.max_by("state", ended).alias("transaction_state"),
            f.max(ended).alias("transaction_ms"),
            f.max_by("is_from_check", ended).alias("was_checked"),
        )
        .withColumn("kind", kind)
        .drop("message_type")
    )


def group_results(delivered: DataFrame, sent: DataFrame) -> DataFrame:
    """What came of each message in each group: attempts, failures, how long until the first and until success."""
    by_group = delivered.groupBy("msg_id", "client_group").agg(
        f.count("*").alias("attempts"),
        f.count_if(f.expr("outcome = 'success'")).alias("successes"),
        f.count_if(f.expr("outcome not in ('success', 'unfinished')")).alias("failures"),
        f.min("begun_ms").alias("first_ms"),
        f.min(f.when(f.col("outcome") == "success", f.col("ended_ms"))).alias("done_ms"),
        f.max("cost_ms").alias("cost_ms"),
        f.max_by("outcome", "begun_ms").alias("last_outcome"),
    )
    return by_group.join(sent.select("msg_id", "topic", "sent_ms"), "msg_id", "left").withColumn(
        "wait_ms", f.col("first_ms") - f.col("sent_ms")
    )


def journeys(delivered: DataFrame, sent: DataFrame, results: DataFrame, messages: DataFrame | None = None) -> DataFrame:
    """A row for each message. `messages`, with `MESSAGE_COLUMNS`, adds when and where it was stored."""
    calls = delivered.groupBy("msg_id").agg(
        f.array_sort(
            f.collect_list(
                f.struct(
                    "begun_ms", "ended_ms", "cost_ms", "outcome", "retry_times", "client_group", "client", "request_id"
                )
            )
        ).alias("deliveries")
    )
    groups = results.groupBy("msg_id").agg(
        f.array_sort(f.collect_set("client_group")).alias("groups"),
        f.array_sort(f.collect_set(f.when(f.col("successes") == 0, f.col("client_group")))).alias(
            "groups_without_success"
        ),
        f.sum("attempts").alias("attempts"),
        f.sum("failures").alias("failures"),
        f.sum(f.when(f.col("successes") == 0, f.col("failures")).otherwise(0)).alias("lasting_failures"),
        f.min("wait_ms").alias("wait_ms"),
        f.max("done_ms").alias("done_ms"),
    )
    found = sent.join(groups.join(calls, "msg_id"), "msg_id", "full")
    found = found.withColumn("state", _state())
    if messages is None:
        nothing = {"broker": "string", "queue_id": "int", "queue_offset": "long", "stored_ms": "long"}
        return found.withColumns({name: f.lit(None).cast(kind) for name, kind in nothing.items()})
    places = messages.groupBy("msg_id").agg(
        *(f.min_by(name, "store_timestamp").alias(name) for name in ("broker", "queue_id", "queue_offset")),
        f.unix_millis(f.min("store_timestamp")).alias("stored_ms"),
    )
    return found.join(places, "msg_id", "left")


def _state() -> Column:
    attempts = f.coalesce("attempts", f.lit(0))
    is_half = f.col("kind") == "transaction"
    ended = f.coalesce("transaction_state", f.lit(""))
    return (
        f.when(f.coalesce("lasting_failures", f.lit(0)) > 0, "failed")
        .when((attempts > 0) & (f.size("groups_without_success") > 0), "under way")
        .when(attempts > 0, "consumed")
        .when(ended == "ROLLBACK_MESSAGE", "rolled back")
        .when(~f.coalesce("is_sent", f.lit(True)), "send failed")
        .when(is_half & (ended != "COMMIT_MESSAGE"), "undecided")
        .otherwise("not consumed")
    )


def skews(found: DataFrame) -> DataFrame:
    """Machines whose clocks differ, by journeys in which an effect comes before its cause.

    `ahead` is ahead of `behind` by at least `ahead_ms`. Of a message that waited (delayed, or in a transaction) the
    time of storing says nothing about its sending.
    """
    store = f.element_at(f.split("store_host", ":"), 1)
    calls = found.withColumn("call", f.explode("deliveries"))
    pairs = [
        (calls, f.col("producer"), f.col("call.client"), f.col("sent_ms") - f.col("call.begun_ms")),
        (calls, store, f.col("call.client"), f.col("stored_ms") - f.col("call.begun_ms")),
        (found, f.col("producer"), store, f.col("sent_ms") - f.col("stored_ms")),
        (
            found.where("kind = 'normal'"),
            store,
            f.col("producer"),
            f.col("stored_ms") - f.col("sent_ms") - f.col("send_cost_ms"),
        ),
    ]
    several = [
        frame.select(ahead.alias("ahead"), behind.alias("behind"), by.alias("ahead_ms"))
        for frame, ahead, behind, by in pairs
    ]
    together = several[0]
    for one in several[1:]:
        together = together.union(one)
    return (
        together.where("ahead_ms > 0 and ahead is not null and behind is not null")
        .groupBy("ahead", "behind")
        .agg(f.max("ahead_ms").alias("ahead_ms"), f.count("*").alias("times"))
    )
