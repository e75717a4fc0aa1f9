"""From the log to queues and index: for what recovery finds, and for what a slave receives.

A batch does the same from memory. Here stretches of whole records are taken at once; `hot.derive_entries` works
out what queues and index keep of them. A slave has to keep up with its master, and recovery reads every record that was
written since the last checkpoint.

Rule 1: a message has one place in its queue, the queue offset in its record. A cell that is there already is left.
Rule 2: where messages are missing before it, the queue is either to be built from the beginning of the log (`gapped`),
or, if that is what is happening, the messages are lost and their places are kept with fillers.
Rule 3: where a later message has an earlier offset, another program has deleted the topic and made it anew: the queue
begins again there. Our own queues go on after a deletion (`ended_queues`).
Rule 4: a stretch at which the disk fails may be given once more, whole. Its keys are taken last, when all else is done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from skyrocketmq.hot import derive_entries
from skyrocketmq.hot.layout import KEY_BYTES
from skyrocketmq.hot.log_records import DerivedEntries, QueueRun
from skyrocketmq.ports import Disk
from skyrocketmq.store.consume_queue import CELL, CELL_BYTES, ConsumeQueue
from skyrocketmq.store.consume_queues import ConsumeQueues
from skyrocketmq.store.index import Index
from skyrocketmq.store.topic_starts import TopicStarts

__all__ = ["Dispatcher"]

logger = logging.getLogger(__name__)

KEYS_AT_ONCE: Final = 512
WRITE_OUT_BYTES: Final = 1 << 20  # cells kept in memory; recovery has no timer that writes them out


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
        self._disk = disk
        self._queues = queues
        self._index = index
        self._delay_levels_ms = delay_levels_ms
        self._is_complete = is_complete
        self._topics = TopicStarts()
        self._by_name: dict[tuple[bytes, int], ConsumeQueue] = {}
        self._keys = b""  # packed, of records whose cells are in their queues
        self._cells_bytes = 0

    def derive(self, data: bytes | memoryview, at: int, end: int) -> DerivedEntries:
        """What queues and index keep of the records in this part of the data, which are whole."""
        return derive_entries(data, at, end, topics=self._topics, delay_levels_ms=self._delay_levels_ms)

    def dispatch(self, runs: Iterable[QueueRun], keys: bytes) -> list[ConsumeQueue]:
        """Put cells and keys of a stretch where they belong; returns the queues of the runs. Call `finish` at the end.

        Raises what the disk raises; then the same stretch is to be given again.
        """
        if self._cells_bytes >= WRITE_OUT_BYTES:
            self._write_out()
        if len(self._keys) >= KEYS_AT_ONCE * KEY_BYTES:
            self.put_keys()
        queues = [self._put_run(run) for run in runs]
        self._keys += keys
        return queues

    def finish(self) -> None:
        """Write what is still in memory. Raises what the disk raises."""
        self.put_keys()
        self._write_out()

    def _put_run(self, run: QueueRun) -> ConsumeQueue:
        topic_name, queue_id, offset, cells = run
        queue = self._by_name.get((topic_name, queue_id))
        if queue is None:
            queue = self._queues.get(topic_name.decode("utf-8", "replace"), queue_id)
            self._by_name[topic_name, queue_id] = queue
        if offset != queue.next_offset or self.gapped:
            at = self._skip(queue, offset, cells)
            offset, cells = offset + at // CELL_BYTES, cells[at:]
        if cells:
            queue.put(offset, cells)
            if not queue.is_dirty:
                self._queues.mark_dirty(queue)
            self._cells_bytes += len(cells)
        return queue

    def _skip(self, queue: ConsumeQueue, offset: int, cells: bytes | bytearray) -> int:
        """How many bytes of the cells are not to be put; the queue is brought to where the others follow on."""
        for number, (log_offset, _, _) in enumerate(CELL.iter_unpack(cells)):
            if self._prepare(queue, offset + number, log_offset):
                return number * CELL_BYTES
        return len(cells)

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

    def put_keys(self) -> None:
        """Put the keys of all records so far into the index. Raises what the disk raises."""
        while self._keys:
            taken = len(self._keys) if self._index is None else self._index.put_all(self._keys)
            self._keys = self._keys[taken:]  # what is left, should the next part fail

    def _write_out(self) -> None:
        self._queues.write_out()
        self._cells_bytes = 0
