"""What a pull takes of a queue: both forms beside each other, and beside the reading of the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skyrocketmq.hot.cells import CellLimits
from skyrocketmq.hot.layout import CELL_BYTES, CELL_FILLER_SIZE, CELL_UNIT_ADDRESS_MAX
from skyrocketmq.store.cold_reads import run_blocking
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.store.intact import BadRecords
from skyrocketmq.store.queue_extension import ExtensionUnit
from skyrocketmq.store.reading import read_queue
from skyrocketmq.store.statuses import GetStatus
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("cells", forms_of("cells"))

FILE_BYTES = 1_000
FILES = 6
LOG = bytes(number % 251 for number in range(FILE_BYTES * FILES))
UNIT = CELL_UNIT_ADDRESS_MAX - 5
Cell = tuple[int, int, int]


def pack_cells(cells: list[Cell]) -> bytes:
    return b"".join(pack(">qiq", *cell) for cell in cells)


def limits_of(
    bytes_max: int = 10_000,
    count_max: int = 32,
    disk_bytes_max: int = 500,
    disk_count_max: int = 8,
    memory_bytes: int = 2_000,
) -> CellLimits:
    return CellLimits(
        bytes_max=bytes_max,
        count_max=count_max,
        disk_bytes_max=disk_bytes_max,
        disk_count_max=disk_count_max,
        memory_bytes=memory_bytes,
        file_bytes=FILE_BYTES,
    )


@dataclass
class Pull:
    """Everything that decides what a pull takes."""

    cells: list[Cell]
    count_max: int = 32
    limits: CellLimits = field(default_factory=limits_of)
    log_begin: int = 0
    log_end: int = len(LOG)
    files: frozenset[int] = frozenset(range(0, len(LOG), FILE_BYTES))
    tags: frozenset[int] | None = None
    units: bool = False  # a unit's tags code is its address, divided by 2^32
    rest: int = 0  # bytes after the last whole cell

    def scan(self, form: Any, data: bytes | memoryview | bytearray | None = None) -> Any:
        """A finished scan in one of the forms."""
        limits = form.CellLimits(
            bytes_max=self.limits.bytes_max,
            count_max=self.limits.count_max,
            disk_bytes_max=self.limits.disk_bytes_max,
            disk_count_max=self.limits.disk_count_max,
            memory_bytes=self.limits.memory_bytes,
            file_bytes=FILE_BYTES,
        )
        scan = form.CellScan(
            limits,
            self.count_max,
            log_begin=self.log_begin,
            log_end=self.log_end,
            own_from=2_500,
            files=self.files,
            tags=None if self.tags is None else form.TagCodes(self.tags),
            stops_at_units=self.units,
        )
        data = pack_cells(self.cells) + bytes(self.rest) if data is None else data
        at = scan.scan(data)
        while self.units and not scan.is_full and len(data) - at >= CELL_BYTES:
            code = self.cells[at // CELL_BYTES][2]
            assert code <= CELL_UNIT_ADDRESS_MAX
            if code % 3:
                at = scan.scan(data, at, unit_code=code >> 32)
            else:
                scan.pass_by()
                at = scan.scan(data, at + CELL_BYTES)
        assert at == len(self.cells) * CELL_BYTES or scan.is_full
        return scan


class OldLog:
    """A log that `read_queue` can read, of which files are missing as the pull says."""

    file_bytes = FILE_BYTES
    own_from = 0

    def __init__(self, pull: Pull) -> None:
        self.min_offset, self.max_offset = pull.log_begin, pull.log_end
        self.bad_records = BadRecords()
        self._files = dict.fromkeys(pull.files)

    has = CommitLog.has
    next_file_start = CommitLog.next_file_start

    def peek(self, position: int, size: int) -> bytes:
        return LOG[position : position + size]


class OldQueue:
    """The queue of these cells."""

    min_offset = 0

    def __init__(self, cells: list[Cell]) -> None:
        self._cells = cells
        self.max_offset = len(cells)

    def peek_cells(self, offset: int, count: int) -> bytes:
        return pack_cells(self._cells[offset : offset + count])


def what_the_store_reads(pull: Pull) -> tuple[object, ...]:
    """Status, offset, bytes, counts and distance as `store.reading` has them where it looks into each record."""
    is_filtered = pull.tags is not None
    found = run_blocking(
        read_queue(
            cast(CommitLog, OldLog(pull)),
            cast(ConsumeQueue, OldQueue(pull.cells)),
            0,
            pull.count_max,
            limits=pull.limits,
            tag_codes=pull.tags,
            matches=lambda record: True,
            find_unit=(lambda code: ExtensionUnit(code >> 32, code, b"")) if pull.units else None,
            may_match=(lambda unit: unit.store_ms % 3 != 0) if pull.units and is_filtered else None,
        )
    )
    return found.status, found.next_offset, found.joined(), found.count, found.byte_count, found.behind_bytes


def as_the_store_says(pull: Pull, scan: Any) -> tuple[object, ...]:
    status = GetStatus.FOUND if scan.taken else GetStatus.NO_MATCHED_MESSAGE
    if not scan.taken and scan.has_removed:
        status = GetStatus.MESSAGE_WAS_REMOVING
    gathered = scan.gather(memoryview(LOG), 0)
    return status, scan.looked_at, gathered, scan.taken, scan.taken_bytes, pull.log_end - scan.position


def everything(scan: Any) -> dict[str, object]:
    names = ("taken", "taken_bytes", "looked_at", "position", "has_removed", "is_full", "runs", "places")
    return {name: getattr(scan, name) for name in names}


int64 = st.integers(-(2**63), 2**63 - 1)
codes = st.sampled_from([0, 1, 2, -3, 2**31 - 1, -(2**31), 2**32 + 1, UNIT, UNIT - 1, UNIT - 2]) | int64
positions = st.integers(0, len(LOG)) | st.sampled_from([-1, -(2**63), 2**63 - 1, 2**63 - FILE_BYTES]) | int64
sizes = st.integers(1, 400) | st.sampled_from([0, -1, CELL_FILLER_SIZE, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)


@st.composite
def rows(draw: st.DrawFn) -> list[Cell]:
    """Cells as a queue has them: messages that follow each other or leave gaps, fillers, and some that are damaged."""
    found: list[Cell] = []
    at = draw(st.integers(0, 1_500))
    for _ in range(draw(st.integers(0, 40))):
        if draw(st.integers(0, 9)) == 0:
            found.append((draw(positions), draw(sizes), draw(codes)))
            continue
        size = draw(st.integers(1, 200))
        at += draw(st.sampled_from([0, 0, 0, 7, 300]))
        if at % FILE_BYTES + size > FILE_BYTES:
            at += FILE_BYTES - at % FILE_BYTES
        found.append((at, size, draw(codes)))
        at += size
    return found


limits = st.builds(
    limits_of,
    st.integers(0, 4_000),
    st.integers(0, 40),
    st.integers(0, 2_000),
    st.integers(0, 20),
    st.integers(0, 7_000),
)
pulls = st.builds(
    Pull,
    rows(),
    count_max=st.integers(-1, 40),
    limits=limits,
    log_begin=st.integers(0, 3_000),
    log_end=st.integers(3_000, len(LOG)),
    files=st.frozensets(st.sampled_from(range(0, len(LOG), FILE_BYTES)), min_size=3),
    tags=st.none() | st.frozensets(codes | st.integers(-(2**70), 2**70), max_size=12),
    rest=st.integers(0, CELL_BYTES - 1),
)


@both
@given(pull=pulls)
def test_a_scan_takes_what_the_store_reads(cells: Any, pull: Pull) -> None:
    # The store reads fewer cells for a pull without a filter: as many as are asked for.
    if pull.tags is None:
        pull.cells = pull.cells[: max(1, pull.count_max)]
    if pull.cells:
        assert as_the_store_says(pull, pull.scan(cells)) == what_the_store_reads(pull)


@both
@given(pull=pulls)
def test_units_of_the_extension_are_looked_up_by_the_caller(cells: Any, pull: Pull) -> None:
    pull.units, pull.tags = True, pull.tags or frozenset([UNIT >> 32, 1])
    if pull.cells:
        assert as_the_store_says(pull, pull.scan(cells)) == what_the_store_reads(pull)


@given(pull=pulls, units=st.booleans())
@example(pull=Pull([(2**63 - 1, 5, 0), (2**63 - 1, 5, 0), (0, 10, 0)]), units=False)
@example(pull=Pull([(-(2**63), 5, 0), (0, 10, 0)]), units=False)
@example(pull=Pull([(10, 5, 0), (2**63 - 1, 2**31 - 2, 0), (15, 5, 0)]), units=False)
def test_both_forms_find_the_same(pull: Pull, units: bool) -> None:
    pull.units = units
    plain, compiled = pull.scan(plain_form("cells")), pull.scan(compiled_form("cells"))
    assert everything(plain) == everything(compiled)
    for view, base in ((LOG, 0), (LOG[500:], 500), (LOG[:2_000], 0), (b"", 0), (LOG, 700)):
        assert plain.gather(view, base) == compiled.gather(view, base)


@both
@given(data=st.binary(max_size=200), count_max=st.integers(-(2**31), 2**31 - 1))
def test_any_bytes_are_cells(cells: Any, data: bytes, count_max: int) -> None:
    scan = Pull([(0, 0, 0)] * (len(data) // CELL_BYTES), count_max).scan(cells, data)
    assert all(0 <= begin < end <= len(LOG) for begin, end in scan.runs)


@both
@given(codes=st.frozensets(int64, max_size=20), asked=int64)
def test_a_tag_matches_by_its_low_bits_and_a_unit_always(cells: Any, codes: frozenset[int], asked: int) -> None:
    tags = cells.TagCodes(codes)
    low = asked % 2**32 - (2**32 if asked % 2**32 >= 2**31 else 0)
    assert tags.matches(asked) == (asked in codes or low in codes or asked < -(2**31))


@both
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_cells_may_be_bytes_of_any_kind(cells: Any, kind: Any) -> None:
    pull = Pull([(0, 10, 0), (10, 5, 0), (20, 5, 0)])
    scan = pull.scan(cells, kind(pack_cells(pull.cells)))
    assert scan.runs == [(0, 15), (20, 25)]
    assert scan.places == [(0, 10), (10, 5), (20, 5)]
    assert scan.gather(kind(LOG), 0) == LOG[:15] + LOG[20:25]


@both
def test_records_of_two_files_are_two_runs(cells: Any) -> None:
    assert Pull([(900, 100, 0), (1_000, 50, 0)]).scan(cells).runs == [(900, 1_000), (1_000, 1_050)]


@both
def test_places_are_kept_only_of_what_an_earlier_process_wrote(cells: Any) -> None:
    assert Pull([(2_500, 10, 0)]).scan(cells).places == []
    assert Pull([(2_499, 1, 0), (2_500, 10, 0)]).scan(cells).places == [(2_499, 1), (2_500, 10)]
