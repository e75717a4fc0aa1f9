"""Bits of the system flag."""

from __future__ import annotations

import pytest

from skyrocketmq.model.flags import (
    TransactionType,
    is_dispatched_to_queues,
    transaction_type,
    with_transaction_type,
)


@pytest.mark.parametrize(
    ("sys_flag", "kind", "is_dispatched"),
    [
        (0x331, TransactionType.NONE, True),
        (0x335, TransactionType.PREPARED, False),
        (0x339, TransactionType.COMMIT, True),
        (0x33D, TransactionType.ROLLBACK, False),
    ],
)
def test_the_transaction_bits_decide_about_the_queue(sys_flag: int, kind: TransactionType, is_dispatched: bool) -> None:
    assert transaction_type(sys_flag) is kind
    assert is_dispatched_to_queues(sys_flag) is is_dispatched


def test_the_transaction_bits_are_replaced_and_the_others_kept() -> None:
    assert with_transaction_type(0x335, TransactionType.COMMIT) == 0x339
    assert with_transaction_type(0x33D, TransactionType.NONE) == 0x331
