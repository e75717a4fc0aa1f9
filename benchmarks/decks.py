"""A deck: the requests that the load generator sends, over and over, encoded beforehand.

Each frame says where in it something has to change whenever it leaves: the end of a unique id, the process in it, the
time at which a message is born. `c/load.c` reads the file and writes there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

FIRST_OPAQUE = 100_000_000  # the request number of the first frame; nine digits, so that JSON frames keep their length
PLACE_BITS = 24


class Change(IntEnum):
    """What is written at a place."""

    ID_UPPER = 0  # 12 hexadecimal digits that never come again in a connection: time 8, counter 4
    ID_LOWER = 1
    PROCESS = 2  # 4 digits, another process for each connection
    BORN = 3  # 13 decimal digits: milliseconds


# What stands in a frame where a change belongs. No other text of a frame contains one of them.
MARKS = {
    Change.ID_UPPER: b"<id--upper->",
    Change.ID_LOWER: b"<id--lower->",
    Change.PROCESS: b"<pr>",
    Change.BORN: b"<born------->",
}


@dataclass(frozen=True)
class Deck:
    """A file for the generator, and what it holds."""

    path: Path
    frame_count: int
    frame_bytes: int  # on average

    @classmethod
    def write(cls, path: Path, frames: Iterable[bytes]) -> Deck:
        """Frames with marks in them, whose request numbers go up from `FIRST_OPAQUE`."""
        count = total = 0
        with path.open("wb") as file:
            for frame in frames:
                places = _places(frame)
                file.write(struct.pack(f"=II{len(places)}I", len(places), len(frame), *places))
                file.write(frame + bytes(-len(frame) % 4))
                count += 1
                total += len(frame)
        return cls(path, count, total // max(count, 1))


def _places(frame: bytes) -> list[int]:
    places = []
    for change, mark in MARKS.items():
        at = frame.find(mark)
        while at >= 0:
            assert at < 1 << PLACE_BITS, "a frame this long has no room for the place"
            places.append(change << PLACE_BITS | at)
            at = frame.find(mark, at + len(mark))
    return places
