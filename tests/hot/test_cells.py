"""What a pull takes of a queue: both forms beside each other, and beside the rules spelt out."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skyrocketmq.hot.cells import CellLimits
from skyrocketmq.hot.layout import CELL_BYTES, CELL_FILLER_SIZE, CELL_UNIT_ADDRESS_MAX
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
    wanted: bytes | None = None  # what a filter says of each cell

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
        at = scan.scan(data, 0, None, self.wanted)
        while self.units and not scan.is_full and len(data) - at >= CELL_BYTES:
            code = self.cells[at // CELL_BYTES][2]
            assert code <= CELL_UNIT_ADDRESS_MAX
            at = scan.scan(data, at, code >> 32, self.wanted)
        assert at == len(self.cells) * CELL_BYTES or scan.is_full
        return scan


def what_a_pull_takes(pull: Pull) -> tuple[object, ...]:
    """The same as the scan says, by the rules one after the other, a cell at a time."""
    status = GetStatus.NO_MATCHED_MESSAGE
    found = b""
    taken = looked_at = skip_until = 0
    position = pull.log_end
    limits, disk_end = pull.limits, pull.log_end - pull.limits.memory_bytes
    for number, (position, size, tags_code) in enumerate(pull.cells):
        if position >= skip_until and size != CELL_FILLER_SIZE:
            count_max = limits.disk_count_max if position < disk_end else limits.count_max
            bytes_max = limits.disk_bytes_max if position < disk_end else limits.bytes_max
            if taken and (taken >= min(count_max, pull.count_max) or len(found) + size > bytes_max):
                break
            if pull.units and tags_code <= CELL_UNIT_ADDRESS_MAX:
                tags_code >>= 32
            start, end = position - position % FILE_BYTES, position + size
            if not matches(tags_code, pull.tags):
                pass
            elif (
                size <= 0
                or position < pull.log_begin
                or end > min(pull.log_end, start + FILE_BYTES)
                or start not in pull.files
            ):
                status = GetStatus.FOUND if taken else GetStatus.MESSAGE_WAS_REMOVING
                skip_until = start + FILE_BYTES
            elif pull.wanted is None or pull.wanted[number]:
                found += LOG[position:end]
                taken += 1
                status = GetStatus.FOUND
                skip_until = 0
        looked_at += 1
    return status, looked_at, found, taken, len(found), pull.log_end - position


def matches(tags_code: int, tags: frozenset[int] | None) -> bool:
    low = (tags_code + 2**31) % 2**32 - 2**31
    return tags is None or tags_code in tags or low in tags or tags_code <= CELL_UNIT_ADDRESS_MAX


def as_the_store_says(pull: Pull, scan: Any) -> tuple[object, ...]:
    status = GetStatus.FOUND if scan.taken else GetStatus.NO_MATCHED_MESSAGE
    if not scan.taken and scan.has_removed:
        status = GetStatus.MESSAGE_WAS_REMOVING
    gathered = scan.gather(memoryview(LOG), 0)
    return status, scan.looked_at, gathered, scan.taken, scan.taken_bytes, pull.log_end - scan.position


def everything(scan: Any) -> dict[str, object]:
    names = "taken taken_bytes looked_at position has_removed is_full runs places run_count begin end"
    return {name: getattr(scan, name) for name in names.split()}


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
@given(pull=pulls, verdicts=st.none() | st.binary(min_size=100, max_size=100))
def test_a_scan_takes_what_the_rules_say(cells: Any, pull: Pull, verdicts: bytes | None) -> None:
    pull.wanted = verdicts
    assert as_the_store_says(pull, pull.scan(cells)) == what_a_pull_takes(pull)


@both
@given(pull=pulls)
def test_units_of_the_extension_are_looked_up_by_the_caller(cells: Any, pull: Pull) -> None:
    pull.units, pull.tags = True, pull.tags or frozenset([UNIT >> 32, 1])
    assert as_the_store_says(pull, pull.scan(cells)) == what_a_pull_takes(pull)


@both
def test_verdicts_are_given_for_all_cells(cells: Any) -> None:
    scan = Pull([(0, 10, 0), (10, 10, 0)], wanted=b"\x00\x01").scan(cells)
    assert (scan.runs, scan.run_count, scan.begin, scan.end) == ([(10, 20)], 1, 10, 20)
    with pytest.raises(ValueError, match="for each cell"):
        Pull([(0, 10, 0), (10, 10, 0)], wanted=b"\x01").scan(cells)
    nothing = Pull([]).scan(cells)
    assert (nothing.run_count, nothing.begin, nothing.end) == (0, 0, 0)


@given(pull=pulls, units=st.booleans())
@example(pull=Pull([(2**63 - 1, 5, 0), (2**63 - 1, 5, 0), (0, 10, 0)]), units=False)
@example(pull=Pull([(-(2**63), 5, 0), (0, 10, 0)]), units=False)
@example(pull=Pull([(10, 5, 0), (2**63 - 1, 2**31 - 2, 0), (15, 5, 0)]), units=False)
def test_both_forms_find_the_same(pull: Pull, units: bool) -> None:
    pull.units = units
    pull.wanted = bytes(number % 3 for number in range(100)) if units else None
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
