"""Plans, as values: nothing twice, nothing left out, and never more than was allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the pipeline needs pyarrow: pip install skyrocketmq[spark]")

from skyrocketmq import MessageQueue
from skyrocketmq.spark.places import Bounds, Offsets
from skyrocketmq.spark.planning import clip, is_due, limit_bytes, limit_count, ranges_between, split
from skyrocketmq.spark.pulling import DataLost, QueueRange

QUEUES = [MessageQueue("Orders", broker, number) for broker in ("broker-a", "broker-b") for number in range(3)]
A, B, *_ = QUEUES

SPANS = st.lists(
    st.tuples(st.integers(0, 10**9), st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 10**7))),
    min_size=len(QUEUES),
    max_size=len(QUEUES),
)


def offsets(spans: list[tuple[int, int]]) -> tuple[Offsets, Offsets]:
    starts = {queue: start for queue, (start, _) in zip(QUEUES, spans, strict=True)}
    ends = {queue: start + count for queue, (start, count) in zip(QUEUES, spans, strict=True)}
    return starts, ends


def numbers_of(ranges: list[QueueRange]) -> list[tuple[str, int, int]]:
    return [(one.broker, one.queue_id, offset) for one in ranges for offset in range(one.start, one.end)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 30))
def test_equal_shares_have_each_message_once_and_in_order(counts: list[int], partitions: int) -> None:
    ranges = [QueueRange("Orders", "broker-a", number, 7, 7 + count) for number, count in enumerate(counts) if count]
    parts = split(ranges, partitions)
    assert numbers_of([one for part in parts for one in part]) == numbers_of(ranges)
    shares = [sum(one.count for one in part) for part in parts]
    assert len(parts) == min(partitions, sum(counts))
    assert max(shares, default=0) - min(shares, default=0) <= 1


def test_without_a_number_each_range_is_a_task() -> None:
    ranges = ranges_between({A: 3, B: 5}, {A: 9, B: 5})
    assert ranges == [QueueRange("Orders", "broker-a", 0, 3, 9)]
    assert split(ranges, None) == [(ranges[0],)]
    assert split([], 4) == []


@given(SPANS, st.integers(1, 10**7))
def test_a_limit_is_kept_and_used_up(spans: list[tuple[int, int]], count_max: int) -> None:
    starts, ends = offsets(spans)
    near = limit_count(starts, ends, count_max)
    assert all(starts[queue] <= near[queue] <= ends[queue] for queue in QUEUES)
    waiting = sum(count for _, count in spans)
    taken = sum(near[queue] - starts[queue] for queue in QUEUES)
    assert taken == min(waiting, count_max)


@given(SPANS, st.integers(len(QUEUES), 10**7))
def test_no_queue_starves_beside_longer_ones(spans: list[tuple[int, int]], count_max: int) -> None:
    starts, ends = offsets(spans)
    near = limit_count(starts, ends, count_max)
    assert all(near[queue] > starts[queue] for queue in QUEUES if ends[queue] > starts[queue])


@given(SPANS, st.integers(1, 10**10), st.lists(st.floats(100, 10_000), min_size=6, max_size=6))
def test_a_limit_in_bytes_is_kept_but_for_one_message(
    spans: list[tuple[int, int]], bytes_max: int, sizes: list[float]
) -> None:
    starts, ends = offsets(spans)
    mean = dict(zip(QUEUES, sizes, strict=True))
    near = limit_bytes(starts, ends, bytes_max, mean)
    taken = sum((near[queue] - starts[queue]) * mean[queue] for queue in QUEUES)
    if sum(count for _, count in spans):
        assert any(near[queue] > starts[queue] for queue in QUEUES)
    # Shares are whole messages: rounding gives a queue one more at most, and so does the rule that none starves.
    assert taken <= bytes_max + 2 * sum(sizes)


def test_what_the_queue_does_not_have_is_lost_or_left_out() -> None:
    bounds = {A: Bounds(10, 20), B: Bounds(0, 0)}
    inside = ({A: 10, B: 0}, {A: 20, B: 0})
    assert clip(*inside, bounds, fail_on_data_loss=True) == inside
    for start, end in ((9, 15), (10, 21), (25, 25), (3, 5)):
        with pytest.raises(
            DataLost, match=rf"\[{start}, {end}\) of Orders@broker-a:0 .* has \[10, 20\).*failOnDataLoss"
        ):
            clip({A: start, B: 0}, {A: end, B: 0}, bounds, fail_on_data_loss=True)
    starts, ends = clip({A: 3, B: 0}, {A: 99, B: 7}, bounds, fail_on_data_loss=False)
    assert (starts, ends) == inside
    empty_below = clip({A: 5, B: 0}, {A: 5, B: 0}, bounds, fail_on_data_loss=True)
    assert ranges_between(*empty_below) == []


@pytest.mark.parametrize(
    ("count", "count_min", "waited_s", "expected"),
    [(0, None, 0, True), (5, 5, 0, True), (4, 5, 0, False), (4, 5, 60, True), (0, 5, 60, False)],
)
def test_a_batch_begins_with_enough_or_after_long_enough(
    count: int, count_min: int | None, waited_s: float, expected: bool
) -> None:
    assert is_due(count, count_min=count_min, waited_s=waited_s, wait_max_s=60) is expected
