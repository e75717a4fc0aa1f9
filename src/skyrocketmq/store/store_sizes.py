"""With which settings a store was written, and where its log is: tools get a directory, not a configuration.

Rule 1: files say what they can. Log and queue files are as large as their settings; an index file has slots and entries
in Apache's proportion of one to four, unless the configuration says something else that fits as well.
Rule 2: a file that may have been cut short says nothing. What a note of a cut says goes first; of several log files the
places where they begin tell; of a single one the configuration, and only without that its length, if its end looks like
the end of a file that was never cut.
Rule 3: a store that was moved or copied is read where it is, whatever its configuration says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import StoreError
from skyrocketmq.hot.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SLOT_BYTES
from skyrocketmq.ports import Disk
from skyrocketmq.store.commit_log import KEY as LOG_KEY
from skyrocketmq.store.consume_queue import CELL_BYTES
from skyrocketmq.store.consume_queue import KEY as QUEUE_KEY
from skyrocketmq.store.cut_mark import CUT_NAME, CutMark
from skyrocketmq.store.index_file import IndexLayout
from skyrocketmq.wire.records import BLANK_BYTES, encode_blank

__all__ = ["fitted_config", "log_path_of"]

ENTRIES_A_SLOT = 4


def fitted_config(
    disk: Disk,
    config: StoreConfig,
    *,
    knows_log_size: bool = False,
    knows_queue_size: bool = False,
    writes: bool = True,
) -> StoreConfig:
    """The configuration with the sizes of the files that are there. Blocks.

    `knows_log_size` and `knows_queue_size` if these come from the broker's own settings, and are no mere defaults.
    Raises `StoreError` where nothing tells a size: to guess that of the log would misplace every offset, and queues
    written in a wrong size are refused by their broker. Who only reads (not `writes`) takes the default for these.
    """
    log_bytes = _log_file_bytes(disk, config, is_known=knows_log_size)
    config = replace(config, commit_log_file_bytes=log_bytes)
    layout = _index_layout(_most_common_size(disk, _files(disk, config.root_path / "index")), config)
    return replace(
        config,
        queue_file_bytes=_queue_file_bytes(disk, config, is_known=knows_queue_size, writes=writes),
        index_slot_count=layout.slot_count,
        index_entry_count=layout.entry_count,
    )


def _log_file_bytes(disk: Disk, config: StoreConfig, *, is_known: bool) -> int:
    directories = config.commit_log_directories
    paths = sorted((path for each in directories for path in _files(disk, each)), key=lambda path: int(path.name))
    cut = CutMark(disk, config.root_path / CUT_NAME).load()
    if cut is not None and cut.file_bytes:
        return cut.file_bytes
    cut_path = None if cut is None else cut.find(disk, directories)
    sizes = {path: _size(disk, path) for path in paths if path != cut_path}
    if len(paths) > 1:
        return _size_of_several([int(path.name) for path in paths], max(sizes.values(), default=0))
    configured = config.commit_log_file_bytes
    if is_known or not paths or sizes.get(paths[0]) in (0, configured):
        return configured
    [path] = paths
    if path in sizes and int(path.name) % sizes[path] == 0 and _ends_as_a_whole_file(disk, path, sizes[path]):
        return sizes[path]
    raise StoreError(
        f"{path}, the only file of the log, was cut short, and nothing here says how large it was. Give the "
        f"configuration of its broker with -c, or --set {LOG_KEY}=..."
    )


def _size_of_several(starts: list[int], largest: int) -> int:
    """Files lie side by side; where some were deleted in between, the distance is that of several."""
    distance = min(after - before for before, after in pairwise(starts))
    is_whole = largest and all(start % largest == 0 for start in starts)
    return largest if is_whole else distance


def _ends_as_a_whole_file(disk: Disk, path: Path, size: int) -> bool:
    """Whether the file ends in what was never written, or in the blank record that closes a file.

    One that was cut ends with a message.
    """
    file = disk.open(path, writable=False)
    try:
        tail = file.pread(BLANK_BYTES, max(size - BLANK_BYTES, 0))
    finally:
        file.close()
    return tail in (bytes(len(tail)), encode_blank(BLANK_BYTES))


def _queue_file_bytes(disk: Disk, config: StoreConfig, *, is_known: bool, writes: bool) -> int:
    """Files of queues are made without a sync: after a power cut some may be short, until the next start."""
    queues = config.root_path / "consumequeue"
    rows = [_files(disk, queues / topic / name) for topic in disk.list(queues) for name in disk.list(queues / topic)]
    sizes = {path: size for row in rows for path in row if (size := _size(disk, path)) and size % CELL_BYTES == 0}
    found = set(sizes.values())
    if config.queue_file_bytes in found:
        return config.queue_file_bytes
    if len(found) == 1 and len(sizes) > 1:
        return found.pop()
    distances = [int(after.name) - int(before.name) for row in rows for before, after in pairwise(row)]
    if distances:
        return min(distances)
    if is_known:
        return config.queue_file_bytes
    largest = max(sizes, key=lambda path: sizes[path], default=None)
    if largest is not None and (
        not disk.exists(config.root_path / "abort") or _ends_in_zeros(disk, largest, sizes[largest])
    ):
        return sizes[largest]
    has_log = any(_files(disk, directory) for directory in config.commit_log_directories)
    if writes and has_log and config.commit_log_file_bytes != StoreConfig().commit_log_file_bytes:
        raise StoreError(
            f"nothing in {queues} says how large its files are. Give the configuration of the broker with -c, or "
            f"--set {QUEUE_KEY}=..."
        )
    return config.queue_file_bytes  # a log as large as Apache's has queues as large as Apache's


def _ends_in_zeros(disk: Disk, path: Path, size: int) -> bool:
    file = disk.open(path, writable=False)
    try:
        return file.pread(CELL_BYTES, size - CELL_BYTES) == bytes(CELL_BYTES)
    finally:
        file.close()


def _index_layout(file_bytes: int, config: StoreConfig) -> IndexLayout:
    configured = IndexLayout(slot_count=config.index_slot_count, entry_count=config.index_entry_count)
    if not file_bytes or configured.file_bytes == file_bytes:
        return configured
    slots, rest = divmod(file_bytes - INDEX_HEADER_BYTES, INDEX_SLOT_BYTES + ENTRIES_A_SLOT * INDEX_ENTRY_BYTES)
    if rest or slots <= 0:
        return configured
    return IndexLayout(slot_count=slots, entry_count=slots * ENTRIES_A_SLOT)


def _files(disk: Disk, directory: Path) -> list[Path]:
    return [directory / name for name in disk.list(directory) if name.isascii() and name.isdecimal()]


def _most_common_size(disk: Disk, paths: Sequence[Path]) -> int:
    counts: dict[int, int] = {}
    for path in paths:
        size = _size(disk, path)
        counts[size] = counts.get(size, 0) + 1
    return max(counts, key=lambda size: counts[size]) if counts else 0


def _size(disk: Disk, path: Path) -> int:
    file = disk.open(path, writable=False)
    try:
        return file.size()
    finally:
        file.close()


def log_path_of(root: Path, config: StoreConfig) -> str | None:
    """The log's directories, as the configuration says; those below its own root have moved with the store."""
    if config.commit_log_path is None:
        return None
    configured_root = config.root_path.resolve()
    places = [
        root / path.relative_to(configured_root) if path.is_relative_to(configured_root) else path
        for path in map(Path.resolve, config.commit_log_directories)
    ]
    own = root / "commitlog"
    if root != configured_root and own not in places and _has_files(own) and any(map(_has_files, places)):
        raise StoreError(
            f"both {own} and {', '.join(map(str, places))} hold a log: leave -c away to read the first, "
            f"or add --set storePathRootDir={root} to read the second"
        )
    return config.path_separator.join(map(str, places))


def _has_files(directory: Path) -> bool:
    return directory.is_dir() and any(directory.iterdir())
