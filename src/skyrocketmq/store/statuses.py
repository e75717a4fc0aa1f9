"""What an append and a read can end with, and the switches that decide whether the store takes messages.

Rule 1: an outcome the caller must read is a value. The names are the family's, because answers and remarks show them.
Rule 2: a refusal carries a text that says what is wrong and what to do, ready to be sent to a producer.
Rule 3: every switch but two heals by itself; `FLUSH_FAILED` and a wish of the operator stay until a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntFlag, auto
from typing import Final

__all__ = ["GetStatus", "PutStatus", "Refusal", "RunningFlag", "RunningState"]


class PutStatus(Enum):
    """How an append ended. In the first four cases the message is in the log."""

    PUT_OK = auto()
    FLUSH_DISK_TIMEOUT = auto()
    FLUSH_SLAVE_TIMEOUT = auto()
    SLAVE_NOT_AVAILABLE = auto()
    SERVICE_NOT_AVAILABLE = auto()
    CREATE_MAPEDFILE_FAILED = auto()  # the family's spelling, seen by operators in remarks
    MESSAGE_ILLEGAL = auto()
    PROPERTIES_SIZE_EXCEEDED = auto()
    OS_PAGECACHE_BUSY = auto()
    UNKNOWN_ERROR = auto()
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = auto()

    @property
    def is_stored(self) -> bool:
        """Whether the message is in the log and will be delivered, be it flushed and replicated or not."""
        return self in _STORED


_STORED: Final = frozenset(
    {
        PutStatus.PUT_OK,
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)


class GetStatus(Enum):
    """How a read of a queue ended."""

    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a message was not stored."""

    status: PutStatus
    remark: str


class RunningFlag(IntFlag):
    """Reasons not to write or not to read. The first five bits are the family's."""

    NOT_READABLE = 1
    NOT_WRITABLE = 2
    QUEUE_WRITE_ERROR = 4
    INDEX_WRITE_ERROR = 8
    DISK_FULL = 16
    FLUSH_FAILED = 32  # ours: an fsync failed, so nothing written since the last good one is known to be durable
    CLOSED = 64  # ours: not started, or stopped
    NO_LOG_FILE = 128  # ours: the log is full and there is no space for its next file
    POOL_WRITE_ERROR = 256  # ours: what waits in the transient pool cannot be written


_REMARKS: Final = (  # the first that applies is told
    (RunningFlag.CLOSED, "the store is closed: the broker is starting or stopping"),
    (
        RunningFlag.FLUSH_FAILED,
        "an earlier flush to disk failed, what was written since may be lost: check the disk and restart the broker",
    ),
    (
        RunningFlag.DISK_FULL | RunningFlag.NO_LOG_FILE,
        "the disk is full: free space or lower fileReservedTime; messages are taken again as soon as there is room",
    ),
    (
        RunningFlag.QUEUE_WRITE_ERROR,
        "a consume queue cannot be written, it is tried again every second: see the log",
    ),
    (RunningFlag.INDEX_WRITE_ERROR, "the index cannot be written, it is tried again every second: see the log"),
    (
        RunningFlag.POOL_WRITE_ERROR,
        "the transient pool cannot be written to the log, it is tried again: see the log",
    ),
    (RunningFlag.NOT_WRITABLE, "the store is switched to reading only"),
)
_UNWRITABLE: Final = ~RunningFlag.NOT_READABLE


class RunningState:
    """The flags of one store, with what they mean worked out when they change and not at every append and read."""

    __slots__ = ("_details", "_flags", "is_readable", "refusal")

    def __init__(self, flags: RunningFlag = RunningFlag.CLOSED) -> None:
        self._flags = flags
        self._details: dict[RunningFlag, str] = {}
        self.is_readable = False
        self.refusal: Refusal | None = None
        self._work_out()

    @property
    def flags(self) -> RunningFlag:
        return self._flags

    @property
    def is_writable(self) -> bool:
        return self.refusal is None

    def raise_flag(self, flag: RunningFlag, detail: str = "") -> bool:
        """Set a flag; True if it was not set before, so that the caller logs each turn once.

        `detail` is what the refusal says beside the cause: figures, which may change while the flag is set.
        """
        changed = bool(~self._flags & flag)
        self._flags |= flag
        self._details[flag] = detail
        self._work_out()
        return changed

    def lower_flag(self, flag: RunningFlag) -> bool:
        """Clear a flag; True if it was set. A failed flush is final and cannot be cleared."""
        assert not flag & RunningFlag.FLUSH_FAILED, "only a restart with recovery ends a failed flush"
        changed = bool(self._flags & flag)
        self._flags &= ~flag
        self._work_out()
        return changed

    def _work_out(self) -> None:
        flags = self._flags & _UNWRITABLE
        self.is_readable = not self._flags & (RunningFlag.NOT_READABLE | RunningFlag.CLOSED)
        self.refusal = None
        for flag, remark in _REMARKS:
            if flags & flag:
                detail = "; ".join(text for each, text in self._details.items() if each & flags & flag and text)
                text = f"{remark} ({detail})" if detail else remark
                self.refusal = Refusal(PutStatus.SERVICE_NOT_AVAILABLE, text)
                return
