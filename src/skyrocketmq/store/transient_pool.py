"""The transient pool: messages that are acknowledged while they are in memory only, and written a little later.

An operator's choice (`transientStorePoolEnable`, with asynchronous flush on masters): fewer, larger writes to the log,
at the price that a killed process, and not only a power cut, loses what was acknowledged last.

Rule 1: what is in the pool does not exist for readers: neither its records nor its cells in the queues. A message that
might still be lost is delivered to nobody, so no consumer is ever ahead of the log.
Rule 2: the pool is written once it has `commitCommitLogLeastPages`, every `commitIntervalCommitLog` at the latest, and
always before the log goes on in another file: more than one file's worth never waits.
Rule 3: a write that fails takes nothing back, since it was acknowledged. It is tried again, and nothing new is taken
meanwhile.
"""

from __future__ import annotations

from typing import Final

__all__ = ["TransientPool"]

PAGE_BYTES: Final = 4096


class TransientPool:
    """Records, and the keys to be indexed once these are in the log."""

    def __init__(self, *, least_pages: int) -> None:
        self.least_pages = least_pages
        self.byte_count = 0
        self.count = 0  # messages
        self.newest_ms = 0
        self.keys = b""  # packed, of all these messages
        self.vouched: list[tuple[int, int]] = []  # where in the log those lie that need a voucher
        self._pieces: list[bytes] = []

    def add(self, data: bytes, count: int, keys: bytes, now_ms: int, vouched: list[tuple[int, int]]) -> None:
        self._pieces.append(data)
        self.byte_count += len(data)
        self.count += count
        self.newest_ms = now_ms
        self.keys += keys
        self.vouched += vouched

    @property
    def is_due(self) -> bool:
        """Whether so much is waiting that it should be written now."""
        return self.byte_count >= self.least_pages * PAGE_BYTES

    def data(self) -> bytes:
        """All records, as they will stand in the log."""
        return b"".join(self._pieces)

    def clear(self) -> None:
        """It is written."""
        self._pieces.clear()
        self.keys = b""
        self.vouched.clear()
        self.byte_count = self.count = 0
