"""Storing half messages and their ends, and knowing which are pending.

Rule 1: a commit is the message and its mark, one behind the other in one write. A crash can part them only at the very
end of the log, and a start looks there (`transaction_start`).
Rule 2: a mark names the newest copy of its half message, whichever copy the producer spoke of: so also a broker of the
family that goes on with this store knows that the transaction is over.
Rule 3: what the store could not write did not happen: the table of pending ones follows the outcome of each batch.
Rule 4: a copy that another takes the place of is marked as replaced, unless a start will not read it anyway: else a
broker of the family would find it without a mark once the newest copy is ended, and ask, and deliver again.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.broker.message_writer import OutgoingMessage
from skyrocketmq.broker.transaction_records import (
    ENDS,
    REPLACED,
    TRANSACTION_QUEUE_ID,
    HalfMessage,
    committed_message,
    half_message,
    mark_message,
    read_half,
    transaction_name,
)
from skyrocketmq.broker.transaction_table import PendingHalves
from skyrocketmq.errors import MQError
from skyrocketmq.model import TransactionType
from skyrocketmq.model.names import TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from skyrocketmq.store import Buffer, ConsumeQueue, MessageStore, PutResult
from skyrocketmq.store.batch import Batch, Outcome, refused
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES
from skyrocketmq.store.reading import read_record

__all__ = ["TransactionLog"]

COMMIT: Final = TransactionType.COMMIT


class TransactionLog:
    """The half queue and the op queue of one broker. Called on the loop's thread."""

    def __init__(self, store: MessageStore, *, store_host: bytes) -> None:
        self.pending = PendingHalves()
        self._store = store
        self._store_host = store_host
        self._batch: Batch | None = None  # the open batch that `_changes` belong to
        self._changes: list[tuple[int, bytes, int | None]] = []  # (log offset, transaction, its newest copy before)

    @property
    def half_queue(self) -> ConsumeQueue:
        return self._store.queue(TRANSACTION_HALF_TOPIC, TRANSACTION_QUEUE_ID)

    @property
    def op_queue(self) -> ConsumeQueue:
        return self._store.queue(TRANSACTION_OP_TOPIC, TRANSACTION_QUEUE_ID)

    # -------------------------------------------------------------------------------- adding to the open batch

    def add_half(self, message: OutgoingMessage, *, cluster: bytes) -> PutResult:
        """Add a half message for the message's queue."""
        half, unique_id, scope = half_message(message, cluster=cluster)
        result = self._store.begin().add(half)
        if result.status.is_stored:
            transaction = transaction_name(scope, unique_id, result.queue_offset)
            before = self.pending.add(transaction, result.queue_offset)
            self._note_change(result.log_offset, transaction, before)
            if before is not None and self._is_needed(before):
                self.add_mark(REPLACED, unique_id, before)
        return result

    def add_end(self, half: HalfMessage, newest: int | None, end: TransactionType) -> PutResult:
        """Add the end of a transaction, whose newest copy is at `newest`: its message if it commits, and the mark."""
        batch, writer = self._store.begin(), self._store.writer
        offset = half.queue_offset if newest is None else newest
        mark = mark_message(ENDS[end], half.unique_id, offset, now_ms=batch.now_ms, host=self._store_host)
        messages = [mark] if end is not COMMIT else [committed_message(half), mark]
        refusal = batch.reserve(sum([writer.record_bytes(each) for each in messages]))
        if refusal is not None:
            return refused(refusal)
        # It was accepted as a half message: a limit that was lowered since does not keep it back.
        results = [batch.add(each, is_accepted=True) for each in messages]
        if results[0].status.is_stored:
            assert results[-1].status.is_stored, "room was made for both"
            self._note_change(results[0].log_offset, half.transaction, newest)
            self.pending.take(half.transaction, None)
        return results[0]

    def add_mark(self, end: bytes, unique_id: bytes, offset: int) -> PutResult:
        """Add the mark of a half message that is not to be asked about any more, and nothing else."""
        batch = self._store.begin()
        return batch.add(mark_message(end, unique_id, offset, now_ms=batch.now_ms, host=self._store_host))

    def _note_change(self, log_offset: int, transaction: bytes, before: int | None) -> None:
        batch = self._store.begin()
        if batch is not self._batch:
            self._batch, self._changes = batch, []
            batch.on_end(self._batch_ended)
        self._changes.append((log_offset, transaction, before))

    def _batch_ended(self, outcome: Outcome) -> None:
        """Take back what was not stored: it did not happen."""
        changes, self._changes = self._changes, []
        self._batch = None
        taken: dict[bytes, int | None] = {}
        for log_offset, transaction, before in reversed(changes):
            if log_offset < outcome.failed_from:
                break
            self.pending.take(transaction, None)
            taken[transaction] = before  # walking backwards, the last value written is the state before the batch
        if taken:
            self.pending.put_back((name, before) for name, before in taken.items() if before is not None)

    # ------------------------------------------------------------------------------------------- stored at once

    def put_half(self, message: OutgoingMessage, *, cluster: bytes) -> PutResult:
        """Store a half message for the message's queue."""
        result = self.add_half(message, cluster=cluster)
        return self._store.begin().commit().of(result)

    def put_end(self, half: HalfMessage, newest: int | None, end: TransactionType) -> PutResult:
        """Store the end of a transaction."""
        result = self.add_end(half, newest, end)
        return self._store.begin().commit().of(result)

    def put_mark(self, end: bytes, unique_id: bytes, offset: int) -> PutResult:
        """Store a mark."""
        result = self.add_mark(end, unique_id, offset)
        return self._store.begin().commit().of(result)

    def replace(self, half: HalfMessage, offset: int) -> None:
        """A copy that is stored already, at `offset`, stands for the transaction from now on."""
        before = self.pending.add(half.transaction, offset)
        if before is not None and self._is_needed(before):
            self.put_mark(REPLACED, half.unique_id, before)

    def _is_needed(self, offset: int) -> bool:
        """Whether a start is going to read this place of the half queue, because one before it is pending."""
        oldest = self.pending.oldest()
        return oldest is not None and oldest < offset

    # ------------------------------------------------------------------------------------------------------- reading

    def find_half(self, queue_offset: int, log_offset: int | None = None) -> Steps[HalfMessage | None]:
        """The half message at an offset of the half queue; None if none is there, or if it lies elsewhere in the log.

        Places that a producer names are believed only as far as the queue agrees: not what looks like a record, but
        what the queue points at is a half message.
        """
        store, queue = self._store, self.half_queue
        if not queue.min_offset <= queue_offset < queue.max_offset:
            return None
        cell = queue.peek_cells(queue_offset, 1)
        if isinstance(cell, ColdRange):
            (cell,) = yield [cell]
        if not cell or len(cell) < CELL_BYTES:
            return None
        position, size, _ = CELL.unpack(cell)
        if log_offset is not None and position != log_offset:
            return None
        record: Buffer | None = yield from read_record(store.log, position, size)
        if record is None:
            return None
        try:
            return read_half(record)
        except MQError:
            return None
