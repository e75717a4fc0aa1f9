"""All consume queues of a store, by topic and queue id.

    consumequeue/<topic>/<queue id>/00000000000000000000

Rule 1: a queue exists from the moment it is asked for; its directory only once it has a message.
Rule 2: a queue of a topic that was deleted before goes on where it ended (`ended_queues`).
Rule 3: a topic's name becomes a directory, so only legal names get a queue, wherever they come from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from skyrocketmq.hot import NEVER, QueueTail
from skyrocketmq.model.names import check_topic
from skyrocketmq.ports import Disk, File
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.ended_queues import EndedQueues
from skyrocketmq.store.open_files import OpenFiles
from skyrocketmq.store.threads import run_to_end

__all__ = ["ConsumeQueues"]

logger = logging.getLogger(__name__)

OPEN_FILES_MAX: Final = 256  # a tenth of what a broker with many connections may have open
SYNC_GROUP: Final = 32  # queues synced in one visit to a thread
SYNC_THREADS: Final = 3  # of the disk's four: one is left for the log
PAGE_BYTES: Final = 4096


class ConsumeQueues:
    """The table, and what concerns all queues: writing out, syncing, loading. Loop's thread only."""

    def __init__(self, disk: Disk, directory: Path, *, file_bytes: int, ended: EndedQueues | None = None) -> None:
        self.first_extend_at = NEVER  # of a queue that is new
        self.dirty: list[ConsumeQueue] = []  # those with cells in memory only
        self._suspended: list[ConsumeQueue] = []  # the same, of a topic whose files are being deleted
        self._disk = disk
        self._directory = directory
        self._ended = EndedQueues(disk, directory.parent) if ended is None else ended
        self._finds_ended = False
        self._file_bytes = file_bytes
        self._open_files = OpenFiles(disk, count_max=OPEN_FILES_MAX)
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._unsynced: dict[ConsumeQueue, None] = {}
        self._grown: dict[ConsumeQueue, None] = {}  # written to since `take_stored`

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self._topics.values():
            yield from queues.values()

    def topics(self) -> list[str]:
        """The topics that have queues with messages."""
        return [topic for topic, queues in self._topics.items() if any(not queue.is_empty for queue in queues.values())]

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        return list(self._topics.get(topic, {}).values())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self._topics.get(topic)
        queue = None if queues is None else queues.get(queue_id)
        if queue is None and self._finds_ended and self._ended.find(topic, queue_id):
            return self._new(topic, queue_id)
        return queue

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if it is new. Raises `IllegalArgument` for a topic that may not have this name."""
        queue = self.find(topic, queue_id)
        if queue is None:
            queue = self._new(topic, queue_id)
        return queue

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        check_topic(topic)
        queue = self._make(topic, queue_id)
        if end := self._ended.find(topic, queue_id):
            queue.fill_up_to(end)
        return queue

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = self._directory / topic / str(queue_id)
        queue = ConsumeQueue(
            self._disk, self._open_files, directory, topic=topic, queue_id=queue_id, file_bytes=self._file_bytes
        )
        queue.extend_at = self.first_extend_at
        self._topics.setdefault(topic, {})[queue_id] = queue
        return queue

    # --------------------------------------------------------------------------------------- writing and syncing

    def mark_dirty(self, queue: ConsumeQueue) -> None:
        """Remember a queue that got a cell."""
        if not queue.is_dirty:
            queue.is_dirty = True
            self.dirty.append(queue)

    def write_out(self, count_max: int | None = None) -> bool:
        """Write the cells that are in memory only, of up to `count_max` queues; True if there are more to write.

        Raises what the disk raises; that queue and the ones behind it stay dirty.
        """
        dirty = self.dirty
        done = 0
        try:
            for queue in dirty[:count_max]:
                queue.write_out()
                queue.is_dirty = False
                self._unsynced[queue] = None
                self._grown[queue] = None
                done += 1
        finally:
            del dirty[:done]
        return bool(dirty)

    def take_stored(self) -> list[tuple[ConsumeQueue, int, int]]:
        """The queues that were written to since this was last asked, with how many messages, and how many bytes."""
        stored = [(queue, queue.stored_count, queue.stored_bytes) for queue in self._grown]
        for queue in self._grown:
            queue.stored_count = queue.stored_bytes = 0
        self._grown.clear()
        return stored

    def show(self, queues: list[QueueTail]) -> None:
        """Let readers see what was added to these queues, and forget the list."""
        for queue in queues:
            assert isinstance(queue, ConsumeQueue), "all tails are queues of this table"
            queue.show()
            self.mark_dirty(queue)
        queues.clear()

    def take_back(self, queues: list[QueueTail]) -> None:
        """Forget what was added to these queues, and the list."""
        for queue in queues:
            assert isinstance(queue, ConsumeQueue), "all tails are queues of this table"
            queue.take_back()
        queues.clear()

    def to_sync(self, least_pages: int) -> list[tuple[ConsumeQueue, int]]:
        """The queues with at least so many unsynced pages (0: with anything unsynced), and how far they are written."""
        return [
            (queue, queue.written_bytes)
            for queue in self._unsynced
            if (queue.unsynced_pages(PAGE_BYTES) >= least_pages if least_pages else True)
        ]

    async def sync(self, queues: Sequence[tuple[ConsumeQueue, int]]) -> None:
        """Make these queues durable as far as given. Raises `OSError` if the disk fails."""
        groups = [queues[first : first + SYNC_GROUP] for first in range(0, len(queues), SYNC_GROUP)]
        for first in range(0, len(groups), SYNC_THREADS):
            # Syncs that run at the same time share the file system's journal: three take hardly longer than one.
            outcomes = await asyncio.gather(
                *(self._sync_group(group) for group in groups[first : first + SYNC_THREADS]), return_exceptions=True
            )
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome

    async def _sync_group(self, group: Sequence[tuple[ConsumeQueue, int]]) -> None:
        paths = [path for queue, _ in group for path in queue.unsynced_files()]
        directories = [path for queue, _ in group for path in queue.unsynced_directories()]
        files = [self._open_files.hold(path) for path in paths]
        try:
            await run_to_end(self._disk, _sync_all, self._disk, files, directories)
        finally:
            for file in files:
                self._open_files.release(file)
        for queue, written_bytes in group:
            queue.mark_synced(written_bytes)
            if queue.synced_bytes == queue.written_bytes:
                self._unsynced.pop(queue, None)

    def sync_now(self, queues: Collection[ConsumeQueue]) -> None:
        """Make these queues, which are written out, durable to the last cell: for recovery. Blocks.

        Of a queue without files the directory's names are synced too: that its old files are gone has to last.
        """
        directories: dict[Path, None] = {}
        for queue in queues:
            for path in queue.unsynced_files():
                self._open_files.get(path).fdatasync()
            directories.update(dict.fromkeys(queue.directories()))
        for directory in directories:
            if self._disk.exists(directory):
                self._disk.sync_directory(directory)
        for queue in queues:
            queue.mark_synced(queue.written_bytes)
            self._unsynced.pop(queue, None)

    # ---------------------------------------------------------------------------------------------------- the rest

    def load(self, *, is_clean: bool) -> None:
        """Find all queues on disk; what is no queue's directory is passed over. Blocks."""
        for topic in self._disk.list(self._directory):
            for name in self._disk.list(self._directory / topic):
                if name.isascii() and name.isdecimal():
                    self._make(topic, int(name)).load(is_clean=is_clean)
                else:
                    logger.warning("not a queue, ignored", extra={"path": str(self._directory / topic / name)})

    def go_on_after_ended(self, *, skips: bool) -> int:
        """Give no number again that a deleted topic had; returns how many queues have to skip some for that.

        Called once, when all queues are known. Those that are not there are found from now on, where they ended.
        `skips`: queues with messages may skip numbers.
        """
        self._finds_ended = True
        skipping = 0
        for queue in self:
            end = self._ended.find(queue.topic, queue.queue_id)
            if end <= queue.max_offset:
                continue
            if queue.is_empty:
                queue.fill_up_to(end)
            elif skips:
                queue.skip_to(end)
                self.mark_dirty(queue)
                skipping += 1
        return skipping

    def clear_topic(self, topic: str) -> tuple[list[Path], list[Path]]:
        """Empty a topic's queues, which go on where they end; returns the files and the directories to delete.

        Before these are deleted, the ends have to be saved. Until `resume` is called, new cells of these queues stay in
        memory: a file written now might have the name of one that is being deleted.
        """
        queues = self.of_topic(topic)
        ends = {queue: int(queue.next_offset) for queue in queues if queue.next_offset}
        files = [path for queue in queues for path in queue.clear()]
        self._ended.add({(queue.topic, queue.queue_id): end for queue, end in ends.items()})
        for queue, end in ends.items():
            queue.fill_up_to(end)
        for queue in queues:
            self._unsynced.pop(queue, None)
            if not queue.is_dirty:
                queue.is_dirty = True  # what is marked already is not listed again
        self.dirty = [queue for queue in self.dirty if queue.topic != topic]
        self._suspended += queues
        directory = self._directory / topic
        return files, [*(directory / str(queue.queue_id) for queue in queues), directory]

    def resume(self, topic: str) -> None:
        """The files of `clear_topic` are gone."""
        self._suspended = [queue for queue in self._suspended if queue.topic != topic]
        for queue in self.of_topic(topic):
            queue.is_dirty = False
            if queue.tail:
                self.mark_dirty(queue)

    def close(self) -> None:
        """Close all files. Cells that were not written out are lost, and built again from the log."""
        self._open_files.close()


def _sync_all(disk: Disk, files: Sequence[File], directories: Sequence[Path]) -> None:
    for file in files:
        file.fdatasync()
    for directory in dict.fromkeys(directories):
        disk.sync_directory(directory)
