"""What an archive consists of, and what is to be done about its small files. Pure: values in, values out.

    PATH/topic=Orders/day=2024-05-01/part-....parquet     rows; the day is that of storing, in UTC
    PATH/_spark_metadata/0                                the files that count, for Spark's readers
    PATH/_archive/commit-00000042.json                    the same, and how far each queue has been read
    PATH/_archive/staging/                                what is being written

A commit names the files that count and the places in the queues up to which they reach, together: that is what makes
the archive exact. Files it adds may still lie in staging; `moves` says where from and where to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from skyrocketmq.model import MessageQueue

__all__ = ["CONTROL", "METADATA", "STAGING", "ArchiveFile", "ArchiveState", "Merge", "plan_merges", "spark_metadata"]

CONTROL: Final = "_archive"
STAGING: Final = "_archive/staging"
METADATA: Final = "_spark_metadata/0"


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file of rows."""

    name: str
    size: int
    modified_ms: int

    @property
    def partition(self) -> str:
        """The directory, which says topic and day."""
        return self.name.rpartition("/")[0]


@dataclass(frozen=True)
class ArchiveState:
    """One commit."""

    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    files: tuple[ArchiveFile, ...] = ()
    moves: tuple[tuple[str, str], ...] = ()  # from staging to where they are named in `files`
    retired: tuple[tuple[str, int], ...] = ()  # merged into others, and since when: not yet deleted, for readers

    def with_batch(
        self, offsets: Mapping[MessageQueue, int], files: Iterable[ArchiveFile], moves: Iterable[tuple[str, str]]
    ) -> ArchiveState:
        """After more messages were written."""
        return replace(
            self, offsets=dict(self.offsets) | dict(offsets), files=(*self.files, *files), moves=tuple(moves)
        )

    def with_merge(
        self, merge: Merge, files: Iterable[ArchiveFile], moves: Iterable[tuple[str, str]], now_ms: int
    ) -> ArchiveState:
        """After small files were written as larger ones."""
        gone = {file.name for file in merge.files}
        kept = tuple(file for file in self.files if file.name not in gone)
        return replace(
            self,
            files=(*kept, *files),
            moves=tuple(moves),
            retired=(*self.retired, *((name, now_ms) for name in sorted(gone))),
        )

    def without_retired(self, before_ms: int) -> tuple[ArchiveState, list[str]]:
        """Without what was retired before a time, and the names of it, which may be deleted."""
        old = [name for name, since_ms in self.retired if since_ms <= before_ms]
        return replace(self, retired=tuple(one for one in self.retired if one[1] > before_ms)), old

    def to_json(self) -> dict[str, Any]:
        from skyrocketmq.spark.places import offsets_to_json

        return {
            "offsets": offsets_to_json(self.offsets),
            "files": [[file.name, file.size, file.modified_ms] for file in self.files],
            "moves": [list(move) for move in self.moves],
            "retired": [list(one) for one in self.retired],
        }

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> ArchiveState:
        from skyrocketmq.spark.places import offsets_from_json

        return cls(
            offsets=offsets_from_json(tree["offsets"]) if tree["offsets"] else {},
            files=tuple(ArchiveFile(*row) for row in tree["files"]),
            moves=tuple((source, target) for source, target in tree["moves"]),
            retired=tuple((name, since_ms) for name, since_ms in tree["retired"]),
        )


@dataclass(frozen=True)
class Merge:
    """Small files of one topic and day that become one."""

    partition: str
    files: tuple[ArchiveFile, ...]


def plan_merges(files: Sequence[ArchiveFile], *, count_min: int, target_bytes: int) -> list[Merge]:
    """What is worth it: where a day of a topic has so many files of less than half the size that is aimed at."""
    by_partition: dict[str, list[ArchiveFile]] = {}
    for file in files:
        if file.size < target_bytes // 2:
            by_partition.setdefault(file.partition, []).append(file)
    merges: list[Merge] = []
    for partition, small in sorted(by_partition.items()):
        if len(small) >= max(count_min, 2):
            merges += [Merge(partition, part) for part in _filled(small, target_bytes) if len(part) > 1]
    return merges


def _filled(files: Sequence[ArchiveFile], target_bytes: int) -> list[tuple[ArchiveFile, ...]]:
    """The files, as they come, in groups of about the size that is aimed at."""
    groups: list[tuple[ArchiveFile, ...]] = []
    group: list[ArchiveFile] = []
    for file in files:
        if group and sum(one.size for one in group) + file.size > target_bytes:
            groups.append(tuple(group))
            group = []
        group.append(file)
    return [*groups, tuple(group)]


def spark_metadata(files: Iterable[ArchiveFile], url: str) -> bytes:
    """The list that Spark's readers go by: that of a streaming query which wrote all files in its first batch."""
    from urllib.parse import quote

    lines = ["v1"]
    lines += [
        json.dumps(
            {
                "path": f"{url}/{quote(file.name, safe='/=')}",
                "size": file.size,
                "isDir": False,
                "modificationTime": file.modified_ms,
                "blockReplication": 1,
                "blockSize": 128 << 20,
                "action": "add",
            }
        )
        for file in files
    ]
    return "\n".join(lines).encode()
