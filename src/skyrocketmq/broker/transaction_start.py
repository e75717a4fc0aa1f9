"""What a start finds out about transactions: which of them are pending.

Read are the marks from the op offset on and the half messages from the half offset on; what lies before is over (see
`transaction_table`). That is about as much as came in a minute.

Rule 1: a copy of a half message belongs to the transaction of the first one: if any of them is marked as ended, it is
over. One that was given up is pending again if an operator had a copy stored since.
Rule 2: a commit whose mark is missing because the log was torn between the two is over as well, and is marked now. It
is believed only if it names a half message of this transaction: a producer can set the bits of a commit, not the place.
Rule 3: only places are kept of what is read: there may be many bodies.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from skyrocketmq.broker.record_reading import read_span
from skyrocketmq.broker.transaction_log import TransactionLog
from skyrocketmq.broker.transaction_records import (
    ENDS,
    GIVEN_UP,
    REPLACED,
    HalfMessage,
    read_half,
    read_mark,
    shown,
)
from skyrocketmq.errors import MQError
from skyrocketmq.model import TransactionType
from skyrocketmq.model.flags import transaction_type
from skyrocketmq.store import Buffer, ConsumeQueue, MessageStore
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.wire.records import scan_record

__all__ = ["find_pending"]

logger = logging.getLogger(__name__)

COUNT_AT_ONCE: Final = 256


class _Place(NamedTuple):
    """Where the newest copy of a pending half message lies, and where a commit would put it."""

    queue_offset: int
    log_offset: int
    queue: ConsumeQueue
    unique_id: bytes


class _Marks(NamedTuple):
    """Offsets of half messages whose transactions are over, and of those that were given up."""

    ended: set[int]
    given_up: set[int]


async def find_pending(
    transactions: TransactionLog, store: MessageStore, reads: ColdReads, *, half_offset: int, op_offset: int
) -> None:
    """Fill the table of pending transactions."""
    marks = await _read_marks(transactions, store, reads, op_offset)
    places: dict[bytes, _Place] = {}
    over: set[bytes] = set()
    queue, at = transactions.half_queue, half_offset
    while at < queue.max_offset:
        span, at = await reads.run(read_span(store.log, queue, at, COUNT_AT_ONCE))
        for offset, record in span:
            half = _read_half(transactions, offset, record)
            if half is None:
                continue
            places.pop(half.transaction, None)  # the newest copy stands for all, at its place
            if _is_over(half, marks, over):
                over.add(half.transaction)
            elif offset not in marks.given_up:
                places[half.transaction] = _Place(
                    offset, half.log_offset, store.queue(half.topic, half.queue_id), half.unique_id
                )
    for transaction in await _committed_last(transactions, store, reads, places):
        place = places.pop(transaction)
        result = transactions.put_mark(ENDS[TransactionType.COMMIT], place.unique_id, place.queue_offset)
        logger.warning(
            "a commit had lost its mark in a crash",
            extra={"transaction": shown(transaction), "marked": result.status.name},
        )
    for transaction, place in places.items():
        transactions.pending.add(transaction, place.queue_offset)


def _is_over(half: HalfMessage, marks: _Marks, over: set[bytes]) -> bool:
    if half.queue_offset in marks.ended:
        return True
    return half.is_copy and (half.transaction in over or half.first_offset in marks.ended)


async def _read_marks(transactions: TransactionLog, store: MessageStore, reads: ColdReads, op_offset: int) -> _Marks:
    marks = _Marks(set(), set())
    queue, at = transactions.op_queue, op_offset
    while at < queue.max_offset:
        span, at = await reads.run(read_span(store.log, queue, at, COUNT_AT_ONCE))
        for offset, record in span:
            try:
                half_offset, end = read_mark(record)
            except MQError as error:
                logger.error("mark of a transaction cannot be read", extra={"offset": offset, "reason": str(error)})
                continue
            if end == GIVEN_UP:
                marks.given_up.add(half_offset)
            elif end != REPLACED:  # of such a half message the copy tells, which lies behind it
                marks.ended.add(half_offset)
    return marks


def _read_half(transactions: TransactionLog, offset: int, record: Buffer) -> HalfMessage | None:
    try:
        return read_half(record)
    except MQError as error:
        logger.error("half message cannot be read, stepped over", extra={"offset": offset, "reason": str(error)})
        return None


async def _committed_last(
    transactions: TransactionLog, store: MessageStore, reads: ColdReads, places: dict[bytes, _Place]
) -> list[bytes]:
    """Of these those that are committed by what is the last message of its queue: only there a mark can be missing."""
    queues: dict[ConsumeQueue, None] = {place.queue: None for place in places.values()}
    found: list[bytes] = []
    for queue in queues:
        # After a power cut fillers may stand between the last message and the end.
        last = await reads.run(queue.find_last_message())
        if last is None:
            continue
        span, _ = await reads.run(read_span(store.log, queue, last, 1))
        for _, record in span:
            transaction = await _committed_by(transactions, store, reads, record)
            # An older commit under the same id is another one's: the producer has used the id again since.
            if transaction in places and places[transaction].log_offset < _log_offset(record):
                found.append(transaction)
    return found


async def _committed_by(
    transactions: TransactionLog, store: MessageStore, reads: ColdReads, record: Buffer
) -> bytes | None:
    """The transaction that a message is the commit of; None for any other message."""
    scanned = scan_record(record, 0, len(record), check_crc=False)
    if scanned is None or transaction_type(scanned.sys_flag) is not TransactionType.COMMIT:
        return None
    prepared_offset = scanned.prepared_offset
    if prepared_offset == 0:
        return None  # that is what messages have that are none; better asked about once more than taken for over
    named = await store.message_at(prepared_offset)
    try:
        claimed = None if named is None else read_half(named)
    except MQError:
        return None
    if claimed is None:
        return None
    half = await reads.run(transactions.find_half(claimed.queue_offset, prepared_offset))
    return None if half is None else half.transaction


def _log_offset(record: Buffer) -> int:
    scanned = scan_record(record, 0, len(record), check_crc=False)
    assert scanned is not None, "it was read before"
    return scanned.log_offset
