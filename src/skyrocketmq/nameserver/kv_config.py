"""The key-value settings of a name server: namespaces of text, kept in one JSON file.

A change is on disk before it is answered, and visible only then: the new table is written first and put in place after,
one change at a time. The file is the one Apache's name server keeps, so the two can take it over from each other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from skyrocketmq.errors import ConfigError, ProtocolError
from skyrocketmq.ports import Disk
from skyrocketmq.wire import json_dialect

__all__ = ["ORDER_TOPIC_CONFIG", "KvConfig"]

logger = logging.getLogger(__name__)

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""The namespace that says on how many queues of which brokers a strictly ordered topic lives."""

# What is put is held in memory and on disk, and some of it is sent to every broker. A file that holds more, from
# elsewhere, is read and kept, but takes nothing new.
ENTRIES_MAX = 50_000
ENTRY_BYTES_MAX = 64 * 1024
TABLE_BYTES_MAX = 4 * 1024 * 1024

Table = dict[str, dict[str, str]]
EMPTY: Mapping[str, str] = MappingProxyType({})


class Size(NamedTuple):
    """Of a table: its entries, a namespace being one too (emptied, it still exists), and their bytes."""

    entries: int
    bytes: int

    def plus(self, *texts: str) -> Size:
        return Size(self.entries + 1, self.bytes + _bytes_of(*texts))

    def minus(self, *texts: str) -> Size:
        return Size(self.entries - 1, self.bytes - _bytes_of(*texts))


class KvConfig:
    """The settings and their file. `load` once, then read freely and change by `put` and `delete`."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk
        self._table: Table = {}
        self._size = Size(0, 0)
        self._is_broken = False  # the file could not be read, its back-up could
        self._changing = asyncio.Lock()  # guards the way from the old table over the file to the new one

    def load(self) -> None:
        """Read the file, or its back-up where the file is missing or broken; neither is the state of a new server.

        Raises `ConfigError` where there are files and none can be read: without them, the next put would end them.
        """
        failures = []
        for path in (self._path, self._path.with_name(self._path.name + ".bak")):
            if not self._disk.exists(path):
                continue
            try:
                self._table = _read_table(self._disk.read(path))
                self._size = _table_size(self._table)
            except (ProtocolError, OSError) as error:
                failures.append(f"{path}: {error}")
                logger.warning("key-value config unreadable", extra={"path": str(path), "cause": str(error)})
            else:
                self._is_broken = bool(failures)
                logger.info("key-value config loaded", extra={"path": str(path), "namespaces": len(self._table)})
                return
        if failures:
            raise ConfigError(
                f"the key-value config cannot be read ({'; '.join(failures)}): mend it, or move it away to do without"
            )

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, EMPTY).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """All of a namespace; `None` if it was never written to. An emptied one still exists."""
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Raises `ConfigError` if there would be too much of it, `OSError` if it cannot be written."""
        async with self._changing:
            size = self._size_with(namespace, key, value)
            await self._replace({**self._table, namespace: {**self._table.get(namespace, EMPTY), key: value}}, size)

    async def delete(self, namespace: str, key: str) -> None:
        async with self._changing:
            values = self._table.get(namespace, EMPTY)
            if key in values:
                size = self._size.minus(key, values[key])
                await self._replace({**self._table, namespace: {k: v for k, v in values.items() if k != key}}, size)

    def _size_with(self, namespace: str, key: str, value: str) -> Size:
        """How much there will be with this setting in it; raises `ConfigError` if that is too much."""
        values = self._table.get(namespace)
        size = self._size.plus(namespace) if values is None else self._size
        if values is not None and key in values:
            size = size.minus(key, values[key])
        size = size.plus(key, value)
        if _bytes_of(namespace, key, value) > ENTRY_BYTES_MAX:
            raise ConfigError(f"a key-value setting may have {ENTRY_BYTES_MAX} bytes, its namespace and key included")
        if size.entries > ENTRIES_MAX or size.bytes > TABLE_BYTES_MAX:
            raise ConfigError(
                f"these would be {size.entries} key-value settings of {size.bytes} bytes, and {ENTRIES_MAX} of "
                f"{TABLE_BYTES_MAX} bytes are the limit: delete some"
            )
        return size

    async def _replace(self, table: Table, size: Size) -> None:
        await self._disk.run(self._write, table)
        self._table, self._size = table, size

    def _write(self, table: Table) -> None:
        """In one of the disk's threads, encoding included. A table that was made is never changed."""
        text = json_dialect.write({"configTable": table})
        self._disk.make_directories(self._path.parent)
        # What cannot be read never becomes the back-up: that one is the last good copy.
        self._disk.replace(self._path, text, keep_backup=not self._is_broken)
        self._is_broken = False


def _read_table(text: bytes) -> Table:
    document = json_dialect.parse(text)
    table = document.get("configTable") if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise ProtocolError("no object configTable in the key-value config")
    return {
        str(namespace): {str(key): str(value) for key, value in values.items() if value is not None}
        for namespace, values in table.items()
        if isinstance(values, dict)
    }


def _bytes_of(*texts: str) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _table_size(table: Table) -> Size:
    entries: list[tuple[str, ...]] = [(namespace,) for namespace in table]
    entries += [entry for values in table.values() for entry in values.items()]
    return Size(len(entries), sum(_bytes_of(*texts) for texts in entries))
