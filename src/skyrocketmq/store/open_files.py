"""Files that are opened when they are needed and closed when too many others were needed since.

A broker may keep ten thousand consume queues and a thousand log files, and a process may be allowed a thousand
descriptors. Rule 1: all calls are made on the loop's thread (or, while the store loads, on the one thread that loads).
Rule 2: a file that a helper thread works on is held, and a held file is never closed under it: a descriptor number
that is closed and given out again would make the thread read or sync some other file.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from skyrocketmq.ports import Disk, File

__all__ = ["OpenFiles"]


class OpenFiles:
    """At most `count_max` open files, unless more are held at once."""

    def __init__(self, disk: Disk, *, count_max: int, writable: bool = True) -> None:
        assert count_max > 0
        self._disk = disk
        self._writable = writable
        self._count_max = count_max
        self._files: OrderedDict[Path, File] = OrderedDict()
        self._latest: tuple[Path, File] | None = None  # asked for again more often than not
        self._held: dict[File, int] = {}
        self._doomed: set[File] = set()  # held, and to be closed once they are not

    def __len__(self) -> int:
        return len(self._files)

    def get(self, path: Path) -> File:
        """The open file; valid until the next call here. Raises `OSError` if it cannot be opened."""
        latest = self._latest
        if latest is not None and latest[0] is path:
            return latest[1]
        file = self._files.get(path)
        if file is None:
            file = self._disk.open(path, writable=self._writable)
            self._files[path] = file
            if len(self._files) > self._count_max:
                self._close_oldest()
        else:
            self._files.move_to_end(path)
        self._latest = path, file
        return file

    def add(self, path: Path, file: File) -> None:
        """Take over a file that was just created."""
        assert path not in self._files, f"{path} is open already"
        self._files[path] = file
        self._latest = path, file
        if len(self._files) > self._count_max:
            self._close_oldest()

    def hold(self, path: Path) -> File:
        """The same as `get`, and the file stays open until it is released as often as it was held."""
        file = self.get(path)
        self._held[file] = self._held.get(file, 0) + 1
        return file

    def release(self, file: File) -> None:
        left = self._held[file] - 1
        if left:
            self._held[file] = left
            return
        del self._held[file]
        if file in self._doomed:
            self._doomed.discard(file)
            file.close()

    def forget(self, path: Path) -> None:
        """Close a file that is being deleted: now, or when the last holder is done with it.

        Whoever asks for the path from now on means another file, which has yet to be made.
        """
        file = self._files.pop(path, None)
        self._latest = None
        if file is None:
            return
        if file in self._held:
            self._doomed.add(file)
        else:
            file.close()

    def close(self) -> None:
        for file in (*self._files.values(), *self._doomed):
            file.close()
        self._files.clear()
        self._latest = None
        self._held.clear()
        self._doomed.clear()

    def _close_oldest(self) -> None:
        newest = next(reversed(self._files))  # the one that was asked for stays, even if all others are held
        for path, file in self._files.items():
            if file not in self._held and path != newest:
                del self._files[path]
                file.close()
                return
