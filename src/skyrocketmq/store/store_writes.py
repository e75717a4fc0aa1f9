"""Putting messages into a store: into the open batch, one by one, or many that belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.store.batch import Arrival, Batch, refused
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.new_message import NewMessage, PutResult
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.store.store_parts import StoreParts
from skyrocketmq.wire.batches import BatchEntry
from skyrocketmq.wire.properties import join_properties

__all__ = ["StoreWrites"]


class StoreWrites(StoreParts):
    """A store that can be written."""

    def begin(self) -> Batch:
        """The batch that is open, or a new one. Who adds to it sees to it that it is committed; see `batch`."""
        return self.writer.begin()

    def commit_open(self) -> None:
        """Commit the open batch: for those who have to see all that came before them."""
        self.writer.commit_open()

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, which may be kept. Raises `IllegalArgument` for an illegal topic name."""
        return self.queues.get(topic, queue_id)

    def put(self, message: NewMessage, *, is_accepted: bool = False) -> PutResult:
        """Store one message now, with all that was added to the open batch before it."""
        batch = self.begin()
        result = batch.add(message, is_accepted=is_accepted)
        return batch.commit().of(result)

    def put_batch(self, common: NewMessage, entries: Sequence[BatchEntry]) -> tuple[PutResult, list[int]]:
        """Store the messages of a batch, at least one, now: one file of the log takes all of them, or none is stored.

        What they share is that of `common`, whose properties come after their own. Returns how it ended, with the
        place of the first, and the log offsets of all.
        """
        writer, batch = self.writer, self.begin()
        texts = [join_properties(properties, common.properties) for _, _, properties in entries]
        refusal = batch.refusal
        for (_, body, _), text in zip(entries, texts, strict=True):
            refusal = refusal or writer.refusal_of(text, len(body))
        shared_bytes = writer.record_bytes(common) - len(common.body) - len(common.properties)
        own_bytes = sum([len(body) for _, body, _ in entries]) + sum(map(len, texts))
        refusal = refusal or batch.reserve(shared_bytes * len(entries) + own_bytes)
        if refusal is not None:
            batch.commit()
            return refused(refusal), []
        queue = self.queues.get(common.topic, common.queue_id)
        first_offset = QueueOffset(queue.next_offset)
        add, sys_flag, reconsumed = batch.records.add, common.sys_flag, common.reconsume_times
        born_ms, born_host, store_host = common.born_timestamp, common.born_host, writer.store_host
        places = [
            add(queue, text, body, flag, sys_flag, born_ms, born_host, store_host, reconsumed)
            for (flag, body, _), text in zip(entries, texts, strict=True)
        ]
        assert min(places) >= 0, "room and limits were looked at before"
        first = PutResult(PutStatus.PUT_OK, LogOffset(places[0]), first_offset, batch.now_ms)
        result = batch.commit().of(first)
        return result, places if result.status.is_stored else []

    @property
    def on_arrival(self) -> Callable[[list[Arrival]], None]:
        """Called after a commit with the new messages of queues whose `is_watched` is set."""
        return self.writer.on_arrival

    @on_arrival.setter
    def on_arrival(self, listener: Callable[[list[Arrival]], None]) -> None:
        self.writer.on_arrival = listener
