"""The table of filters: what heartbeats make of it, how long a filter lives, and its file."""

from __future__ import annotations

import pytest

from skyrocketmq.broker.consumer_filters import LOADED_DEAD_SINCE_MS, ConsumerFilters
from skyrocketmq.filters.bloom import BloomFilter
from skyrocketmq.model import SubscriptionData
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import ConsumerFilterTable
from skyrocketmq.wire.json_dialect import write_pretty

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000

# As Apache's broker writes it; `g#T` has the places 90, 68 and 28.
APACHES_FILE = b"""{
\t"filterDataByTopic":{
\t\t"T":{
\t\t\t"groupFilterData":{
\t\t\t\t"g":{
\t\t\t\t\t"bloomFilterData":{
\t\t\t\t\t\t"bitNum":112,
\t\t\t\t\t\t"bitPos":[90,68,28]
\t\t\t\t\t},
\t\t\t\t\t"bornTime":1700000000000,
\t\t\t\t\t"clientVersion":5,
\t\t\t\t\t"consumerGroup":"g",
\t\t\t\t\t"dead":false,
\t\t\t\t\t"deadTime":0,
\t\t\t\t\t"expression":"a > 5",
\t\t\t\t\t"expressionType":"SQL92",
\t\t\t\t\t"topic":"T"
\t\t\t\t}
\t\t\t},
\t\t\t"topic":"T"
\t\t}
\t}
}"""


def sql(expression: str = "a > 5", *, version: int = 5, topic: str = "T", kind: str = "SQL92") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)


@pytest.fixture
def filters() -> ConsumerFilters:
    return ConsumerFilters(BloomFilter(error_percent=20, subscriber_count=32))


def test_a_heartbeat_registers_its_expressions(filters: ConsumerFilters) -> None:
    filters.register("g", [sql(), sql("TagA", topic="U", kind="TAG")], now_ms=NOW_MS)
    found = filters.find("T", "g")
    assert found is not None
    assert (found.sql.expression, found.client_version, found.born_ms) == ("a > 5", 5, NOW_MS)
    assert filters.find("U", "g") is None
    assert filters.find("T", "h") is None
    assert [each.group for each in filters.on("T")] == ["g"]
    assert not filters.on("U")


def test_of_two_versions_the_newer_one_counts(filters: ConsumerFilters) -> None:
    filters.register("g", [sql("a > 5", version=5)], now_ms=NOW_MS)
    filters.register("g", [sql("a > 4", version=4)], now_ms=NOW_MS + 1)
    filters.register("g", [sql("a > 3", version=5)], now_ms=NOW_MS + 2)
    found = filters.find("T", "g")
    assert found is not None
    assert found.sql.expression == "a > 5"
    filters.register("g", [sql("a > 6", version=6)], now_ms=NOW_MS + 3)
    found = filters.find("T", "g")
    assert found is not None
    assert (found.sql.expression, found.born_ms) == ("a > 6", NOW_MS + 3)


def test_the_same_expression_in_a_newer_version_keeps_its_bit_maps(filters: ConsumerFilters) -> None:
    filters.register("g", [sql(version=5)], now_ms=NOW_MS)
    filters.register("g", [sql(version=9)], now_ms=NOW_MS + 1000)
    found = filters.find("T", "g")
    assert found is not None
    assert (found.client_version, found.born_ms) == (9, NOW_MS)
    assert found.counts_for(NOW_MS + 1)
    assert not found.counts_for(NOW_MS)


@pytest.mark.parametrize("bad", [sql("a >", version=6), sql("a > 5", version=6, kind="SCRIPT")], ids=["text", "kind"])
def test_what_cannot_be_used_is_no_filter(filters: ConsumerFilters, bad: SubscriptionData) -> None:
    filters.register("h", [bad], now_ms=NOW_MS)
    assert filters.find("T", "h") is None


def test_a_broken_expression_takes_the_place_of_a_good_one(filters: ConsumerFilters) -> None:
    filters.register("g", [sql(version=5)], now_ms=NOW_MS)
    filters.register("g", [sql("a >", version=6)], now_ms=NOW_MS)
    assert filters.find("T", "g") is None


def test_a_filter_dies_with_its_group_and_is_forgotten_a_day_later(filters: ConsumerFilters) -> None:
    filters.register("g", [sql()], now_ms=NOW_MS)
    filters.unregister("g", now_ms=NOW_MS + 10)
    found = filters.find("T", "g")
    assert found is not None
    assert found.is_dead
    filters.drop_expired(now_ms=NOW_MS + 9 + DAY_MS, ttl_ms=DAY_MS)
    assert filters.find("T", "g") is found
    filters.drop_expired(now_ms=NOW_MS + 10 + DAY_MS, ttl_ms=DAY_MS)
    assert filters.find("T", "g") is None
    assert not filters.has_any("g")


def test_a_group_that_comes_back_finds_its_filter_alive(filters: ConsumerFilters) -> None:
    filters.register("g", [sql(version=5)], now_ms=NOW_MS)
    for version in (5, 6):
        filters.unregister("g", now_ms=NOW_MS + 10)
        filters.register("g", [sql(version=version)], now_ms=NOW_MS + 20)
        found = filters.find("T", "g")
        assert found is not None
        assert not found.is_dead
        filters.drop_expired(now_ms=NOW_MS + 9 * DAY_MS, ttl_ms=DAY_MS)
        assert filters.find("T", "g") is found


@pytest.mark.parametrize("others", [[], [sql(topic="U")], [sql("TagA", kind="TAG")]])
def test_a_filter_dies_when_its_group_subscribes_otherwise(
    filters: ConsumerFilters, others: list[SubscriptionData]
) -> None:
    filters.register("g", [sql()], now_ms=NOW_MS)
    filters.register("g", others, now_ms=NOW_MS + 10)
    found = filters.find("T", "g")
    assert found is not None
    assert (found.is_dead, found.dead_ms) == (True, NOW_MS + 10)


def test_the_file_is_apaches(filters: ConsumerFilters) -> None:
    filters.register("g", [sql()], now_ms=NOW_MS)
    assert b"".join(write_pretty(filters.table()).split()) == b"".join(APACHES_FILE.split())
    filters.restore(decode_body(ConsumerFilterTable, APACHES_FILE), now_ms=NOW_MS + 100_000)
    found = filters.find("T", "g")
    assert found is not None
    assert (found.sql.expression, found.client_version, found.born_ms) == ("a > 5", 5, NOW_MS)
    assert (found.is_dead, found.dead_ms) == (True, NOW_MS + 100_000 - LOADED_DEAD_SINCE_MS)


@pytest.mark.parametrize(
    ("text", "instead"),
    [(b'"bitNum":112', b'"bitNum":64'), (b"[90,68,28]", b"[90,68,27]"), (b"[90,68,28]", b"[]")],
)
def test_filters_of_another_bloom_filter_are_not_loaded(filters: ConsumerFilters, text: bytes, instead: bytes) -> None:
    table = decode_body(ConsumerFilterTable, APACHES_FILE.replace(text, instead))
    filters.restore(table, now_ms=NOW_MS)
    assert filters.find("T", "g") is None


def test_every_change_is_counted_and_nothing_else(filters: ConsumerFilters) -> None:
    counts = [filters.change_count]

    def note() -> bool:
        counts.append(filters.change_count)
        return counts[-1] != counts[-2]

    filters.register("g", [sql()], now_ms=NOW_MS)
    assert note()
    filters.register("g", [sql()], now_ms=NOW_MS)
    assert not note()
    filters.unregister("g", now_ms=NOW_MS)
    assert note()
    filters.unregister("g", now_ms=NOW_MS)
    assert not note()
    filters.drop_expired(now_ms=NOW_MS, ttl_ms=DAY_MS)
    assert not note()
    filters.drop_expired(now_ms=NOW_MS + DAY_MS, ttl_ms=DAY_MS)
    assert note()
