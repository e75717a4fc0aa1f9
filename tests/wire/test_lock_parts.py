from __future__ import annotations

import pytest

from skyrocketmq.model import MessageQueue
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import QueueLockTable
from skyrocketmq.wire.json_dialect import write_pretty
from skyrocketmq.wire.lock_parts import LOCKS_A_PART, lock_table_parts


def owners(count: int) -> dict[MessageQueue, str]:
    return {MessageQueue(f'a "topic" {{{number}}}', "broker-ä", number): f"c\\{number % 3}" for number in range(count)}


@pytest.mark.parametrize(
    "table",
    [
        QueueLockTable(),
        QueueLockTable(noted_ms=1_700_000_000_000, owner_table={"g": owners(1)}),
        QueueLockTable(noted_ms=1, owner_table={"g": owners(3), 'odd"\n': owners(2), "ü": {}}),
        QueueLockTable(noted_ms=1, owner_table={"g": owners(LOCKS_A_PART), "h": owners(2 * LOCKS_A_PART + 1)}),
    ],
    ids=["empty", "one", "names", "parts"],
)
def test_the_parts_together_are_read_as_the_table(table: QueueLockTable) -> None:
    written = b"".join(lock_table_parts(table))
    assert decode_body(QueueLockTable, written) == table
    assert decode_body(QueueLockTable, write_pretty(table)) == table, "as earlier versions wrote it"


def test_no_part_has_many_locks_and_none_is_made_before_its_time() -> None:
    table = QueueLockTable(owner_table={"g": owners(10 * LOCKS_A_PART)})
    parts = lock_table_parts(table)
    assert max(part.count(b"queueId") for part in parts) == LOCKS_A_PART
