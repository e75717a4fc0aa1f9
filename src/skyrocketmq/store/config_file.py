"""The broker's JSON files: topics.json, consumerOffset.json and the like, each with its `.bak`.

Rule 1: a file is replaced whole, so that a power cut leaves the old content or the new; the old one stays as `.bak`, as
Apache's brokers keep it.
Rule 2: a file that is missing, empty or unreadable is no reason to stop as long as its `.bak` can be read. Both missing
is a new broker. Both unreadable is somebody's decision to take: silently going on without all topics would be worse.
Rule 3: a broken file never becomes the `.bak`: that one is the last good copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from skyrocketmq.errors import MQError, StoreError
from skyrocketmq.ports import Disk
from skyrocketmq.wire.json_dialect import parse, write_pretty

__all__ = ["ConfigFile"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ConfigFile:
    """One JSON file. All calls wait for the disk: make them through `disk.run`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self.backup_path = path.with_name(path.name + ".bak")
        self._disk = disk
        self._is_broken = False

    def load(self, decode: Callable[[bytes], T]) -> T | None:
        """What the file holds, or else its `.bak`; None if there is neither.

        `decode` turns bytes into a value or raises an `MQError`. Raises `StoreError` if there is a file but none that
        can be read.
        """
        failures: list[str] = []
        for path in (self.path, self.backup_path):
            if not self._disk.exists(path):
                continue
            data = self._disk.read(path)
            try:
                if not data.strip():
                    raise StoreError("it is empty")
                value = decode(data)
            except MQError as error:
                failures.append(f"{path}: {error}")
                self._is_broken = self._is_broken or path == self.path
                logger.warning("configuration file is not readable", extra={"path": str(path), "error": str(error)})
            else:
                return value
        if failures:
            unreadable = StoreError("; ".join(failures))
            unreadable.add_note(f"Mend {self.path.name} by hand, or move it and its .bak away to begin without them.")
            raise unreadable
        return None

    def load_json(self) -> object | None:
        """The file as plain dicts and lists, in the family's dialect of JSON."""
        return self.load(parse)

    def save(self, value: object) -> None:
        """Write a struct or plain dicts and lists, in the form in which Apache's brokers write it."""
        self.save_bytes(write_pretty(value))

    def save_bytes(self, data: bytes) -> None:
        """Write content that is encoded already."""
        directory = self.path.parent
        if not self._disk.exists(directory):
            self._disk.make_directories(directory)
            self._disk.sync_directory(directory.parent)  # else a power cut may take it, with the files in it
        self._disk.replace(self.path, data, keep_backup=not self._is_broken)
        self._is_broken = False
