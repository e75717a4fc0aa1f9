"""What a start finds out about transactions: which of them are pending.

Read are the marks from the op offset on and the half messages from the half offset on; what lies before is over (see
`transaction_table`). That is about as much as came in a minute.

Rule 1: a copy of a half message belongs to the transaction of the first one: if any of them is marked, it is over.
Rule 2: a commit whose mark is missing because the log was torn between the two is over as well, and is marked now.
"""

from __future__ import annotations

import logging
from typing import Final

from skyrocketmq.broker.record_reading import read_span
from skyrocketmq.broker.transaction_log import TransactionLog
from skyrocketmq.broker.transaction_records import HalfMessage
from skyrocketmq.errors import MQError
from skyrocketmq.model import TransactionType
from skyrocketmq.model.flags import transaction_type
from skyrocketmq.store import Buffer, ConsumeQueue, MessageStore, split_unique_key
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.wire.records import scan_record

__all__ = ["find_pending"]

logger = logging.getLogger(__name__)

COUNT_AT_ONCE: Final = 256


async def find_pending(
    transactions: TransactionLog, store: MessageStore, reads: ColdReads, *, half_offset: int, op_offset: int
) -> None:
    """Fill the table of pending transactions."""
    marked = await _read_marks(transactions, store, reads, op_offset)
    halves: dict[bytes, HalfMessage] = {}
    over: set[bytes] = set()
    queue, at = transactions.half_queue, half_offset
    while at < queue.max_offset:
        span, at = await reads.run(read_span(store.log, queue, at, COUNT_AT_ONCE))
        for offset, record in span:
            half = _read_half(transactions, offset, record)
            if half is None:
                continue
            if offset in marked or (half.kind.is_copy and half.transaction in over):
                over.add(half.transaction)
                halves.pop(half.transaction, None)
            else:
                halves.pop(half.transaction, None)  # the newest copy stands for all, at its place
                halves[half.transaction] = half
    for half in await _committed_last(store, reads, halves):
        del halves[half.transaction]
        result = transactions.put_mark(half, TransactionType.COMMIT)
        logger.warning(
            "a commit had lost its mark in a crash",
            extra={"transaction": half.transaction.decode("utf-8", "replace"), "marked": result.status.name},
        )
    for half in halves.values():
        transactions.pending.add(half.transaction, half.queue_offset)


async def _read_marks(transactions: TransactionLog, store: MessageStore, reads: ColdReads, op_offset: int) -> set[int]:
    marked: set[int] = set()
    queue, at = transactions.op_queue, op_offset
    while at < queue.max_offset:
        span, at = await reads.run(read_span(store.log, queue, at, COUNT_AT_ONCE))
        for offset, record in span:
            try:
                marked.add(transactions.records.read_mark(record))
            except MQError as error:
                logger.error("mark of a transaction cannot be read", extra={"offset": offset, "reason": str(error)})
    return marked


def _read_half(transactions: TransactionLog, offset: int, record: Buffer) -> HalfMessage | None:
    try:
        return transactions.records.read_half(record)
    except MQError as error:
        logger.error("half message cannot be read, stepped over", extra={"offset": offset, "reason": str(error)})
        return None


async def _committed_last(store: MessageStore, reads: ColdReads, halves: dict[bytes, HalfMessage]) -> list[HalfMessage]:
    """Of these those that are committed by what is the last message of its queue: only there a mark can be missing."""
    queues: dict[ConsumeQueue, None] = {half.kind.queue: None for half in halves.values()}
    found: list[HalfMessage] = []
    for queue in queues:
        last = int(queue.max_offset) - 1
        if last < queue.min_offset:
            continue
        span, _ = await reads.run(read_span(store.log, queue, last, 1))
        for _, record in span:
            half = _committed_by(record, halves)
            if half is not None:
                found.append(half)
    return found


def _committed_by(record: Buffer, halves: dict[bytes, HalfMessage]) -> HalfMessage | None:
    scanned = scan_record(record, 0, len(record), check_crc=False)
    if scanned is None or transaction_type(scanned[5]) is not TransactionType.COMMIT:
        return None
    log_offset, prepared_offset, properties = scanned[4], scanned[7], scanned[8]
    half = halves.get(split_unique_key(properties)[1])
    if half is None:
        same_place = [half for half in halves.values() if half.log_offset == prepared_offset]
        return same_place[0] if same_place else None
    # An older commit under the same id is another one's: the producer has used the id again since.
    return half if log_offset > half.log_offset else None
