"""What is done about half messages, which transactions are pending, and from where a start reads: the rules alone."""

from __future__ import annotations

import pytest

from skyrocketmq.broker.transaction_rules import RENEW_BEHIND, Check, decide, immunity_ms
from skyrocketmq.broker.transaction_table import PendingHalves, Progress

HOUR_MS = 3_600_000


def decided(**changes: int | bool) -> Check:
    usual: dict[str, int | bool] = {
        "age_ms": 7000,
        "immunity_ms": 6000,
        "check_count": 0,
        "check_count_max": 15,
        "age_ms_max": 72 * HOUR_MS,
        "has_producer": True,
        "behind": 1,
    }
    return decide(**(usual | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, Check.ASK),
        ({"age_ms": 6000}, Check.ASK),
        ({"age_ms": 5999}, Check.LEAVE),
        ({"age_ms": 0}, Check.LEAVE),
        ({"age_ms": -1}, Check.ASK),  # born in the future: nobody knows how old it is
        ({"check_count": 14}, Check.ASK),
        ({"check_count": 15}, Check.GIVE_UP),
        ({"check_count": 15, "age_ms": 0}, Check.GIVE_UP),
        ({"age_ms": 72 * HOUR_MS}, Check.ASK),
        ({"age_ms": 72 * HOUR_MS + 1}, Check.GIVE_UP),
        ({"has_producer": False}, Check.LEAVE),
        ({"has_producer": False, "behind": RENEW_BEHIND}, Check.RENEW),
        ({"age_ms": 0, "behind": RENEW_BEHIND}, Check.RENEW),
        ({"behind": RENEW_BEHIND}, Check.ASK),
        ({"has_producer": False, "check_count": 15}, Check.GIVE_UP),
    ],
)
def test_what_is_done_follows_from_age_count_and_who_is_there(changes: dict[str, int], step: Check) -> None:
    assert decided(**changes) is step


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, 6000), (b"-1", 6000), (b"soon", 6000), (b"", 6000), (b"30", 30_000), (b"0", 0)],
)
def test_the_immunity_time_is_the_messages_own_or_the_usual_one(text: bytes | None, expected: int) -> None:
    assert immunity_ms(text, timeout_ms=6000) == expected


def test_the_newest_copy_stands_for_a_transaction_and_the_order_is_that_of_the_queue() -> None:
    pending = PendingHalves()
    assert pending.add(b"a", 0) is None
    pending.add(b"b", 1)
    assert pending.add(b"a", 2) == 0
    assert list(pending) == [(b"b", 1), (b"a", 2)]
    assert pending.oldest() == 1
    assert pending.take(b"b", None) == 1
    assert pending.oldest() == 2
    pending.put_back([(b"b", 1)])
    assert list(pending) == [(b"b", 1), (b"a", 2)], "an end that was not stored is taken back, to its place"
    assert pending.find(b"b") == 1


def test_offsets_move_over_what_is_over_and_durable() -> None:
    progress = Progress(0, 0)
    progress.note(oldest=3, half_end=10, op_end=5, log_end=1000)
    assert not progress.settle(999), "a power cut could take the marks, and nobody would ask again"
    assert progress.settle(1000)
    assert (progress.half_offset, progress.op_offset) == (3, 0), "some of the five marks may speak of 3 to 9"
    progress.note(oldest=12, half_end=20, op_end=15, log_end=2000)
    assert progress.settle(2500)
    assert (progress.half_offset, progress.op_offset) == (12, 5), "the first five speak of half messages before 10"
    progress.note(oldest=None, half_end=20, op_end=20, log_end=3000)
    assert progress.settle(3000)
    assert (progress.half_offset, progress.op_offset) == (20, 20)
    assert not progress.settle(9000), "nothing new"


def test_a_round_in_which_nothing_happened_is_not_kept() -> None:
    """The log grows with other messages while one transaction is pending for days, and a round is every minute."""
    progress = Progress(0, 0)
    for log_end in range(1000, 2000):
        progress.note(oldest=3, half_end=10, op_end=5, log_end=log_end)
    assert len(progress._marks) == 1
    assert progress.settle(1000), "and what was noted first is safe first"
    assert progress.half_offset == 3
