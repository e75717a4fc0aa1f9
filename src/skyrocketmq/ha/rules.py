"""What a master sends to a slave. Values in, values out.

Rule 1: a slave says where its log ends, and gets everything from there on. One that is empty says 0 and gets the whole
log; or, as with Apache's masters, only the newest file, if it is so configured.
Rule 2: a slave that says more than the master has, or less than the master still has, holds another log. It is refused
with a text for the operator: whatever was sent next would not make it a copy.
Rule 3: a slave cannot have what it was not sent: a report of more acknowledges nothing, and ends the connection.
Rule 4: a piece is at most so long and lies within one log file.
"""

from __future__ import annotations

from skyrocketmq.errors import MQError

__all__ = ["SlaveRefused", "check_report", "first_offset", "next_pieces"]


class SlaveRefused(MQError):
    """The slave's log is not a part of this master's; the text says why, and what to do."""


def first_offset(reported: int, *, min_offset: int, max_offset: int, file_bytes: int, newest_file_only: bool) -> int:
    """Where to begin for a slave whose log ends at `reported`. Raises `SlaveRefused`."""
    if reported == 0:
        newest_file = max_offset - max_offset % file_bytes
        return max(newest_file, min_offset) if newest_file_only else min_offset
    check_report(reported, max_offset=max_offset)
    if reported < min_offset:
        raise SlaveRefused(
            f"the slave's log ends at {reported}, and this master has kept nothing before {min_offset}: empty the "
            "slave's store, and it gets all that is left"
        )
    return reported


def check_report(reported: int, *, max_offset: int, sent: int | None = None) -> None:
    """Raises `SlaveRefused` for a slave that claims to have what this master never had, or never sent to it."""
    if sent is not None and sent < reported <= max_offset:
        raise SlaveRefused(
            f"the slave reports {reported}, but was sent no more than {sent}: it got the rest elsewhere, or not at all"
        )
    if reported > max_offset:
        raise SlaveRefused(
            f"the slave's log ends at {reported}, beyond the end of this master's log at {max_offset}: it is a copy of "
            "another log, or this master has lost its end. Make the slave the master, or empty its store"
        )


def next_pieces(
    offset: int, end: int, *, file_bytes: int, piece_bytes_max: int, bytes_max: int
) -> list[tuple[int, int]]:
    """What to send next, as (offset, length), of what lies between two places in the log: at most `bytes_max`."""
    end = min(end, offset + bytes_max)
    pieces: list[tuple[int, int]] = []
    while offset < end:
        length = min(piece_bytes_max, end - offset, file_bytes - offset % file_bytes)
        pieces.append((offset, length))
        offset += length
    return pieces
