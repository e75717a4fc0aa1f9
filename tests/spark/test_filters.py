"""Pushed filters: what they leave over, and what says nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from skyrocketmq import MessageQueue
from skyrocketmq.spark.filters import Interval, Narrowing, narrowing_of

TAGS, TOPIC, OFFSET, STORED = ("tags",), ("topic",), ("queue_offset",), ("store_timestamp",)
NOON = datetime(2024, 5, 1, 12, 0, 0, 500, UTC)
NOON_MS = 1_714_564_800_000


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], Narrowing()),
        ([EqualTo(TAGS, "a")], Narrowing(tags=frozenset("a"))),
        ([In(TAGS, ("a", "b", None)), In(TAGS, ("b", "c"))], Narrowing(tags=frozenset("b"))),
        ([EqualNullSafe(TOPIC, "Orders")], Narrowing(topics=frozenset(["Orders"]))),
        ([EqualTo(("broker",), "broker-a")], Narrowing(brokers=frozenset(["broker-a"]))),
        ([GreaterThan(OFFSET, 5), LessThan(OFFSET, 9)], Narrowing(offsets=Interval(6, 8))),
        ([GreaterThanOrEqual(OFFSET, 5), LessThanOrEqual(OFFSET, 9)], Narrowing(offsets=Interval(5, 9))),
        ([In(("queue_id",), (3, 1))], Narrowing(queue_ids=Interval(1, 3))),
        ([EqualTo(OFFSET, 4), GreaterThan(OFFSET, 1)], Narrowing(offsets=Interval(4, 4))),
        ([GreaterThan(STORED, NOON), LessThan(STORED, NOON)], Narrowing(store_ms=Interval(NOON_MS, NOON_MS + 1))),
    ],
)
def test_filters_narrow(filters: list[Filter], expected: Narrowing) -> None:
    assert narrowing_of(filters) == expected


@pytest.mark.parametrize(
    "nothing",
    [
        IsNotNull(TAGS),
        Not(EqualTo(TAGS, "a")),
        StringStartsWith(TAGS, "a"),
        EqualTo(TAGS, "a || b"),  # no broker can be asked for it
        EqualTo(TAGS, "*"),
        EqualTo(TAGS, None),
        EqualTo(OFFSET, "five"),
        EqualTo(("body",), b"x"),
        EqualTo(("properties", "tags"), "a"),
        EqualTo(OFFSET, None),
        LessThan(STORED, datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))),
        GreaterThan(STORED, datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))),
    ],
)
def test_what_says_nothing_is_passed_over(nothing: Filter) -> None:
    assert narrowing_of([nothing]) == Narrowing()


def test_times_count_in_any_zone() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))
    assert narrowing_of([GreaterThan(STORED, elsewhere)]).store_ms == Interval(NOON_MS, None)


def test_queues_are_admitted_by_all_of_it() -> None:
    narrowing = Narrowing(topics=frozenset(["Orders"]), brokers=frozenset(["broker-a"]), queue_ids=Interval(1, 2))
    assert narrowing.admits(MessageQueue("Orders", "broker-a", 1))
    assert not narrowing.admits(MessageQueue("Bills", "broker-a", 1))
    assert not narrowing.admits(MessageQueue("Orders", "broker-b", 1))
    assert not narrowing.admits(MessageQueue("Orders", "broker-a", 3))
