"""Storing half messages and their ends, and knowing which are pending: what the hot path and the handlers share.

A hot module: `add_half` and `add_end` are called for every transaction, inside the batch of a received buffer.

Rule 1: a commit is the message and its mark, one behind the other in one write. A crash can part them only at the very
end of the log, and a start looks there (`transaction_start`).
Rule 2: a mark names the newest copy of its half message, whichever copy the producer spoke of: so also a broker of the
family that goes on with this store knows that the transaction is over.
Rule 3: what the store could not write did not happen: whoever commits a batch calls `take_back` where that failed.
Rule 4: a copy that another takes the place of is marked as replaced, unless a start will not read it anyway: else a
broker of the family would find it without a mark once the newest copy is ended, and ask, and deliver again.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.broker.message_writer import OutgoingMessage, properties_text
from skyrocketmq.broker.transaction_records import (
    CLUSTER,
    ENDS,
    REPLACED,
    TRANSACTION_QUEUE_ID,
    HalfMessage,
    TransactionRecords,
    transaction_name,
)
from skyrocketmq.broker.transaction_table import PendingHalves
from skyrocketmq.errors import MQError
from skyrocketmq.model import LogOffset, QueueOffset, TransactionType
from skyrocketmq.model.flags import with_transaction_type
from skyrocketmq.model.names import TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from skyrocketmq.store import REFUSED, Buffer, ConsumeQueue, MessageStore, PutResult, PutStatus, Refusal
from skyrocketmq.store.cold_reads import ColdRange, Steps
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES
from skyrocketmq.store.reading import read_record

__all__ = ["TransactionLog"]

COMMIT: Final = TransactionType.COMMIT


class TransactionLog:
    """The half queue and the op queue of one broker. Called on the loop's thread."""

    def __init__(self, store: MessageStore, *, store_host: bytes) -> None:
        self.pending = PendingHalves()
        self.records = TransactionRecords(store)
        self._store = store
        self._store_host = store_host
        # What the open batch has changed: where its record is to lie, the transaction, its newest copy before.
        self._changes: list[tuple[int, bytes, int | None]] = []

    @property
    def half_queue(self) -> ConsumeQueue:
        return self._store.queue(TRANSACTION_HALF_TOPIC, TRANSACTION_QUEUE_ID)

    @property
    def op_queue(self) -> ConsumeQueue:
        return self._store.queue(TRANSACTION_OP_TOPIC, TRANSACTION_QUEUE_ID)

    # -------------------------------------------------------------------------------- adding to the open batch

    def add_half(
        self,
        topic: str,
        queue_id: int,
        properties: bytes,
        body: bytes,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int,
        cluster: bytes,
    ) -> tuple[int, int]:
        """Add a half message for a queue; its log offset, or `REFUSED`, and its offset in the half queue.

        Arguments go by position: this is called for every transaction.
        """
        shape, unique_id, scope = self.records.half_shape(topic, queue_id, properties, cluster=cluster)
        queue = self.half_queue
        offset = queue.next_offset
        log_offset = self._store.appender.add(
            queue,
            shape,
            unique_id,
            body,
            flag,
            with_transaction_type(sys_flag, TransactionType.NONE),
            born_ms,
            born_host,
            reconsume_times,
        )
        if log_offset != REFUSED:
            transaction = transaction_name(scope, unique_id, offset)
            before = self.pending.add(transaction, offset)
            self._note_change(log_offset, transaction, before)
            if before is not None and self._is_needed(before):
                self._add_mark(REPLACED, unique_id, before)
        return log_offset, offset

    def add_end(self, half: HalfMessage, newest: int | None, end: TransactionType) -> bool:
        """Add the end of a transaction, whose newest copy is at `newest`; False if there is no room for all of it."""
        store, records, kind = self._store, self.records, half.kind
        appender = store.appender
        mark = records.mark_shape(ENDS[end], half.unique_id)
        mark_body = b"%d" % (half.queue_offset if newest is None else newest)
        total = mark.fixed_bytes + len(mark_body) + 2 * len(self._store_host)
        if end is COMMIT:
            total += appender.record_bytes(kind.shape, len(half.body), half.born_host, half.store_host)
        if not appender.reserve(total):
            return False
        log_offset = REFUSED
        if end is COMMIT:
            log_offset = appender.add_special(
                kind.queue,
                kind.shape,
                half.unique_id,
                half.body,
                half.flag,
                records.committed_flag(half),
                half.born_ms,
                half.born_host,
                half.reconsume_times,
                half.log_offset,
                half.store_host,
            )
            if log_offset == REFUSED:
                return False
        mark_offset = appender.add(
            self.op_queue, mark, half.unique_id, mark_body, 0, 0, appender.now_ms, self._store_host
        )
        assert mark_offset != REFUSED, "room was made for both"
        self._note_change(mark_offset if log_offset == REFUSED else log_offset, half.transaction, newest)
        self.pending.take(half.transaction, None)
        return True

    def _note_change(self, log_offset: int, transaction: bytes, before: int | None) -> None:
        changes = self._changes
        if changes and changes[-1][0] < self._store.log.max_offset:
            changes.clear()  # they are stored
        changes.append((log_offset, transaction, before))

    def take_back(self, failed_from: int) -> None:
        """The commit of a batch failed: what lies from this log offset on was not stored."""
        changes, self._changes = self._changes, []
        taken: dict[bytes, int | None] = {}
        for log_offset, transaction, before in reversed(changes):
            if log_offset < failed_from:
                break
            self.pending.take(transaction, None)
            taken[transaction] = before  # the first change, which comes last here, says what there was
        if taken:
            self.pending.put_back((name, before) for name, before in taken.items() if before is not None)

    # ------------------------------------------------------------------------------------- each a batch of its own

    def put_half(self, message: OutgoingMessage, *, cluster: bytes) -> PutResult:
        """Store a half message for the message's queue."""
        appender = self._store.appender
        if not (appender.settle() and appender.begin()):
            return _refused(appender.refusal)
        # As the producer sent them: under this text the shape is kept for the fast way.
        properties = {name: value for name, value in message.properties.items() if name != CLUSTER}
        log_offset, offset = self.add_half(
            message.topic,
            message.queue_id,
            properties_text(properties),
            message.body,
            message.flag,
            message.sys_flag,
            message.born_ms,
            message.born_host,
            message.reconsume_times,
            cluster,
        )
        refusal = appender.refusal if log_offset == REFUSED else None
        if not self._commit():
            refusal = appender.refusal
        if refusal is not None:
            return _refused(refusal)
        return PutResult(PutStatus.PUT_OK, LogOffset(log_offset), QueueOffset(offset), appender.now_ms)

    def put_end(self, half: HalfMessage, newest: int | None, end: TransactionType) -> PutResult:
        """Store the end of a transaction."""
        appender = self._store.appender
        limit = self._store.config.message_bytes_max
        if not (appender.settle() and appender.begin()):
            return _refused(appender.refusal)
        # It was accepted as a half message: a limit that was lowered since does not keep it back.
        appender.set_message_bytes_max(max(limit, len(half.body)))
        try:
            is_added = self.add_end(half, newest, end)
            refusal = None if is_added else appender.refusal
        finally:
            appender.set_message_bytes_max(limit)
        if not self._commit():
            refusal = appender.refusal
        return PutResult(PutStatus.PUT_OK) if refusal is None and is_added else _refused(refusal)

    def put_mark(self, end: bytes, unique_id: bytes, offset: int) -> PutResult:
        """Store the mark of a half message that is not to be asked about any more, and nothing else."""
        appender = self._store.appender
        if not (appender.settle() and appender.begin()):
            return _refused(appender.refusal)
        is_added = self._add_mark(end, unique_id, offset)
        return PutResult(PutStatus.PUT_OK) if appender.commit() and is_added else _refused(appender.refusal)

    def replace(self, half: HalfMessage, offset: int) -> None:
        """A copy that is stored already, at `offset`, stands for the transaction from now on."""
        before = self.pending.add(half.transaction, offset)
        if before is not None and self._is_needed(before):
            self.put_mark(REPLACED, half.unique_id, before)

    def _is_needed(self, offset: int) -> bool:
        """Whether a start is going to read this place of the half queue, because one before it is pending."""
        oldest = self.pending.oldest()
        return oldest is not None and oldest < offset

    def _add_mark(self, end: bytes, unique_id: bytes, offset: int) -> bool:
        appender = self._store.appender
        shape = self.records.mark_shape(end, unique_id)
        place = b"%d" % offset
        added = appender.add(self.op_queue, shape, unique_id, place, 0, 0, appender.now_ms, self._store_host)
        return added != REFUSED

    def _commit(self) -> bool:
        appender = self._store.appender
        if appender.commit():
            return True
        self.take_back(appender.failed_from)
        return False

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
            return self.records.read_half(record)
        except MQError:
            return None


def _refused(refusal: Refusal | None) -> PutResult:
    assert refusal is not None, "whoever refuses says why"
    return PutResult(refusal.status, remark=refusal.remark)
