"""When a consumer pulls, and when it waits."""

from __future__ import annotations

import pytest

from skyrocketmq.client.flow_control import FlowLimits, PullGate, cache_gate, pull_gate
from skyrocketmq.client.message_cache import MIB, MessageCache
from skyrocketmq.client.moments import Moment

from .messages import view, views

LIMITS = FlowLimits(queue_count_max=3, queue_mib_max=1, span_max=10)


def gate(
    cache: MessageCache,
    *,
    is_running: bool = True,
    is_paused: bool = False,
    is_orderly: bool = False,
    is_locked: bool = True,
    is_subscribed: bool = True,
) -> PullGate:
    return pull_gate(
        cache,
        LIMITS,
        is_running=is_running,
        is_paused=is_paused,
        is_orderly=is_orderly,
        is_locked=is_locked,
        is_subscribed=is_subscribed,
    )


def cache_of(*queue_offsets: int, body: bytes = b"x") -> MessageCache:
    cache = MessageCache(Moment(0, 0.0))
    cache.put([view(queue_offset, body) for queue_offset in queue_offsets])
    return cache


def test_the_defaults_are_the_familys() -> None:
    limits = FlowLimits()
    assert (limits.queue_count_max, limits.queue_mib_max, limits.span_max) == (1_000, 100, 2_000)


def test_a_limit_may_be_reached_and_not_passed() -> None:
    assert gate(cache_of(1, 2, 3)) is PullGate.OPEN
    assert gate(cache_of(1, 2, 3, 4)) is PullGate.TOO_MANY_MESSAGES


def test_bytes_count_in_whole_mebibytes() -> None:
    assert gate(cache_of(1, body=b"x" * (2 * MIB - 1))) is PullGate.OPEN
    assert gate(cache_of(1, body=b"x" * (2 * MIB))) is PullGate.TOO_MANY_BYTES


def test_a_wide_span_holds_a_concurrent_consumer_and_not_an_orderly_one() -> None:
    cache = cache_of(1, 12)
    assert gate(cache_of(1, 11)) is PullGate.OPEN
    assert gate(cache) is PullGate.SPAN_TOO_WIDE
    assert gate(cache, is_orderly=True) is PullGate.OPEN


def test_messages_being_consumed_in_order_count_too() -> None:
    cache = cache_of(1, 2, 3, 4)
    cache.take_for_order(4, now_ms=0)
    assert cache_gate(cache, LIMITS) is PullGate.TOO_MANY_MESSAGES


def test_an_orderly_consumer_pulls_only_what_it_has_locked() -> None:
    assert gate(cache_of(), is_orderly=True, is_locked=False) is PullGate.NOT_LOCKED
    assert gate(cache_of(), is_orderly=True) is PullGate.OPEN


def test_a_lock_counts_for_half_a_minute_after_it_was_confirmed() -> None:
    cache = cache_of()
    assert not cache.has_lock(Moment(0, 0.0))
    cache.is_locked = True
    assert cache.has_lock(Moment(30_000, 30.0))
    assert not cache.has_lock(Moment(30_001, 30.0))


def test_of_several_reasons_the_first_counts() -> None:
    cache = cache_of(*range(0, 50, 10), body=b"x" * MIB)
    reasons = []
    cache.is_dropped = True
    reasons.append(gate(cache, is_running=False, is_paused=True, is_subscribed=False))
    cache.is_dropped = False
    reasons.append(gate(cache, is_running=False, is_paused=True, is_subscribed=False))
    reasons.append(gate(cache, is_paused=True, is_subscribed=False))
    reasons.append(gate(cache, is_subscribed=False))
    cache.remove(views(0, 10), now_ms=0)
    reasons.append(gate(cache, is_subscribed=False))
    cache = cache_of(0, 40)
    reasons.append(gate(cache, is_subscribed=False))
    reasons.append(gate(cache, is_orderly=True, is_locked=False, is_subscribed=False))
    reasons.append(gate(cache, is_orderly=True, is_subscribed=False))
    assert reasons == [
        PullGate.DROPPED,
        PullGate.NOT_RUNNING,
        PullGate.PAUSED,
        PullGate.TOO_MANY_MESSAGES,
        PullGate.TOO_MANY_BYTES,
        PullGate.SPAN_TOO_WIDE,
        PullGate.NOT_LOCKED,
        PullGate.NO_SUBSCRIPTION,
    ]


@pytest.mark.parametrize(
    ("gate", "wait_ms"),
    [
        (PullGate.OPEN, 0),
        (PullGate.DROPPED, None),
        (PullGate.NOT_RUNNING, 1_000),
        (PullGate.PAUSED, 1_000),
        (PullGate.TOO_MANY_MESSAGES, 50),
        (PullGate.TOO_MANY_BYTES, 50),
        (PullGate.SPAN_TOO_WIDE, 50),
        (PullGate.NOT_LOCKED, 1_000),
        (PullGate.NO_SUBSCRIPTION, 1_000),
    ],
)
def test_each_reason_has_its_wait(gate: PullGate, wait_ms: int | None) -> None:
    assert gate.wait_ms == wait_ms


class TestLimitsOfATopic:
    def test_are_divided_among_the_queues_that_are_held(self) -> None:
        limits = FlowLimits(topic_count_max=100, topic_mib_max=10).shared_by(8)
        assert (limits.queue_count_max, limits.queue_mib_max) == (12, 1)

    def test_leave_each_queue_at_least_one(self) -> None:
        limits = FlowLimits(topic_count_max=2, topic_mib_max=2).shared_by(5)
        assert (limits.queue_count_max, limits.queue_mib_max) == (1, 1)

    def test_change_nothing_when_they_are_not_set_or_no_queue_is_held(self) -> None:
        assert FlowLimits().shared_by(5) == FlowLimits()
        limits = FlowLimits(topic_count_max=2, topic_mib_max=2)
        assert limits.shared_by(0) == limits

    def test_are_divided_anew_from_the_whole(self) -> None:
        limits = FlowLimits(topic_count_max=100)
        assert limits.shared_by(8).shared_by(2).queue_count_max == 50
