"""The directories of a `FaultyDisk`: names that programs see, and names that a power cut leaves.

Every creation, renaming and deletion is one step that happens whole or not at all. A step is pending until the
directories it changed are synced; a power cut keeps any of the pending steps and loses the others, in whatever
combination.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from skyrocketmq.testing.disk_content import Choose, FileContent
from skyrocketmq.testing.disk_faults import disk_error

__all__ = ["Directory", "DiskTree"]


@dataclass(eq=False, slots=True)
class Directory:
    """Names to files and directories: those that are visible and those that are durable."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node = FileContent | Directory


@dataclass(eq=False, slots=True)
class _Step:
    """One change of names. `gone` is the name that disappears, `come` the one that appears with its node."""

    unsynced: set[Directory]
    gone: tuple[Directory, str] | None = None
    come: tuple[Directory, str, Node] | None = None

    def apply(self, names_of: Callable[[Directory], dict[str, Node]]) -> None:
        """Do the step on the names that `names_of` gives for a directory."""
        if self.gone is not None:
            directory, name = self.gone
            names_of(directory).pop(name, None)
        if self.come is not None:
            directory, name, node = self.come
            names_of(directory)[name] = node


class DiskTree:
    """A tree of names with the error numbers of a POSIX file system."""

    def __init__(self) -> None:
        self.root = Directory()
        self._pending: list[_Step] = []

    def find(self, path: Path) -> Node | None:
        """The file or directory at a path; `NotADirectoryError` if a file stands where a directory is needed."""
        node: Node = self.root
        for name in _names(path):
            if not isinstance(node, Directory):
                raise disk_error(errno.ENOTDIR, path)
            if (following := node.entries.get(name)) is None:
                return None
            node = following
        return node

    def file(self, path: Path) -> FileContent:
        node = self.find(path)
        if node is None:
            raise disk_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise disk_error(errno.EISDIR, path)
        return node

    def directory(self, path: Path) -> Directory:
        node = self.find(path)
        if node is None:
            raise disk_error(errno.ENOENT, path)
        if not isinstance(node, Directory):
            raise disk_error(errno.ENOTDIR, path)
        return node

    def parent(self, path: Path) -> tuple[Directory, str]:
        return self.directory(path.parent), path.name

    def add(self, path: Path, node: Node) -> None:
        directory, name = self.parent(path)
        directory.entries[name] = node
        self._pending.append(_Step({directory}, come=(directory, name, node)))

    def make_directories(self, path: Path) -> None:
        for ancestor in (*reversed(path.parents), path):
            node = self.find(ancestor)
            if node is None:
                self.add(ancestor, Directory())
            elif not isinstance(node, Directory):
                raise disk_error(errno.EEXIST if ancestor == path else errno.ENOTDIR, path)

    def unlink(self, path: Path) -> FileContent | None:
        """Take a file's name away; the file, or nothing if there was none."""
        if self.find(path) is None:
            return None
        node = self.file(path)
        self._remove(path)
        return node

    def remove_directory(self, path: Path) -> None:
        if self.find(path) is None:
            return
        if self.directory(path).entries:
            raise disk_error(errno.ENOTEMPTY, path)
        self._remove(path)

    def rename(self, source: Path, target: Path) -> Node | None:
        """Give a file or directory another name; what had that name before, if anything."""
        from_directory, from_name = self.parent(source)
        to_directory, to_name = self.parent(target)
        node = from_directory.entries.get(from_name)
        if node is None:
            raise disk_error(errno.ENOENT, source)
        replaced = to_directory.entries.get(to_name)
        if replaced is node:
            return None
        if source in target.parents:
            raise disk_error(errno.EINVAL, target)
        if target in source.parents:
            raise disk_error(errno.ENOTEMPTY, target)
        if replaced is not None:
            _check_replaceable(node, replaced, target)
        del from_directory.entries[from_name]
        to_directory.entries[to_name] = node
        step = _Step({from_directory, to_directory}, (from_directory, from_name), (to_directory, to_name, node))
        self._pending.append(step)
        return replaced

    def sync(self, path: Path) -> None:
        """Make the names in a directory durable; a renaming from another one stays pending until that is synced too."""
        directory = self.directory(path)
        for step in self._pending:
            step.unsynced.discard(directory)
            if not step.unsynced:
                step.apply(lambda changed: changed.durable)
        self._pending = [step for step in self._pending if step.unsynced]

    def files(self) -> Iterator[FileContent]:
        """Every file that has a name, or would get one back by a power cut."""
        seen: set[Node] = {self.root}
        waiting: list[Node] = [self.root]
        waiting += [step.come[2] for step in self._pending if step.come is not None]
        while waiting:
            node = waiting.pop()
            if isinstance(node, FileContent):
                yield node
                continue
            fresh = {*node.entries.values(), *node.durable.values()} - seen
            seen |= fresh
            waiting += fresh

    def paths(self) -> Iterator[Path]:
        """Where the files stand that programs see."""
        waiting: list[tuple[Path, Node]] = [(Path("/"), self.root)]
        while waiting:
            path, node = waiting.pop()
            if isinstance(node, FileContent):
                yield path
            else:
                waiting += [(path / name, inner) for name, inner in node.entries.items()]

    def after_power_loss(self, choose: Choose) -> DiskTree:
        """The tree that is found when the power is back."""
        names: dict[Directory, dict[str, Node]] = {}
        for step in self._pending:
            if choose(2):
                step.apply(lambda directory: names.setdefault(directory, dict(directory.durable)))
        survivor = DiskTree()
        _restore(self.root, survivor.root, names, choose)
        return survivor

    def _remove(self, path: Path) -> None:
        directory, name = self.parent(path)
        del directory.entries[name]
        self._pending.append(_Step({directory}, gone=(directory, name)))


def _restore(lost: Directory, found: Directory, names: dict[Directory, dict[str, Node]], choose: Choose) -> None:
    for name, node in sorted(names.get(lost, lost.durable).items()):
        if isinstance(node, Directory):
            inner = found.entries[name] = Directory()
            _restore(node, inner, names, choose)
        else:
            found.entries[name] = node.after_power_loss(choose)
    found.durable = dict(found.entries)


def _check_replaceable(node: Node, replaced: Node, target: Path) -> None:
    if isinstance(replaced, Directory):
        if not isinstance(node, Directory):
            raise disk_error(errno.EISDIR, target)
        if replaced.entries:
            raise disk_error(errno.ENOTEMPTY, target)
    elif isinstance(node, Directory):
        raise disk_error(errno.ENOTDIR, target)


def _names(path: Path) -> tuple[str, ...]:
    assert ".." not in path.parts, f"{path} leaves its directory"
    return path.parts[1:] if path.is_absolute() else path.parts
