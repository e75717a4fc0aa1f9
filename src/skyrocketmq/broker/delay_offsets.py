"""How far each delay level is delivered, and the file that says so: `delayOffset.json`.

Rule 1: a level appears once something of it has been delivered, as in Apache's file.
Rule 2: the file is never ahead of the log. What was delivered is made durable before the file says that it was: after a
power cut messages may be delivered twice, but none is taken for delivered whose copy was lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from skyrocketmq.broker.saving import Saver
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.store import ConfigFile, MessageStore
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import DelayOffsetTable
from skyrocketmq.wire.json_dialect import pretty_parts

__all__ = ["FILE_NAME", "DelayOffsets"]

FILE_NAME: Final = "delayOffset.json"


class DelayOffsets:
    """The offset of the first undelivered message of each level."""

    def __init__(self, store: MessageStore, *, disk: Disk, clock: Clock) -> None:
        self._store = store
        self._disk = disk
        self._offsets: dict[int, int] = {}
        self._version = 0
        self._safe: dict[int, int] = {}  # what may be written: its deliveries are durable
        self._safe_version = 0
        path = Path(store.config.root_path) / "config" / FILE_NAME
        self._file = ConfigFile(disk, path)
        self._saver = Saver(
            FILE_NAME,
            version=lambda: self._safe_version,
            snapshot=lambda: DelayOffsetTable(offset_table=self._safe),
            encode=pretty_parts,
            write=self._file.save_bytes,
            disk=disk,
            clock=clock,
        )

    async def load(self) -> None:
        """Begin with what the file holds. Raises `StoreError` if neither it nor its `.bak` can be read."""
        table = await self._disk.run(self._file.load, lambda data: decode_body(DelayOffsetTable, data))
        if table is not None:
            self._offsets = dict(table.offset_table)

    def find(self, level: int) -> int | None:
        return self._offsets.get(level)

    def put(self, level: int, offset: int) -> None:
        """Everything of the level before this offset is delivered."""
        if self._offsets.get(level) != offset:
            self._offsets[level] = offset
            self._version += 1

    async def save(self) -> None:
        """Write the table, if it has changed. Raises `FlushFailed` or `OSError`; the file is then as it was."""
        version, offsets = self._version, dict(self._offsets)
        if version > self._safe_version:
            await self._store.flush()
            if version > self._safe_version:  # else a later call was faster
                self._safe, self._safe_version = offsets, version
        await self._saver.save()

    def progress(self) -> dict[int, tuple[int, int]]:
        """Of each level: delivered up to, and end of the queue."""
        return {
            level: (offset, self._store.max_offset(SCHEDULE_TOPIC, level - 1))
            for level, offset in sorted(self._offsets.items())
        }
