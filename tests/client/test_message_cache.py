"""The cache of one queue: what may be committed, what is counted, and a plain model beside it."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from skyrocketmq.client.message_cache import MessageCache
from skyrocketmq.client.moments import Moment
from skyrocketmq.model import MessageView

from .messages import offsets, view, views


def cache_with(*queue_offsets: int) -> MessageCache:
    cache = MessageCache(Moment(0, 0.0))
    cache.put(views(*queue_offsets))
    return cache


class TestWhatMayBeCommitted:
    def test_the_smallest_unfinished_offset(self) -> None:
        cache = cache_with(5, 6, 7)
        assert cache.remove(views(7), now_ms=1) == 5
        assert cache.remove(views(5), now_ms=1) == 6
        assert cache.remove(views(6), now_ms=1) == 8

    def test_the_one_after_the_highest_seen_when_all_is_finished(self) -> None:
        cache = cache_with(5, 9)
        assert cache.remove(views(5, 9), now_ms=1) == 10

    def test_nothing_when_the_cache_was_empty(self) -> None:
        cache = cache_with(5)
        cache.remove(views(5), now_ms=1)
        assert cache.remove(views(5), now_ms=1) is None

    def test_messages_that_are_not_here_change_nothing(self) -> None:
        cache = cache_with(5, 6)
        assert cache.remove(views(4, 7), now_ms=1) == 5
        assert cache.count == 2

    def test_gaps_in_the_offsets_are_skipped(self) -> None:
        cache = cache_with(5, 100, 2_000)
        assert cache.remove(views(5), now_ms=1) == 100


class TestWhatIsCounted:
    def test_count_bytes_span_and_ends(self) -> None:
        cache = MessageCache(Moment(0, 0.0))
        cache.put([view(3, b"abc"), view(4, b"d"), view(9, b"ef")])
        assert (cache.count, cache.body_bytes, cache.span) == (3, 6, 6)
        assert (cache.first_offset, cache.last_offset) == (3, 9)
        cache.remove([view(9, b"ef")], now_ms=1)
        assert (cache.count, cache.body_bytes, cache.span) == (2, 4, 1)

    def test_an_empty_cache_has_no_ends(self) -> None:
        cache = MessageCache(Moment(0, 0.0))
        assert (cache.count, cache.body_bytes, cache.span) == (0, 0, 0)
        assert cache.first_offset is None
        assert cache.last_offset is None

    def test_a_message_that_comes_twice_counts_once(self) -> None:
        cache = cache_with(1, 2)
        cache.put(views(2, 3))
        assert (cache.count, cache.body_bytes) == (3, 3)

    def test_the_backlog_is_what_follows_the_last_message_of_the_latest_pull(self) -> None:
        cache = MessageCache(Moment(0, 0.0))
        cache.put(views(1, 2), queue_end=10)
        assert cache.backlog_count == 8
        cache.put([], queue_end=99)
        assert cache.backlog_count == 8

    def test_offsets_that_come_late_are_put_in_their_place(self) -> None:
        cache = cache_with(5, 6)
        cache.remove(views(6), now_ms=1)
        cache.put(views(6, 2))
        assert (cache.first_offset, cache.last_offset, cache.count) == (2, 6, 3)
        assert cache.remove(views(2, 5), now_ms=1) == 6

    def test_clearing_leaves_nothing(self) -> None:
        cache = cache_with(5, 6, 7)
        cache.take_for_order(1, now_ms=1)
        cache.clear()
        assert (cache.count, cache.body_bytes, cache.span) == (0, 0, 0)
        assert cache.commit() is None
        assert cache.remove(views(6), now_ms=1) is None


class TestInOrder:
    def test_messages_are_taken_from_the_head_and_count_until_they_are_committed(self) -> None:
        cache = cache_with(1, 2, 3)
        assert offsets(cache.take_for_order(2, now_ms=7)) == [1, 2]
        assert (cache.count, cache.waiting_count, cache.body_bytes, cache.first_offset) == (3, 1, 3, 3)
        assert cache.last_consume_ms == 7
        assert cache.commit() == 3
        assert (cache.count, cache.waiting_count, cache.body_bytes) == (1, 1, 1)

    def test_what_is_put_back_is_taken_again_first(self) -> None:
        cache = cache_with(1, 2, 3)
        cache.take_for_order(2, now_ms=1)
        cache.put_back()
        assert offsets(cache.take_for_order(5, now_ms=1)) == [1, 2, 3]

    def test_a_message_may_come_back_with_another_count_of_attempts(self) -> None:
        cache = cache_with(1, 2)
        taken = cache.take_for_order(2, now_ms=1)
        cache.put_back([msgspec.structs.replace(taken[1], reconsume_times=1)])
        assert cache.commit() == 2
        assert [message.reconsume_times for message in cache.take_for_order(1, now_ms=1)] == [1]

    def test_a_message_that_was_not_taken_is_not_put_back(self) -> None:
        cache = cache_with(1)
        cache.put_back(views(7))
        assert offsets(cache.take_for_order(9, now_ms=1)) == [1]

    def test_a_pull_does_not_add_what_is_being_consumed(self) -> None:
        cache = cache_with(1, 2)
        cache.take_for_order(1, now_ms=1)
        cache.put(views(1, 2, 3))
        assert offsets(cache.take_for_order(9, now_ms=1)) == [2, 3]

    def test_nothing_taken_is_nothing_to_commit(self) -> None:
        assert cache_with(1).commit() is None


class TestTimes:
    def test_the_head_is_overdue_when_a_handler_has_had_it_too_long(self) -> None:
        cache = cache_with(1, 2)
        cache.mark_started(views(1, 2), now_s=100)
        assert cache.find_overdue(now_s=1_100, timeout_s=1_000) is None
        assert cache.find_overdue(now_s=1_101, timeout_s=1_000) == view(1)

    def test_a_message_that_nobody_has_begun_with_is_not_overdue(self) -> None:
        assert cache_with(1).find_overdue(now_s=1e9, timeout_s=1) is None

    def test_a_finished_message_is_not_overdue(self) -> None:
        cache = cache_with(1, 2)
        cache.mark_started(views(1), now_s=100)
        cache.remove(views(1), now_ms=200)
        assert cache.find_overdue(now_s=1e9, timeout_s=1) is None

    def test_a_lock_is_trusted_for_thirty_seconds_and_a_silent_pull_for_two_minutes(self) -> None:
        cache = MessageCache(Moment(1_000, 1.0))
        assert not cache.is_lock_expired(Moment(31_000, 31.0))
        assert cache.is_lock_expired(Moment(31_001, 31.001))
        assert not cache.is_pull_expired(121.0)
        assert cache.is_pull_expired(121.001)

    def test_a_lock_is_over_as_soon_as_either_clock_says_so(self) -> None:
        cache = MessageCache(Moment(1_000_000, 1_000.0))
        assert cache.is_lock_expired(Moment(400_000, 1_031.0)), "somebody has set the time of day back by ten minutes"
        assert cache.is_lock_expired(Moment(1_031_000, 1_000.5)), "the machine was asleep, and its monotonic clock too"
        assert not cache.is_lock_expired(Moment(400_000, 1_029.0))


def test_an_administrator_sees_the_queue_as_it_is() -> None:
    cache = MessageCache(Moment(5, 0.0))
    cache.put([view(number, b"x" * 700_000) for number in (4, 5, 6)])
    cache.take_for_order(1, now_ms=9)
    cache.is_locked = cache.is_dropped = True
    cache.unlock_attempt_count = 2
    info = cache.to_info(commit_offset=4)
    assert (info.cached_msg_count, info.cached_msg_min_offset, info.cached_msg_max_offset) == (2, 5, 6)
    assert (info.transaction_msg_count, info.transaction_msg_min_offset, info.transaction_msg_max_offset) == (1, 4, 4)
    assert (info.cached_msg_size_mib, info.commit_offset) == (2, 4)
    assert (info.locked, info.dropped, info.try_unlock_times) == (True, True, 2)
    assert (info.last_pull_timestamp, info.last_lock_timestamp, info.last_consume_timestamp) == (5, 5, 9)


class CacheBesideAModel(RuleBasedStateMachine):
    """Random use, and after each step what two plain dicts say."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = MessageCache(Moment(0, 0.0))
        self.waiting: dict[int, MessageView] = {}
        self.taken: dict[int, MessageView] = {}
        self.highest = -1

    @rule(gaps=st.lists(st.integers(1, 3), max_size=8), back=st.integers(0, 3))
    def put(self, gaps: list[int], back: int) -> None:
        at = self.highest - back
        pulled = []
        for gap in gaps:
            at += gap
            pulled.append(view(max(0, at), b"x" * (at % 5 + 1)))
        self.cache.put(pulled)
        for message in pulled:
            if message.queue_offset not in self.taken:
                self.waiting.setdefault(message.queue_offset, message)
            self.highest = max(self.highest, message.queue_offset)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.waiting)), unique=True)) if self.waiting else []
        was_empty = not self.waiting
        result = self.cache.remove([self.waiting[offset] for offset in chosen], now_ms=1)
        for offset in chosen:
            del self.waiting[offset]
        assert result == (None if was_empty else min(self.waiting, default=self.highest + 1))

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        expected = sorted(self.waiting)[:count]
        assert offsets(self.cache.take_for_order(count, now_ms=1)) == expected
        self.taken |= {offset: self.waiting.pop(offset) for offset in expected}

    @rule()
    def put_back(self) -> None:
        self.cache.put_back()
        self.waiting |= self.taken
        self.taken.clear()

    @precondition(lambda self: bool(self.taken))
    @rule()
    def commit(self) -> None:
        assert self.cache.commit() == max(self.taken) + 1
        self.taken.clear()

    @invariant()
    def figures_agree(self) -> None:
        held = [*self.waiting.values(), *self.taken.values()]
        assert self.cache.count == len(held)
        assert self.cache.waiting_count == len(self.waiting)
        assert self.cache.body_bytes == sum(len(message.body) for message in held)
        assert self.cache.first_offset == min(self.waiting, default=None)
        assert self.cache.last_offset == max(self.waiting, default=None)


CacheBesideAModel.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestCacheBesideAModel = CacheBesideAModel.TestCase
