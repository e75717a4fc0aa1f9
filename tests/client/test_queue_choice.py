"""Turns, retries on another broker, and brokers that are avoided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.client.fault_table import FaultTable, avoidance_ms
from skyrocketmq.client.queue_choice import QueueChoice

from .queues import ids, queues_of


class TestTurns:
    @given(start=st.integers(-(2**31), 2**32), each=st.integers(1, 9))
    def test_every_queue_has_its_turn_before_one_has_its_second(self, start: int, each: int) -> None:
        queues = queues_of("broker-a", "broker-b", each=each)
        choice = QueueChoice(start=start)
        chosen = [choice.choose(queues) for _ in queues]
        if 0 <= start < 2**31 - len(queues):  # where the index turns over, the order starts anew
            assert set(chosen) == set(queues)
        assert all(queue in queues for queue in chosen)

    def test_the_index_moves_before_its_first_use(self) -> None:
        queues = queues_of("broker-a", each=4)
        choice = QueueChoice(start=5)
        assert ids([choice.choose(queues) for _ in range(5)]) == [2, 3, 0, 1, 2]

    def test_the_index_begins_again_at_zero_after_the_largest_java_int(self) -> None:
        queues = queues_of("broker-a", each=4)
        choice = QueueChoice(start=2**31 - 2)
        assert ids([choice.choose(queues) for _ in range(3)]) == [3, 0, 1]

    def test_turns_go_on_when_the_queues_change(self) -> None:
        choice = QueueChoice(start=0)
        choice.choose(queues_of("broker-a", each=4))
        assert choice.choose(queues_of("broker-a", each=8)).queue_id == 2


class TestRetries:
    def test_a_retry_goes_to_another_broker(self) -> None:
        queues = queues_of("broker-a", "broker-b", each=2)
        for start in range(4):
            assert QueueChoice(start=start).choose(queues, avoid_broker="broker-a").broker_name == "broker-b"

    def test_a_retry_with_one_broker_takes_the_next_queue(self) -> None:
        queues = queues_of("broker-a", each=4)
        assert QueueChoice(start=0).choose(queues, avoid_broker="broker-a") in queues


class TestFaults:
    @pytest.mark.parametrize(
        ("latency_ms", "pause_ms"),
        [
            (0, 0),
            (50, 0),
            (549, 0),
            (550, 30_000),
            (999, 30_000),
            (1_000, 60_000),
            (2_000, 120_000),
            (3_000, 180_000),
            (14_999, 180_000),
            (15_000, 600_000),
            (30_000, 600_000),
        ],
    )
    def test_slow_calls_cost_a_broker_its_turns(self, latency_ms: int, pause_ms: int) -> None:
        assert avoidance_ms(latency_ms) == pause_ms

    def test_a_broker_is_available_again_when_its_time_has_passed(self) -> None:
        faults = FaultTable()
        faults.record("broker-a", latency_ms=600, is_failed=False, now_ms=1_000)
        assert not faults.is_available("broker-a", now_ms=30_999)
        assert faults.is_available("broker-a", now_ms=31_000)
        assert faults.is_available("broker-b", now_ms=1_000)

    def test_a_failed_call_counts_as_a_very_slow_one(self) -> None:
        faults = FaultTable()
        faults.record("broker-a", latency_ms=3, is_failed=True, now_ms=0)
        assert not faults.is_available("broker-a", now_ms=599_999)
        assert faults.is_available("broker-a", now_ms=600_000)

    def test_a_quick_call_makes_a_broker_available_at_once(self) -> None:
        faults = FaultTable()
        faults.record("broker-a", latency_ms=3, is_failed=True, now_ms=0)
        faults.record("broker-a", latency_ms=3, is_failed=False, now_ms=10)
        assert faults.is_available("broker-a", now_ms=10)

    def test_an_empty_table_offers_nothing(self) -> None:
        assert FaultTable().take_turn(now_ms=0) is None

    def test_the_better_half_takes_turns(self) -> None:
        faults = FaultTable()
        for name, latency_ms in [("slow", 900), ("slower", 990), ("fast", 600), ("slowest", 999)]:
            faults.record(name, latency_ms=latency_ms, is_failed=False, now_ms=0)
        assert [faults.take_turn(now_ms=1) for _ in range(4)] == ["slow", "fast", "slow", "fast"]

    def test_available_brokers_come_first_then_latency_then_who_is_available_sooner(self) -> None:
        faults = FaultTable(turn=1)
        faults.record("late", latency_ms=600, is_failed=False, now_ms=500)
        faults.record("early", latency_ms=600, is_failed=False, now_ms=0)
        assert faults.take_turn(now_ms=600) == "early"
        faults.record("early", latency_ms=700, is_failed=False, now_ms=0)
        assert faults.take_turn(now_ms=600) == "late"
        assert faults.take_turn(now_ms=30_100) == "early"


class TestHealthyQueues:
    def test_queues_of_avoided_brokers_are_passed_over(self) -> None:
        queues = queues_of("broker-a", "broker-b", each=2)
        faults = FaultTable()
        faults.record("broker-a", latency_ms=0, is_failed=True, now_ms=0)
        choice = QueueChoice(start=0)
        assert {choice.choose_healthy(queues, faults, now_ms=1) for _ in range(9)} == set(queues[2:])

    def test_when_all_are_avoided_the_least_bad_broker_is_used(self) -> None:
        queues = queues_of("broker-a", "broker-b", each=2)
        faults = FaultTable()
        faults.record("broker-a", latency_ms=900, is_failed=False, now_ms=0)
        faults.record("broker-b", latency_ms=600, is_failed=False, now_ms=0)
        choice = QueueChoice(start=0)
        assert {choice.choose_healthy(queues, faults, now_ms=1) for _ in range(9)} == set(queues[2:])

    def test_a_slow_broker_is_less_bad_than_one_that_refuses_quickly(self) -> None:
        queues = queues_of("broker-a", "broker-b", each=2)
        faults = FaultTable()
        faults.record("broker-a", latency_ms=1, is_failed=True, now_ms=0)
        faults.record("broker-b", latency_ms=900, is_failed=False, now_ms=0)
        assert QueueChoice(start=0).choose_healthy(queues, faults, now_ms=1).broker_name == "broker-b"

    @pytest.mark.parametrize("is_failed", [False, True])
    def test_a_retry_goes_to_another_broker_healthy_or_not(self, is_failed: bool) -> None:
        queues = queues_of("broker-a", "broker-b", each=2)
        faults = FaultTable()
        faults.record("broker-b", latency_ms=900, is_failed=is_failed, now_ms=0)
        for start in range(4):
            choice = QueueChoice(start=start)
            queue = choice.choose_healthy(queues, faults, now_ms=1, avoid_broker="broker-a")
            assert queue.broker_name == "broker-b"

    def test_a_least_bad_broker_without_the_topic_is_forgotten(self) -> None:
        queues = queues_of("broker-a", each=2)
        faults = FaultTable()
        faults.record("broker-a", latency_ms=900, is_failed=False, now_ms=0)
        faults.record("elsewhere", latency_ms=600, is_failed=False, now_ms=0)
        choice = QueueChoice(start=0)
        assert choice.choose_healthy(queues, faults, now_ms=1) in queues
        assert faults.is_available("elsewhere", now_ms=1)

    def test_with_all_brokers_healthy_queues_take_turns(self) -> None:
        queues = queues_of("broker-a", "broker-b", each=2)
        choice = QueueChoice(start=-1)
        assert [choice.choose_healthy(queues, FaultTable(), now_ms=1) for _ in queues] == queues
