"""The ways into a store besides the send path: single messages, and batches that come in one request.

What clients send one by one goes through `appender` directly; it asks here for queues and shapes, and keeps them.
Hot for batches: they may hold thousands of messages, which mostly differ in bodies and unique ids only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocketmq.config import StoreConfig
from skyrocketmq.model.flags import TRANSACTION_MASK, TransactionType, transaction_type
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.ports import Clock, Disk, Machine
from skyrocketmq.store.appender import REFUSED
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.new_message import NewMessage, PutResult
from skyrocketmq.store.record_shape import RecordShape, split_unique_key
from skyrocketmq.store.statuses import PutStatus, Refusal
from skyrocketmq.store.store_parts import UNKNOWN_HOST, StoreParts
from skyrocketmq.wire.batches import BatchEntry
from skyrocketmq.wire.properties import join_properties

__all__ = ["StoreWrites"]

_PUT_OK: Final = PutStatus.PUT_OK  # looking up a member of an enum takes a tenth of a microsecond
_QUEUED: Final = (TransactionType.NONE, TransactionType.COMMIT)  # others have no place in a queue


class StoreWrites(StoreParts):
    """A store that can be written."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        disk: Disk,
        clock: Clock,
        store_host: bytes = UNKNOWN_HOST,
        machine: Machine | None = None,
    ) -> None:
        super().__init__(config, disk=disk, clock=clock, store_host=store_host, machine=machine)
        self._topics: dict[str, TopicKeys] = {}

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, to be kept and given to the appender. Raises `IllegalArgument` for an illegal topic name."""
        return self.queues.get(topic, queue_id)

    def shape(self, topic: str, before: bytes, key: bytes, after: bytes) -> RecordShape:
        """The shape of records of a topic whose properties are these three one after the other; keep it."""
        keys = self._topics.get(topic)
        if keys is None:
            keys = self._topics[topic] = TopicKeys(topic)
        return RecordShape(keys, before, key, after, delay_levels_ms=self.config.delay_levels_ms)

    def put(self, message: NewMessage) -> PutResult:
        """Append one message. For the broker's own ones."""
        appender = self.appender
        before, key, after = split_unique_key(message.properties)
        shape = self.shape(message.topic, before, key, after)
        total = appender.record_bytes(shape, len(message.body), message.born_host, message.store_host)
        refusal = appender.refusal_of(shape, len(message.body), total)
        if refusal is not None:
            return _refused(refusal)
        queue = self.queues.get(message.topic, message.queue_id)
        if appender.settle() and appender.begin() and appender.reserve(total):
            result = self._add(message, queue, shape, key)
            if appender.commit():
                return result
        return _refused(appender.refusal)

    def _add(self, message: NewMessage, queue: ConsumeQueue, shape: RecordShape, key: bytes) -> PutResult:
        appender = self.appender
        queue_offset = queue.next_offset
        usual = (
            queue,
            shape,
            key,
            message.body,
            message.flag,
            message.sys_flag,
            message.born_timestamp,
            message.born_host,
            message.reconsume_times,
        )
        if message.sys_flag & TRANSACTION_MASK or message.prepared_transaction_offset or message.store_host is not None:
            if transaction_type(message.sys_flag) not in _QUEUED:
                queue_offset = 0
            log_offset = appender.add_special(*usual, message.prepared_transaction_offset, message.store_host)
        else:
            log_offset = appender.add(*usual)
        assert log_offset != REFUSED, "room and limits were looked at before"
        return PutResult(_PUT_OK, LogOffset(log_offset), QueueOffset(queue_offset), appender.now_ms)

    # ----------------------------------------------------------------------------------------------------- batches

    def put_batch(self, common: NewMessage, entries: Sequence[BatchEntry]) -> tuple[PutResult, list[int]]:
        """Append the messages of a batch, at least one: one file of the log takes all of them, or none is stored.

        What they share is that of `common`, whose properties come behind their own. Returns how it ended, with the
        place of the first, and the log offsets of all.
        """
        assert common.store_host is None, "what is sent in a batch is stored here first"
        assert not common.prepared_transaction_offset, "a batch is no part of a transaction"
        appender = self.appender
        sys_flag, born_host, born_ms = common.sys_flag, common.born_host, common.born_timestamp
        shaped: list[tuple[RecordShape, bytes, bytes, int]] = []  # (shape, unique id, body, flag)
        shape: RecordShape | None = None
        before = after = b""
        key_at = key_end = own_bytes = batch_bytes = 0
        longest = -1
        for flag, body, own in entries:
            key = own[key_at:key_end]
            if (
                shape is None
                or len(own) != own_bytes
                or not key.isalnum()  # so it ends where the one before did
                or not own.startswith(before)
                or not own.endswith(after)
            ):
                before, key, rest = split_unique_key(join_properties(own, common.properties))
                shape = self.shape(common.topic, before, key, rest)
                key_at, key_end, own_bytes = len(before), len(before) + len(key), len(own)
                after = own[key_end:]
                longest = -1
            body_bytes = len(body)
            total = appender.record_bytes(shape, body_bytes, born_host, None)
            if body_bytes > longest:
                longest = body_bytes
                refusal = appender.refusal_of(shape, body_bytes, total)
                if refusal is not None:
                    return _refused(refusal), []
            batch_bytes += total
            shaped.append((shape, key, body, flag))
        if not (appender.settle() and appender.begin() and appender.reserve(batch_bytes)):
            return _refused(appender.refusal), []
        queue = self.queues.get(common.topic, common.queue_id)
        first_offset = QueueOffset(queue.next_offset)
        add, reconsumed = appender.add, common.reconsume_times
        places = [
            add(queue, shape, key, body, flag, sys_flag, born_ms, born_host, reconsumed)
            for shape, key, body, flag in shaped
        ]
        assert REFUSED not in places, "room and limits were looked at before"
        if not appender.commit():
            return _refused(appender.refusal), []
        return PutResult(_PUT_OK, LogOffset(places[0]), first_offset, appender.now_ms), places


def _refused(refusal: Refusal | None) -> PutResult:
    assert refusal is not None, "whoever refuses says why"
    return PutResult(refusal.status, remark=refusal.remark)
