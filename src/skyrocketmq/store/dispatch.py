"""From the log to queues and index: for what recovery finds and, later, for what a slave receives.

The appender does the same from memory. A hot module all the same: recovery after a crash passes every record through
here that was written since the last checkpoint.

Rule 1: a message has one place in its queue, the queue offset in its record. A cell that is there already is left.
Rule 2: where messages are missing before it, the queue is either to be built from the beginning of the log (`gapped`),
or, if that is what is happening, the messages are lost and their places are kept with fillers.
Rule 3: where a later message has an earlier offset, another program has deleted the topic and made it anew: the queue
begins again there. Our own queues go on after a deletion (`ended_queues`).
"""

from __future__ import annotations

import logging
from typing import Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.hot import pack_key
from skyrocketmq.model.names import check_topic
from skyrocketmq.ports import Disk
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.index import Index
from skyrocketmq.store.key_hash import TopicKeys
from skyrocketmq.store.learnt import Learnt
from skyrocketmq.store.record_shape import UNIQ_MARK, RecordShape, split_unique_key
from skyrocketmq.wire.records import ScannedRecord

__all__ = ["Dispatcher"]

logger = logging.getLogger(__name__)

KEYS_AT_ONCE: Final = 512
WRITE_OUT_BYTES: Final = 1 << 20  # cells kept in memory; recovery has no timer that writes them out
KEY_AT: Final = len(UNIQ_MARK)
KEY_END: Final = KEY_AT + 32
_UNQUEUED: Final = 0x4
_ROLLBACK: Final = 0xC
_cell = CELL.pack


class Dispatcher:
    """Builds queues and index from records given in the order of the log."""

    def __init__(
        self,
        disk: Disk,
        queues: ConsumeQueues,
        index: Index | None,
        *,
        delay_levels_ms: tuple[int, ...],
        is_complete: bool,
    ) -> None:
        """`is_complete`: the records begin at the log's beginning, so that what is missing in a queue is lost."""
        self.gapped: set[ConsumeQueue] = set()  # queues that lack cells before those of the given records
        self.count = 0
        self._disk = disk
        self._queues = queues
        self._index = index
        self._delay_levels_ms = delay_levels_ms
        self._is_complete = is_complete
        self._topics: dict[bytes, TopicKeys | None] = {}
        self._by_name: dict[tuple[bytes, int], ConsumeQueue] = {}
        self._shapes: Learnt[tuple[bytes, bytes, int, bytes], RecordShape] = (
            Learnt()
        )  # topic, before, id's length, after
        self._quick: Learnt[tuple[bytes, bytes], RecordShape] = (
            Learnt()
        )  # topic, after; those with an id of 32 in front
        self._keys: list[bytes] = []  # packed
        self._cells_bytes = 0

    def dispatch(self, record: ScannedRecord, *, to_queues: bool, to_index: bool) -> None:
        """Put one record's cell and keys where they belong. Call `finish` after the last."""
        total, topic_name, queue_id, offset, log_offset, sys_flag, store_ms, _, properties = record
        # Nearly all records have an id of 32 characters in front: what follows it tells the shape.
        key = properties[KEY_AT:KEY_END]
        shape = self._quick.get((topic_name, properties[KEY_END:])) if properties.startswith(UNIQ_MARK) else None
        if shape is None or b"\x02" in key:
            before, key, after = split_unique_key(properties)
            shape = self._shapes.get((topic_name, before, len(key), after)) or self._learn(
                topic_name, before, key, after
            )
            if shape is None:
                return
        if to_queues and not sys_flag & _UNQUEUED:
            queue = self._by_name.get((topic_name, queue_id)) or self._queue(shape.topic.topic, topic_name, queue_id)
            if queue is not None and (
                (offset == queue.next_offset and not self.gapped) or self._prepare(queue, offset, log_offset)
            ):
                tags_code = shape.tags_code if shape.delay_ms is None else store_ms + shape.delay_ms
                if queue.next_offset == offset:
                    queue.tail += _cell(log_offset, total, tags_code)
                    queue.next_offset = offset + 1
                else:
                    queue.put(offset, log_offset, total, tags_code)
                if not queue.is_dirty:
                    self._queues.mark_dirty(queue)
                self._cells_bytes += CELL_BYTES
        if to_index and sys_flag & _ROLLBACK != _ROLLBACK and (key or shape.keys):
            if len(self._keys) >= KEYS_AT_ONCE:
                self.put_keys()
            start = shape.topic.start
            if key:
                self._keys.append(pack_key(key, start, log_offset, store_ms))
            for other in shape.keys:
                self._keys.append(pack_key(other, start, log_offset, store_ms))
        self.count += 1
        if self._cells_bytes >= WRITE_OUT_BYTES:
            self._write_out()

    def finish(self) -> None:
        """Write what is still in memory. Raises what the disk raises."""
        self.put_keys()
        self._write_out()

    def _prepare(self, queue: ConsumeQueue, offset: int, log_offset: int) -> bool:
        """Bring the queue to where this message is its next; False if the message is not to be put."""
        if queue in self.gapped:
            return False
        expected = queue.max_offset
        if offset == expected:
            return True
        if offset > expected:
            if not self._is_complete:
                self.gapped.add(queue)
                return False
            if not queue.is_empty:
                logger.warning(
                    "messages are missing, their places are kept",
                    extra={"topic": queue.topic, "queue_id": queue.queue_id, "from": expected, "to": offset},
                )
                queue.fill_up_to(offset)
                self._queues.mark_dirty(queue)
            return True
        cell = queue.read_cell(offset)
        if cell is not None and cell[0] == log_offset:
            return False  # built already
        if log_offset < queue.log_end():
            return False
        if not queue.is_empty:
            logger.warning(
                "queue begins again",
                extra={"topic": queue.topic, "queue_id": queue.queue_id, "at": offset, "was": expected},
            )
        queue.write_out()
        if offset > queue.first_offset:
            queue.end_at(offset, erase=True)
        else:
            for path in queue.clear():
                self._disk.unlink(path)
        return True

    def _queue(self, topic: str, topic_name: bytes, queue_id: int) -> ConsumeQueue | None:
        if queue_id < 0:
            return None
        queue = self._by_name[topic_name, queue_id] = self._queues.get(topic, queue_id)
        return queue

    def _topic(self, name: bytes) -> TopicKeys | None:
        if name in self._topics:
            return self._topics[name]
        topic: TopicKeys | None = None
        text = name.decode("utf-8", "replace")
        try:
            check_topic(text)
            topic = TopicKeys(text)
        except IllegalArgument as error:
            logger.warning("a record has an illegal topic, it is in no queue", extra={"error": str(error)})
        self._topics[name] = topic
        return topic

    def _learn(self, name: bytes, before: bytes, key: bytes, after: bytes) -> RecordShape | None:
        """The shape of these properties, remembered; None if the topic cannot have queues."""
        topic = self._topic(name)
        if topic is None:
            return None
        shape = RecordShape(topic, before, key, after, delay_levels_ms=self._delay_levels_ms)
        text_bytes = len(before) + len(after)
        self._shapes.learn((name, before, len(key), after), shape, text_bytes=text_bytes)
        if before == UNIQ_MARK and len(key) == KEY_END - KEY_AT:
            self._quick.learn((name, after), shape, text_bytes=text_bytes)
        return shape

    def put_keys(self) -> None:
        """Put the keys of all records so far into the index. Raises what the disk raises."""
        keys = b"".join(self._keys)
        if self._index is not None:
            while keys:
                keys = keys[self._index.put_all(keys) :]
                self._keys = [keys]  # what is left, should the next part fail
        self._keys = []

    def _write_out(self) -> None:
        self._queues.write_out()
        self._cells_bytes = 0
