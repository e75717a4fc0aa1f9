"""A message on its way into the store, and what comes of it."""

from __future__ import annotations

from typing import Final

import msgspec

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.wire.records import body_of, read_head, scan_record

__all__ = ["NewMessage", "PutResult", "read_stored"]

NOWHERE: Final = LogOffset(-1)
NO_PLACE: Final = QueueOffset(-1)


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be stored: everything but what the store itself decides. Hosts are packed."""

    topic: str
    queue_id: int
    body: bytes
    properties: bytes  # the text of the record
    born_timestamp: int
    born_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    store_host: bytes | None = None  # of an earlier copy; None for this broker's


class PutResult(msgspec.Struct, frozen=True):
    """How an append ended. Offsets are -1 where the message was not stored."""

    status: PutStatus
    log_offset: LogOffset = NOWHERE
    queue_offset: QueueOffset = NO_PLACE
    store_timestamp: int = 0
    remark: str = ""


def read_stored(record: bytes | memoryview, *, check_crc: bool = True) -> tuple[NewMessage, int, int]:
    """A stored record as a message that could be stored again; its queue offset and its log offset.

    Raises `ProtocolError` for what is no record, and for a body that has rotted.
    """
    scanned = scan_record(record, 0, len(record), check_crc=check_crc)
    if scanned is None:
        raise ProtocolError("its place in the log is the end of a file")
    head = read_head(record)
    message = NewMessage(
        topic=scanned.topic.decode("utf-8", "replace"),
        queue_id=head.queue_id,
        body=body_of(record),
        properties=scanned.properties,
        born_timestamp=head.born_ms,
        born_host=head.born_host,
        flag=head.flag,
        sys_flag=head.sys_flag,
        reconsume_times=head.reconsumed,
        prepared_transaction_offset=head.prepared_offset,
        store_host=head.store_host,
    )
    return message, head.queue_offset, head.log_offset
