"""The two ids of a message, both hexadecimal and upper case, 32 digits with IPv4 and 56 with IPv6.

    offset id   | IP 4 or 16 | port 4 | log offset 8 |                               where a copy is stored
    unique id   | IP 4 or 16 | process 2 | constant 4 | ms of the month 4 | counter 2 |     what a producer named it

Rule 1: they look alike and nothing tells them apart; who looks one up tries it as an offset id first.
Rule 2: pure. The generator is told address, process and time; it knows no clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count, islice
from typing import Final, NamedTuple

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.offsets import LogOffset

ID_DIGITS_V4: Final = 32
ID_DIGITS_V6: Final = 56
CLOCK_BACK_MS_MAX: Final = 1_000_000  # a clock set back by less counts as standing at the month's start

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")


# Offset ids ----------------------------------------------------------------------------------------------------------


def encode_offset_id(store_host: bytes, log_offset: int) -> str:
    """The id of what is stored at this place by the broker with this packed address (8 or 20 bytes)."""
    assert len(store_host) in (8, 20), "a packed host has 8 or 20 bytes"
    return (store_host + log_offset.to_bytes(8, "big", signed=True)).hex().upper()


def decode_offset_id(text: str) -> tuple[bytes, LogOffset]:
    """The packed address of the broker to ask, and the place in its commit log."""
    data = _decode_digits(text)
    return data[:-8], LogOffset(int.from_bytes(data[-8:], "big", signed=True))


# Unique ids ----------------------------------------------------------------------------------------------------------


class UniqueId(NamedTuple):
    """The parts of a unique id."""

    ip: bytes
    process_id: int  # low 16 bits
    constant: int
    month_ms: int  # since the first of the month, 00:00 where the producer lives
    counter: int


class UniqueIdGenerator:
    """Makes the unique ids of one process; safe to call from any thread.

    `ip` is 4 or 16 bytes; `constant` any 32-bit number that sets this process apart from one with the same address and
    number (a container's, say). A process made by fork needs a generator of its own.
    """

    def __init__(self, *, ip: bytes, process_id: int, constant: int, timezone: tzinfo = UTC) -> None:
        assert len(ip) in (4, 16), "an IP address has 4 or 16 bytes"
        fixed = ip + (process_id & 0xFFFF).to_bytes(2, "big") + (constant & 0xFFFFFFFF).to_bytes(4, "big")
        self._prefix = fixed.hex().upper()
        self._timezone = timezone
        self._counter = count()
        self._month = (0, 0)  # [start, end) in ms; one tuple, so that threads see both bounds change at once
        self._head = (-1, "")  # the moment of the last id, and what all ids of that moment begin with; one tuple too

    def next_id(self, now_ms: int) -> str:
        """An id that this process has not given yet (65,536 fit in a millisecond)."""
        made_ms, head = self._head
        if made_ms != now_ms:
            head = self._head_at(now_ms)
            self._head = (now_ms, head)
        return f"{head}{next(self._counter) & 0xFFFF:04X}"

    def take_ids(self, now_ms: int, id_count: int) -> tuple[str, list[int]]:
        """So many ids at once: what all begin with, and the numbers whose lowest 16 bits are their last four digits."""
        return self._head_at(now_ms), list(islice(self._counter, id_count))

    def _head_at(self, now_ms: int) -> str:
        start_ms, end_ms = self._month
        if now_ms >= end_ms:
            self._month = start_ms, end_ms = month_bounds_ms(now_ms, self._timezone)
        month_ms = now_ms - start_ms
        if -CLOCK_BACK_MS_MAX < month_ms < 0:
            month_ms = 0
        return f"{self._prefix}{month_ms & 0xFFFFFFFF:08X}"


def decode_unique_id(text: str) -> UniqueId:
    """The parts of a unique id; any id of the right length has them, whether they mean something or not."""
    data = _decode_digits(text)
    ip, rest = data[:-12], data[-12:]
    return UniqueId(
        ip=ip,
        process_id=int.from_bytes(rest[:2], "big"),
        constant=int.from_bytes(rest[2:6], "big"),
        month_ms=int.from_bytes(rest[6:10], "big"),
        counter=int.from_bytes(rest[10:], "big"),
    )


def unique_id_time_ms(text: str, *, now_ms: int, timezone: tzinfo = UTC) -> int:
    """About when the id was made. It holds no month: the newest time that is past is taken."""
    month_ms = decode_unique_id(text).month_ms
    start_ms, _ = month_bounds_ms(now_ms, timezone)
    if start_ms + month_ms >= now_ms:
        start_ms, _ = month_bounds_ms(start_ms - 1, timezone)
    return start_ms + month_ms


def month_bounds_ms(now_ms: int, timezone: tzinfo = UTC) -> tuple[int, int]:
    """When the current month began and when the next one begins, by the calendar of the time zone."""
    first = (_EPOCH + now_ms * _MS).astimezone(timezone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return (first - _EPOCH) // _MS, (following - _EPOCH) // _MS


def _decode_digits(text: str) -> bytes:
    if len(text) not in (ID_DIGITS_V4, ID_DIGITS_V6) or not _HEX_DIGITS.issuperset(text):
        raise ProtocolError(
            f"{text[:60]!r} is no message id: ids have {ID_DIGITS_V4} or {ID_DIGITS_V6} hexadecimal digits"
        )
    return bytes.fromhex(text)
