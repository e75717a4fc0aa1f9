"""A note of what is being built again from the log: `rebuild.json`, there from the first deletion to the last sync.

A queue that is being rebuilt has neither its old cells nor all of its new ones, and a power cut may leave any mixture
of both. The checkpoint that was written before cannot tell: it knows how long the queue was, and its newest cell may
well be there. So the plan is saved, then carried out, then forgotten. Who finds it believes nothing of what it names.

Rule: the note also keeps the number that each queue had come to, as far as that was known: the files that said so are
the first to go, and a number that a group has seen is never given to another message.
"""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from skyrocketmq.ports import Disk

__all__ = ["RebuildNote", "Rebuilding"]

logger = logging.getLogger(__name__)


class Rebuilding(msgspec.Struct, frozen=True):
    """What is being built again."""

    queues: tuple[tuple[str, int, int], ...] = ()  # topic, queue id, max offset it had; 0 if that is not known
    index: bool = False
    everything: bool = False  # nobody knows what: the note itself is damaged

    def __bool__(self) -> bool:
        return bool(self.queues) or self.index or self.everything


class RebuildNote:
    """The note at `path`. All calls block."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def read(self) -> Rebuilding:
        """What an interrupted start has left half built; nothing, as a rule."""
        if not self._disk.exists(self._path):
            return Rebuilding()
        try:
            found = msgspec.json.decode(self._disk.read(self._path), type=Rebuilding)
        except msgspec.DecodeError as error:
            logger.warning("rebuild.json is not readable, all is built again", extra={"error": str(error)})
            return Rebuilding(index=True, everything=True)
        logger.warning("a start was cut off while it built queues or index: they are built again")
        return found

    def write(self, rebuilding: Rebuilding) -> None:
        """Durable when this returns."""
        self._disk.replace(self._path, msgspec.json.encode(rebuilding))

    def remove(self) -> None:
        """All of it is on the disk now, and so is this."""
        self._disk.unlink(self._path)
        self._disk.sync_directory(self._path.parent)
