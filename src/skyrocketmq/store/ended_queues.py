"""Where the queues of deleted topics ended: if a topic is made again, its queues go on there.

A consumer that lives on, a group's stored offset, a slave's copy and a job's checkpoint all know numbers of the topic
that is gone. Were these given to new messages, whoever is past them would never get those.

Rule 1: an end is durable before the files of its queue are deleted; from then on nothing else tells it.
Rule 2: it stays when the topic is back, and says where the messages begin that can still be read. A queue that is found
shorter than that, because another program has begun it at 0, goes on there too: numbers only move forward.
Rule 3: the newest `COUNT_MAX` are kept.

The file holds entries as `number_entries` draws them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skyrocketmq.ports import Disk
from skyrocketmq.store.file_rows import translated
from skyrocketmq.store.number_entries import ALIGNED_BYTES, encode_entry, read_entries

__all__ = ["ENDED_NAME", "EndedQueues"]

logger = logging.getLogger(__name__)

ENDED_NAME: Final = "ended"
COUNT_MAX: Final = 65_536  # queues, 32 bytes each if the topic's name is short

QueueKey = tuple[str, int]  # topic and queue id


class EndedQueues:
    """The table and its file. `add` and `find` on the loop's thread; what blocks while nobody adds."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk = disk
        self._path = root / ENDED_NAME
        self._ends: dict[QueueKey, int] = {}
        self._unsaved: dict[QueueKey, int] = {}
        self._has_file = False

    def find(self, topic: str, queue_id: int) -> int:
        """The number at which the queue ended when its topic was deleted last; 0 if it never was."""
        return self._ends.get((topic, queue_id), 0)

    def add(self, ends: Mapping[QueueKey, int]) -> None:
        """Remember these; they count for the next start once they are saved."""
        for key, end in ends.items():
            if end > self._ends.get(key, 0):
                self._ends.pop(key, None)  # so that the newest are last
                self._ends[key] = self._unsaved[key] = end

    def load(self) -> None:
        """Begin with what the file holds. Blocks."""
        if self._disk.exists(self._path):
            self._has_file = True
            for topic, queue_id, end in read_entries(self._disk.read(self._path)):
                self.add({(topic, queue_id): end})
            self._unsaved.clear()

    def save(self) -> None:
        """Make durable what was added. Blocks. Raises `DiskFull` or `OSError`; then it is saved by the next call."""
        if not self._unsaved:
            return
        unsaved = dict(self._unsaved)
        try:
            if self._has_file and len(self._ends) <= COUNT_MAX:
                self._append(_encode(unsaved))
            else:
                self._forget_oldest()
                self._disk.replace(self._path, _encode(self._ends))
                self._has_file = True
        except OSError as error:
            self._has_file = False  # what an append has left there is not relied on
            raise translated(error, self._path) from error
        self._unsaved = {key: end for key, end in self._unsaved.items() if unsaved.get(key) != end}

    def _forget_oldest(self) -> None:
        if len(self._ends) > COUNT_MAX:  # a quarter at once: the file is not written whole each time
            for key in list(self._ends)[: len(self._ends) - COUNT_MAX * 3 // 4]:
                del self._ends[key]

    def _append(self, data: bytes) -> None:
        file = self._disk.open(self._path)
        try:
            file.pwrite(data, -(-file.size() // ALIGNED_BYTES) * ALIGNED_BYTES)
            file.fdatasync()
        finally:
            file.close()


def _encode(ends: Mapping[QueueKey, int]) -> bytes:
    return b"".join([encode_entry(topic, queue_id, end) for (topic, queue_id), end in ends.items()])
