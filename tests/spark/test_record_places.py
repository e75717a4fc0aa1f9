"""Places of records, by their sizes alone: found as one by one, whatever sizes follow each other."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="the pipeline needs pyarrow: pip install skyrocketmq[spark]")

from hypothesis import example, given
from hypothesis import strategies as st

from skyrocketmq.errors import CorruptRecord
from skyrocketmq.spark.record_places import places_in_answer, places_of_records
from skyrocketmq.wire.records import RECORD_BYTES_MIN

SMALL = RECORD_BYTES_MIN
SIZES = st.lists(st.tuples(st.integers(SMALL, SMALL + 3), st.integers(1, 9)), max_size=8)  # (size, how often in a row)


def records(sizes: list[tuple[int, int]]) -> tuple[bytes, list[int]]:
    data, places = b"", []
    for size, count in sizes:
        for _ in range(count):
            places.append(len(data))
            data += size.to_bytes(4, "big") + bytes(size - 4)
    return data, places


@given(SIZES)
@example([(SMALL, 4)])
@example([(SMALL, 5), (SMALL + 1, 1), (SMALL, 6)])
def test_every_record_is_found(sizes: list[tuple[int, int]]) -> None:
    data, expected = records(sizes)
    places, end = places_of_records(memoryview(data))
    assert (places.tolist(), end) == (expected, len(data))
    assert places_in_answer(data).tolist() == expected


@given(SIZES, st.integers(1, SMALL))
def test_a_record_that_is_cut_off_is_not_found_and_refused_in_an_answer(
    sizes: list[tuple[int, int]], missing: int
) -> None:
    data, expected = records([*sizes, (SMALL, 1)])
    cut = data[:-missing]
    places, end = places_of_records(cut)
    assert (places.tolist(), end) == (expected[:-1], expected[-1])
    if missing < SMALL:
        with pytest.raises(CorruptRecord, match=f"no record begins at byte {expected[-1]} of the answer"):
            places_in_answer(cut)


@pytest.mark.parametrize("size", [0, -1, SMALL - 1, 1 << 30])
def test_a_size_that_cannot_be_ends_the_walk(size: int) -> None:
    data, expected = records([(SMALL, 7)])
    damaged = data + size.to_bytes(4, "big", signed=True) + bytes(200)
    assert places_of_records(damaged)[0].tolist() == expected
    with pytest.raises(CorruptRecord, match=f"{size} bytes announced"):
        places_in_answer(damaged)
