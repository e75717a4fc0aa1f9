"""The records of a log, one after the other, as values: for people and programs that look into a store."""

from __future__ import annotations

from collections.abc import Iterator

from skyrocketmq.config import StoreConfig
from skyrocketmq.errors import ProtocolError, StoreError
from skyrocketmq.model import MessageView
from skyrocketmq.ports import Disk
from skyrocketmq.store.commit_log import NEVER
from skyrocketmq.store.log_files import LogFiles, require_log
from skyrocketmq.store.log_scan import LogScan
from skyrocketmq.wire.records import decode_record

__all__ = ["dump"]


def dump(
    disk: Disk, config: StoreConfig, *, start: int = 0, topic: str | None = None, queue_id: int | None = None
) -> Iterator[MessageView]:
    """Messages from log offset `start` on, which must be where a record begins or before the log. Blocks.

    Bad records are stepped over. Raises `StoreError` if nothing begins at `start`.
    """
    log = LogFiles(disk, config)
    require_log(disk, config, log)
    try:
        begin = max(start, log.begin)
        scan = LogScan(log, begin, check_crc=True, trusted_ms=NEVER)
        for record in scan.records():
            if begin == start and record.log_offset != start and scan.bad and scan.bad[0][0] == start:
                raise StoreError(f"no record begins at {start}; the next one is at {record.log_offset}")
            if (topic is not None and record.topic != topic.encode()) or queue_id not in (None, record.queue_id):
                continue
            file_start = record.log_offset - record.log_offset % log.file_bytes
            file = next(file for file in log.files if file.start == file_start)
            data = log.open_files.get(file.path).pread(record.total_bytes, record.log_offset - file_start)
            try:
                yield decode_record(data)
            except ProtocolError as error:
                raise StoreError(f"the record at {record.log_offset} cannot be read: {error}") from error
    finally:
        log.open_files.close()
