"""With which settings a store was written, found out from its files: tools get a directory, not a configuration.

Rule: files say what they can. Log and queue files are as large as their settings; an index file has slots and entries
in Apache's proportion of one to four, unless the configuration says something else that fits as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from skyrocketmq.config import StoreConfig
from skyrocketmq.ports import Disk
from skyrocketmq.store.index_file import ENTRY_BYTES, HEADER_BYTES, SLOT_BYTES, IndexLayout

__all__ = ["fitted_config"]

ENTRIES_A_SLOT = 4


def fitted_config(disk: Disk, config: StoreConfig) -> StoreConfig:
    """The configuration with the sizes of the files that are there. Blocks."""
    log_bytes = _most_common_size(disk, [path for each in config.commit_log_directories for path in _files(disk, each)])
    queues = config.root_path / "consumequeue"
    queue_files = [
        path
        for topic in disk.list(queues)
        for queue_id in disk.list(queues / topic)
        for path in _files(disk, queues / topic / queue_id)
    ]
    queue_bytes = _most_common_size(disk, queue_files)
    layout = _index_layout(_most_common_size(disk, _files(disk, config.root_path / "index")), config)
    return replace(
        config,
        commit_log_file_bytes=log_bytes or config.commit_log_file_bytes,
        queue_file_bytes=queue_bytes or config.queue_file_bytes,
        index_slot_count=layout.slot_count,
        index_entry_count=layout.entry_count,
    )


def _index_layout(file_bytes: int, config: StoreConfig) -> IndexLayout:
    configured = IndexLayout(slot_count=config.index_slot_count, entry_count=config.index_entry_count)
    if not file_bytes or configured.file_bytes == file_bytes:
        return configured
    slots, rest = divmod(file_bytes - HEADER_BYTES, SLOT_BYTES + ENTRIES_A_SLOT * ENTRY_BYTES)
    if rest or slots <= 0:
        return configured
    return IndexLayout(slot_count=slots, entry_count=slots * ENTRIES_A_SLOT)


def _files(disk: Disk, directory: Path) -> list[Path]:
    return [directory / name for name in disk.list(directory) if name.isascii() and name.isdecimal()]


def _most_common_size(disk: Disk, paths: Sequence[Path]) -> int:
    counts: dict[int, int] = {}
    for path in paths:
        file = disk.open(path, writable=False)
        try:
            size = file.size()
        finally:
            file.close()
        counts[size] = counts.get(size, 0) + 1
    return max(counts, key=lambda size: counts[size]) if counts else 0
