"""Which messages a pull takes of a queue, read from the queue's cells.

Cost: 0.4 us a pull and 15 ns a cell compiled, 0.5 us a cell in plain Python (`python -m benchmarks hot`).

Rule 1: nothing here reads a file. The caller brings cells, says what the log has, and fetches the runs that were found.
Rule 2: cells come from a disk. Whatever they hold, a scan gives a value; it never takes what the log does not have.
Rule 3: a message whose log file is gone is stepped over, together with all others of that file.
Rule 4: numbers given to a scan fit in 64 bits; only cells may hold anything.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from struct import Struct
from typing import TypeAlias

from skyrocketmq.hot.layout import CELL_BYTES, CELL_FILLER_SIZE, CELL_UNIT_ADDRESS_MAX

__all__ = ["CellLimits", "CellScan", "TagCodes"]

ReadableBytes: TypeAlias = bytes | bytearray | memoryview
_CELL = Struct(">qiq")


class TagCodes:
    """The hashes of the tags that a consumer wants; made once for a subscription."""

    __slots__ = ("_codes",)

    def __init__(self, codes: Iterable[int]) -> None:
        self._codes = frozenset(codes)

    def matches(self, tags_code: int) -> bool:
        """Whether a message with this code may be wanted.

        Codes that are no plain hash: the address of a unit may stand for any tags, of a time only the low 32 bits are
        compared.
        """
        if tags_code in self._codes or tags_code <= CELL_UNIT_ADDRESS_MAX:
            return True
        return (tags_code + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000 in self._codes


class CellLimits:
    """How much one pull gets, from memory and from the disk; made once for a store.

    Messages further than `memory_bytes` before the end of the log are taken to be on the disk.
    """

    __slots__ = ("bytes_max", "count_max", "disk_bytes_max", "disk_count_max", "file_bytes", "memory_bytes")

    def __init__(
        self,
        *,
        bytes_max: int,
        count_max: int,
        disk_bytes_max: int,
        disk_count_max: int,
        memory_bytes: int,
        file_bytes: int,
    ) -> None:
        self.bytes_max = bytes_max
        self.count_max = count_max
        self.disk_bytes_max = disk_bytes_max
        self.disk_count_max = disk_count_max
        self.memory_bytes = memory_bytes
        self.file_bytes = file_bytes  # of the log


class CellScan:
    """One pull's way through the cells. `runs` are then the [begin, end) of the log to be given away, in order.

    There are `run_count` of them; the first begins at `begin` and the last ends at `end`. The log has what lies from
    `log_begin` to `log_end` in one of the `files`, named by where they begin. With `stops_at_units` a scan stops at
    each cell that holds the address of a unit. If the first message taken lies before `own_from`, `places` are the
    (log offset, size) of all that are taken; else there are none.
    """

    __slots__ = (
        "_count_max",
        "_disk_end",
        "_files",
        "_limits",
        "_log_begin",
        "_log_end",
        "_own_from",
        "_run_end",
        "_skip_until",
        "_stops_at_units",
        "_tags",
        "has_removed",
        "is_full",
        "looked_at",
        "places",
        "position",
        "runs",
        "taken",
        "taken_bytes",
    )

    def __init__(
        self,
        limits: CellLimits,
        count_max: int,
        *,
        log_begin: int,
        log_end: int,
        own_from: int,
        files: Container[int],
        tags: TagCodes | None = None,
        stops_at_units: bool = False,
    ) -> None:
        self._limits = limits
        self._count_max = count_max
        self._log_begin = log_begin
        self._log_end = log_end
        self._disk_end = log_end - limits.memory_bytes
        self._own_from = own_from
        self._files = files
        self._tags = tags
        self._stops_at_units = stops_at_units
        self._run_end = -1
        self._skip_until = 0
        self.taken = 0
        self.taken_bytes = 0
        self.looked_at = 0  # cells, taken or not
        self.position = log_end  # of the last cell that was read, be it the one that was too much
        self.has_removed = False  # of a message that matched the log file is gone
        self.is_full = False
        self.runs: list[tuple[int, int]] = []
        self.places: list[tuple[int, int]] = []

    @property
    def run_count(self) -> int:
        return len(self.runs)

    @property
    def begin(self) -> int:
        """0 if nothing is taken."""
        return self.runs[0][0] if self.runs else 0

    @property
    def end(self) -> int:
        """0 if nothing is taken."""
        return self.runs[-1][1] if self.runs else 0

    def scan(
        self,
        cells: ReadableBytes,
        at: int = 0,
        unit_code: int | None = None,
        wanted: bytes | bytearray | None = None,
    ) -> int:
        """Go through cells from byte `at` on; returns the byte where it stopped.

        That is the end of the cells, or one that is too much (`is_full`), or one with the address of a unit. Then the
        caller looks up the unit and goes on at the same byte with its `unit_code`.

        `wanted` has a byte for each of the cells, from byte 0 on; where it is 0, a message that the log has is not
        taken.
        """
        if wanted is not None and len(wanted) < len(cells) // CELL_BYTES:
            raise ValueError("there is a byte for each cell")
        # Everything in local variables: plain Python spends its time on attributes.
        limits, count_max, disk_end, tags = self._limits, self._count_max, self._disk_end, self._tags
        file_bytes, log_begin, log_end, files = limits.file_bytes, self._log_begin, self._log_end, self._files
        bytes_max, disk_bytes_max = limits.bytes_max, limits.disk_bytes_max
        count_max, disk_count_max = min(count_max, limits.count_max), min(count_max, limits.disk_count_max)
        run_end, skip_until, runs, places = self._run_end, self._skip_until, self.runs, self.places
        taken, taken_bytes, looked_at, position = self.taken, self.taken_bytes, self.looked_at, self.position
        count = max(0, len(cells) - at) // CELL_BYTES
        stop = at + count * CELL_BYTES
        for index, (position, size, tags_code) in enumerate(_CELL.iter_unpack(memoryview(cells)[at:stop])):
            if position < skip_until or size == CELL_FILLER_SIZE:
                continue
            if taken and (
                taken >= disk_count_max or taken_bytes + size > disk_bytes_max
                if position < disk_end
                else taken >= count_max or taken_bytes + size > bytes_max
            ):
                self.is_full = True
                count = index
                break
            if unit_code is not None:
                tags_code, unit_code = unit_code, None
            elif tags_code <= CELL_UNIT_ADDRESS_MAX and self._stops_at_units:
                count = index
                break
            if tags is not None and not tags.matches(tags_code):
                continue
            start, end = position - position % file_bytes, position + size
            if not (log_begin <= position < end <= log_end and end <= start + file_bytes and start in files):
                self.has_removed = True
                skip_until = start + file_bytes
                continue
            if wanted is not None and not wanted[at // CELL_BYTES + index]:
                continue
            if position == run_end != start:
                runs[-1] = (runs[-1][0], end)
            else:
                runs.append((position, end))
            if places or (not taken and position < self._own_from):
                places.append((position, size))
            run_end = end
            skip_until = 0
            taken += 1
            taken_bytes += size
        self._run_end, self._skip_until = run_end, skip_until
        self.taken, self.taken_bytes, self.looked_at, self.position = taken, taken_bytes, looked_at + count, position
        return at + count * CELL_BYTES

    def gather(self, view: ReadableBytes, base: int) -> bytes | None:
        """All runs in one piece of bytes, out of a view that begins at log offset `base`; None if it lacks any."""
        if any(begin < base or end - base > len(view) for begin, end in self.runs):
            return None
        return b"".join([view[begin - base : end - base] for begin, end in self.runs])
