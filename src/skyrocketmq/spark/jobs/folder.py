"""The place where a job keeps its files: a directory of this machine, or of any file system that Spark knows.

Rule 1: a name is relative to the folder, with `/` between its parts.
Rule 2: a small file appears whole or not at all. `create` is refused if the name is taken, also by somebody who was
quicker; `replace` puts it in place of the one before.
Rule 3: deleting what is not there, and moving what was moved already, is no error: whoever repeats a step after a crash
does so safely.

On a directory of this machine a lock keeps two runs apart. Elsewhere there is none, and `create` alone decides which of
two runs goes on; that needs a file system whose renames are atomic, as HDFS's are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import quote

from skyrocketmq.errors import IllegalArgument, StoreError, StoreLocked
from skyrocketmq.ports import FileLock, LocalDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FileStatus", "Folder", "LocalFolder", "SparkFolder", "folder_at", "open_folder"]

_LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file there is."""

    name: str
    size: int
    modified_ms: int


class Folder(Protocol):
    """What jobs need of a directory."""

    @property
    def is_locked(self) -> bool:
        """Whether nobody else writes to it now."""

    def url(self, name: str = "") -> str:
        """The place as Spark's own files name it, with escapes."""

    def path(self, name: str = "") -> str:
        """The place as one gives it to Spark's readers and writers."""

    def read(self, name: str) -> bytes | None: ...

    def create(self, name: str, data: bytes) -> None:
        """Raises `StoreLocked` if the name is taken."""

    def replace(self, name: str, data: bytes) -> None: ...

    def move(self, source: str, target: str) -> None: ...

    def delete(self, name: str) -> None:
        """A file, or a directory with all there is in it."""

    def names(self, name: str) -> list[str]:
        """What lies directly in a directory; nothing if there is none."""

    def files(self, name: str) -> list[FileStatus]:
        """The files in a directory and in those below it, without hidden ones."""

    def make_durable(self, name: str) -> None:
        """Return once a file that others wrote survives a loss of power, as far as the file system can promise."""


def folder_at(spark: SparkSession, path: str) -> Folder:
    """The folder at a path or URL, to look into. It need not be there."""
    if not path.strip():
        raise IllegalArgument("the path is empty: give a directory, or a URL of a file system that Spark knows")
    scheme, colon, rest = path.partition("://")
    if colon and scheme != "file":
        return SparkFolder(spark, path)
    root = Path(rest if colon else path.removeprefix("file:")).expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise IllegalArgument(f"{root} is a file: give a directory")
    return LocalFolder(LocalDisk(threads=1, is_public=True), root)


@contextmanager
def open_folder(spark: SparkSession, path: str, *, control_name: str) -> Iterator[Folder]:
    """The same to write to, for one run at a time. `control_name` is where the job keeps its own files in it."""
    folder = folder_at(spark, path)
    lock = folder.lock(control_name) if isinstance(folder, LocalFolder) else None
    try:
        yield folder
    finally:
        if lock is not None:
            lock.release()


class LocalFolder:
    """A directory of this machine."""

    def __init__(self, disk: LocalDisk, root: Path) -> None:
        self._disk = disk
        self._root = root

    is_locked = True

    def lock(self, control_name: str) -> FileLock:
        """Raises `StoreLocked` while another run has it."""
        self._disk.make_directories(self._root / control_name)
        try:
            return self._disk.lock(self._root / control_name / _LOCK)
        except StoreLocked as error:
            raise StoreLocked(
                f"another run is writing to {self._root}: wait for its end, or choose another path"
            ) from error

    def url(self, name: str = "") -> str:
        return "file://" + quote(self.path(name), safe="/=")

    def path(self, name: str = "") -> str:
        return str(self._root / name)

    def read(self, name: str) -> bytes | None:
        try:
            return self._disk.read(self._root / name)
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> None:
        if (self._root / name).exists():  # the lock is ours: nobody can be quicker
            raise StoreLocked(f"{self._root / name} is there already: another run has written it")
        self.replace(name, data)

    def replace(self, name: str, data: bytes) -> None:
        path = self._root / name
        self._disk.make_directories(path.parent)
        self._disk.replace(path, data)

    def move(self, source: str, target: str) -> None:
        origin, place = self._root / source, self._root / target
        if not origin.exists() and place.exists():
            return
        self._disk.make_directories(place.parent)
        self._disk.rename(origin, place)
        self._disk.sync_directory(place.parent)

    def delete(self, name: str) -> None:
        path = self._root / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # what a dying process still writes goes the next time
        else:
            path.unlink(missing_ok=True)

    def names(self, name: str) -> list[str]:
        return list(self._disk.list(self._root / name))

    def files(self, name: str) -> list[FileStatus]:
        found = []
        for directory, directories, names in os.walk(self._root / name):
            directories[:] = sorted(one for one in directories if not _is_hidden(one))
            paths = [Path(directory, one) for one in sorted(names) if not _is_hidden(one)]
            found += [self._status(path) for path in paths]
        return found

    def make_durable(self, name: str) -> None:
        file = self._disk.open(self._root / name, writable=False)
        try:
            file.fdatasync()
        finally:
            file.close()

    def _status(self, path: Path) -> FileStatus:
        about = path.stat()
        return FileStatus(path.relative_to(self._root).as_posix(), about.st_size, about.st_mtime_ns // 1_000_000)


class SparkFolder:
    """A directory of a file system that Spark's own libraries reach, with Spark's settings for it."""

    is_locked = False

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm = cast(Any, spark.sparkContext._jvm)
        self._root: Any = self._jvm.org.apache.hadoop.fs.Path(path)
        try:
            self._gateway: Any = spark.sparkContext._gateway
            self._settings: Any = spark._jsc.hadoopConfiguration()
            self._files: Any = self._root.getFileSystem(self._settings)
        except Exception as error:
            reason = str(getattr(error, "java_exception", error)).splitlines()[0]
            raise IllegalArgument(f"{path} cannot be used: {reason}") from error
        self._root = self._files.makeQualified(self._root)
        # The sums beside files of a local disk would not follow when a file is moved.
        self._files.setWriteChecksum(False)

    def url(self, name: str = "") -> str:
        return str(self._at(name).toUri().toString())

    def path(self, name: str = "") -> str:
        return str(self._at(name).toString())

    def read(self, name: str) -> bytes | None:
        if not self._files.exists(self._at(name)):
            return None
        stream = self._files.open(self._at(name))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, name: str, data: bytes) -> None:
        temporary = self._written(name, data)
        # Renames of this interface do not take the place of a file that is there.
        if self._files.exists(self._at(name)) or not self._files.rename(temporary, self._at(name)):
            self._files.delete(temporary, False)
            raise StoreLocked(f"{self.path(name)} is there already: another run has written it")

    def replace(self, name: str, data: bytes) -> None:
        # The other interface to the same file system: its renames take the place of a file that is there, in one step.
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        how = self._gateway.new_array(rename, 1)
        how[0] = rename.OVERWRITE
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), self._settings)
        context.rename(self._written(name, data), self._at(name), how)

    def move(self, source: str, target: str) -> None:
        origin, place = self._at(source), self._at(target)
        if not self._files.exists(origin) and self._files.exists(place):
            return
        self._files.mkdirs(place.getParent())
        if not self._files.rename(origin, place):
            raise StoreError(f"{self.path(source)} could not be moved to {self.path(target)}")

    def delete(self, name: str) -> None:
        self._files.delete(self._at(name), True)

    def names(self, name: str) -> list[str]:
        place = self._at(name)
        if not self._files.exists(place):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(place))

    def files(self, name: str) -> list[FileStatus]:
        found: list[FileStatus] = []
        if not self._files.exists(self._at(name)):
            return found
        walk = self._files.listFiles(self._at(name), True)
        prefix = self.path() + "/"
        while walk.hasNext():
            status = walk.next()
            relative = str(status.getPath().toString()).removeprefix(prefix)
            below = relative.removeprefix(name).strip("/")
            if not any(map(_is_hidden, below.split("/"))):
                found.append(FileStatus(relative, int(status.getLen()), int(status.getModificationTime())))
        return sorted(found, key=lambda status: status.name)

    def make_durable(self, name: str) -> None:
        """Such file systems keep what was closed."""

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def _written(self, name: str, data: bytes) -> Any:
        place = self._at(name)
        temporary = place.suffix(f".{os.urandom(6).hex()}.tmp")
        stream = self._files.create(temporary, True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()
        return temporary


def _is_hidden(name: str) -> bool:
    """As Spark sees it: its own files, and what is not finished."""
    return name.startswith(("_", ".")) and "=" not in name
