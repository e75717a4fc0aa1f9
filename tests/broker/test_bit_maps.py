"""Bit maps when a message is stored: whom they name, and that they are left out before they take long."""

from __future__ import annotations

import pytest

from skyrocketmq.broker.bit_maps import CONDITIONS_MAX, WINDOW_S, WORK_S, BitMaps
from skyrocketmq.broker.consumer_filters import ConsumerFilters, RegisteredFilter
from skyrocketmq.broker.pull_filters import SqlPullFilter
from skyrocketmq.filters import SqlFilter
from skyrocketmq.filters.bloom import BloomFilter
from skyrocketmq.model import SubscriptionData
from skyrocketmq.store.queue_extension import ExtensionUnit
from tests.test_loop_watch import BusyClock

NOW_MS = 1_700_000_000_000


def filters_of(*expressions: str) -> ConsumerFilters:
    """Those of groups g0, g1 and so on, on the topic T."""
    filters = ConsumerFilters(BloomFilter(error_percent=20, subscriber_count=32))
    for number, expression in enumerate(expressions):
        said = SubscriptionData(topic="T", sub_string=expression, expression_type="SQL92", sub_version=1)
        filters.register(f"g{number}", [said], now_ms=NOW_MS)
    return filters


def wide(count: int) -> str:
    return " OR ".join(f"a{number} = 'x'" for number in range(count))


def registered(filters: ConsumerFilters, number: int) -> RegisteredFilter:
    found = filters.find("T", f"g{number}")
    assert found is not None
    return found


def may_match(filters: ConsumerFilters, number: int, bit_map: bytes) -> bool:
    each = registered(filters, number)
    return SqlPullFilter(each.sql, each).may_match(ExtensionUnit(0, NOW_MS + 1, bit_map))


def test_a_bit_map_names_the_groups_that_want_the_message() -> None:
    filters = filters_of("n = 1", "n = 2")
    made = BitMaps(filters, BusyClock()).of("T", b"n\x012\x02")
    assert [may_match(filters, number, made) for number in range(2)] == [False, True]
    assert BitMaps(filters, BusyClock()).of("Other", b"n\x012\x02") == b""


def test_filters_with_too_many_comparisons_in_all_have_no_bit_map_and_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = [wide(500)] * (CONDITIONS_MAX // 500)
    filters = filters_of(*most)
    assert len(BitMaps(filters, BusyClock()).of("T", b"")) == registered(filters, 0).bit_map_bytes
    filters = filters_of(*most, "a0 = 'y'")
    monkeypatch.setattr(SqlFilter, "matches_text", lambda *_: pytest.fail("a filter was asked"))
    assert BitMaps(filters, BusyClock()).of("T", b"") == b""


def test_a_message_without_a_bit_map_may_be_for_every_group() -> None:
    filters = filters_of("n = 1", "n = 2")
    assert may_match(filters, 0, b"")
    assert may_match(filters, 1, b"")


def test_messages_have_no_bit_map_while_those_before_have_taken_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = BusyClock()
    filters = filters_of("n = 1", "n = 2", "n = 3")
    asked = SqlFilter.matches_text

    def slow(self: SqlFilter, properties: bytes) -> bool:
        clock.work(WORK_S / 10)
        return asked(self, properties)

    monkeypatch.setattr(SqlFilter, "matches_text", slow)
    bit_maps = BitMaps(filters, clock)
    for _ in range(3):
        made = [bool(bit_maps.of("T", b"n\x012\x02")) for _ in range(2_048)]
        assert made == [True] * 3 + [False] * 2_045, "nine filters within the time, and a tenth that is in vain"
        clock.work(WINDOW_S)
    assert clock.monotonic() < 3 * (WINDOW_S + 2 * WORK_S)
