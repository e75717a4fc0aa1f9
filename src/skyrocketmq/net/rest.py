"""The bytes after the last complete frame of a buffer, kept until the frame they begin is complete.

A frame of 16 MiB comes in hundreds of pieces: they are collected in a list and joined once. Joining them one by one
would copy each byte hundreds of times.

A thousand peers that send all but the last byte of such a frame would fill 16 GiB: what is kept of large frames counts
against a budget that all connections of a server share. Where it is exceeded, a connection has to go: of the
host whose connections hold most together, the one that has been at its frame longest.
"""

from __future__ import annotations

import sys
from struct import Struct
from typing import Generic, Protocol, TypeVar

__all__ = ["Budget", "Rest", "needed_bytes"]

LARGE_FRAME_BYTES = 256 * 1024  # a smaller one is not worth counting: it fits one read of the socket

_LENGTH = Struct(">I")


def needed_bytes(data: bytes) -> int:
    """At which size it pays to look at `data` again: once its length, its header word, or its frame is complete."""
    if len(data) < 8:
        return 4 if len(data) < 4 else 8
    return 4 + int(_LENGTH.unpack_from(data)[0])


class Holder(Protocol):
    """Who keeps bytes."""

    @property
    def host(self) -> bytes: ...


H = TypeVar("H", bound=Holder)


class Budget(Generic[H]):
    """Bytes that several may keep together."""

    __slots__ = ("_holders", "bytes_max", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self._holders: dict[H, int] = {}  # those with a frame begun longest ago first

    def add(self, holder: H, byte_count: int) -> None:
        self.used_bytes += byte_count
        self._holders[holder] = self._holders.get(holder, 0) + byte_count

    def give_back(self, holder: H) -> None:
        self.used_bytes -= self._holders.pop(holder, 0)

    def heaviest(self) -> H:
        """Who is to go if it is exceeded."""
        by_host: dict[bytes, int] = {}
        for holder, byte_count in self._holders.items():
            by_host[holder.host] = by_host.get(holder.host, 0) + byte_count
        host = max(by_host, key=by_host.__getitem__)
        return next(holder for holder in self._holders if holder.host == host)

    @property
    def is_exceeded(self) -> bool:
        return self.used_bytes > self.bytes_max


class Rest(Generic[H]):
    """Pieces of a buffer. `held` ones hold complete frames too: their reader had to stop before the end."""

    __slots__ = ("_budget", "_holder", "_needed_bytes", "_pieces", "have_bytes", "is_held")

    def __init__(self, budget: Budget[H], holder: H) -> None:
        self._budget = budget
        self._holder: H | None = holder
        self._pieces: list[bytes] = []
        self._needed_bytes = 0
        self.have_bytes = 0
        self.is_held = False

    def keep(self, data: bytes, needed: int) -> None:
        """Keep the beginning of a frame until `needed` bytes are there."""
        self._pieces = [data]
        self._needed_bytes = needed
        self.have_bytes = len(data)
        if needed > LARGE_FRAME_BYTES:
            self._count(len(data))

    def hold(self, data: bytes) -> None:
        """Keep everything, however much, until `take`."""
        self.keep(data, sys.maxsize)
        self.is_held = True

    def add(self, data: bytes) -> bytes:
        """Everything kept and `data`, if that is enough now; else nothing, and `data` is kept too."""
        self._pieces.append(data)
        self.have_bytes += len(data)
        if self._needed_bytes > LARGE_FRAME_BYTES:
            self._count(len(data))
        return self.take() if self.have_bytes >= self._needed_bytes else b""

    def close(self) -> None:
        """Nothing is kept any more, nor for whom."""
        self.take()
        self._holder = None

    def take(self) -> bytes:
        """Everything kept; nothing is kept afterwards."""
        data = b"".join(self._pieces)
        if self._needed_bytes > LARGE_FRAME_BYTES and self._holder is not None:
            self._budget.give_back(self._holder)
        self._needed_bytes = 0
        self._pieces = []
        self.have_bytes = 0
        self.is_held = False
        return data

    def _count(self, byte_count: int) -> None:
        if self._holder is not None:
            self._budget.add(self._holder, byte_count)
