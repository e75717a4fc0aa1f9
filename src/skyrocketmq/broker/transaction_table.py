"""Which transactions are pending, and from where a start has to read to know that again. Pure.

A transaction is known by topic, producer group and unique id of its message, or, where it has no id, by the place of
its first half message. A half message may be stored several times: the producer sent it twice because an answer was
lost, or the broker stored it again before it asked. All of these are one transaction, its newest copy stands for it,
and it ends once.

What a start has to read is written down as two offsets of the group CID_RMQ_SYS_TRANS, with the family's meaning:

    half topic    every half message before it is ended, given up, or was stored again behind it
    op topic      every mark before it speaks of a half message before the other offset

Rule: an offset moves on only over what a power cut can no longer take back. A mark that is lost while its offset stays
would be a commit that nobody asks about any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["PendingHalves", "Progress"]


class PendingHalves:
    """Transaction -> queue offset of its newest half message, in the order of the offsets. A hot module's data."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self.find = self._offsets.get
        self.take = self._offsets.pop

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, transaction: bytes) -> bool:
        return transaction in self._offsets

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        return iter(list(self._offsets.items()))

    def add(self, transaction: bytes, offset: int) -> int | None:
        """A half message is stored; returns the offset of the copy that it takes the place of."""
        before = self._offsets.pop(transaction, None)
        self._offsets[transaction] = offset
        return before

    def put_back(self, taken: Iterable[tuple[bytes, int]]) -> None:
        """Undo what could not be stored: these were pending. The order is mended, once: that takes long."""
        self._offsets.update(taken)
        in_order = sorted(self._offsets.items(), key=lambda item: item[1])
        self._offsets.clear()
        self._offsets.update(in_order)

    def oldest(self) -> int | None:
        """The first offset that is still needed; None if none is."""
        return next(iter(self._offsets.values()), None)


class _Mark(NamedTuple):
    needed_from: int  # of the half queue
    half_end: int
    op_end: int
    log_end: int


class Progress:
    """The two offsets. `note` says how things stand; `settle` moves on to what is safe of that."""

    def __init__(self, half_offset: int, op_offset: int) -> None:
        self.half_offset = half_offset
        self.op_offset = op_offset
        self._marks: deque[_Mark] = deque()

    def note(self, *, oldest: int | None, half_end: int, op_end: int, log_end: int) -> None:
        mark = _Mark(half_end if oldest is None else oldest, half_end, op_end, log_end)
        if not self._marks or self._marks[-1][:3] != mark[:3]:
            self._marks.append(mark)

    def settle(self, flushed_offset: int) -> bool:
        """Move on as far as the log is durable; whether that changed anything."""
        safe = [mark for mark in self._marks if mark.log_end <= flushed_offset]
        if not safe:
            return False
        before = self.half_offset, self.op_offset
        self.half_offset = safe[-1].needed_from
        # Whatever was marked up to here speaks of half messages that are no longer needed.
        while self._marks and self._marks[0].half_end <= self.half_offset and self._marks[0].log_end <= flushed_offset:
            self.op_offset = self._marks.popleft().op_end
        return before != (self.half_offset, self.op_offset)
