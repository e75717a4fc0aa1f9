"""What goes into the store, and what comes of it."""

from __future__ import annotations

from typing import Final

import msgspec

from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.store.statuses import PutStatus

__all__ = ["NewMessage", "PutResult"]

NOWHERE: Final = LogOffset(-1)
NO_PLACE: Final = QueueOffset(-1)


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message for `put`: everything but what the store itself decides."""

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
