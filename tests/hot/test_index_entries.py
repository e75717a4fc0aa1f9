"""Keys into an index file: both forms beside each other, and beside the format."""

from __future__ import annotations

from struct import pack, unpack_from
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.hot.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, INDEX_SLOT_BYTES
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("index_entries", forms_of("index_entries"))

SLOTS = 7
MAPPED_BYTES = INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * SLOTS
NOW_MS = 1_700_000_000_000
Key = tuple[int, int, int]  # hash, log offset, store time


def pack_keys(keys: list[Key]) -> bytes:
    return b"".join(pack(">iqq", *key) for key in keys)


def mapped_with(slots: list[int]) -> bytearray:
    return bytearray(bytes(INDEX_HEADER_BYTES) + pack(f">{SLOTS}i", *slots))


int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
times = st.integers(NOW_MS - 5_000, NOW_MS + 10**13) | int64
keys = st.lists(st.tuples(st.integers(0, 50) | int32, int64, times), max_size=30)
slots = st.lists(st.integers(-1, 40) | int32, min_size=SLOTS, max_size=SLOTS)
firsts = st.integers(1, 20) | st.just(2**31 - 40)


@given(keys=keys, slots=slots, first=firsts, begin_ms=st.sampled_from([0, -1, 1, NOW_MS]) | int64)
def test_both_forms_write_the_same(keys: list[Key], slots: list[int], first: int, begin_ms: int) -> None:
    results = []
    for form in (plain_form("index_entries"), compiled_form("index_entries")):
        mapped = mapped_with(slots)
        entries, used = form.put_keys(
            memoryview(mapped), pack_keys(keys), first=first, slot_count=SLOTS, begin_ms=begin_ms
        )
        after = bytes(mapped)
        form.take_back_keys(mapped, entries, slot_count=SLOTS)
        results.append((entries, used, after, bytes(mapped)))
    assert results[0] == results[1]


@both
@given(
    batches=st.lists(st.lists(st.integers(0, 12), max_size=12), max_size=4),
    wild=st.lists(st.tuples(st.integers(0, SLOTS - 1), st.just(0) | st.integers(60, 2**31 - 1)), max_size=3),
)
def test_every_key_is_found_from_its_slot_on_the_newest_first(
    index_entries: Any, batches: list[list[int]], wild: list[tuple[int, int]]
) -> None:
    """Slots that a crash left pointing nowhere cost what they pointed to, and nothing that comes later."""
    mapped = mapped_with([0] * SLOTS)
    for slot, value in wild:
        at = INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * slot
        mapped[at : at + INDEX_SLOT_BYTES] = pack(">i", value)
    written, number = b"", 1
    for batch in batches:
        packed = pack_keys([(key, 100 * (number + index), NOW_MS) for index, key in enumerate(batch)])
        entries, _ = index_entries.put_keys(mapped, packed, first=number, slot_count=SLOTS, begin_ms=NOW_MS)
        written, number = written + entries, number + len(batch)
    order = [key for batch in batches for key in batch]
    for key in set(order):
        newest_first = [100 * at for at in range(len(order), 0, -1) if order[at - 1] == key]
        assert found(bytes(mapped), written, key) == newest_first


def found(mapped: bytes, entries: bytes, key: int) -> list[int]:
    """The log offsets of a key, read as the format says it."""
    offsets = []
    (number,) = unpack_from(">i", mapped, INDEX_HEADER_BYTES + INDEX_SLOT_BYTES * (key % SLOTS))
    while number:
        key_hash, log_offset, _, number = unpack_from(">iqii", entries, INDEX_ENTRY_BYTES * (number - 1))
        if key_hash == key:
            offsets.append(log_offset)
    return offsets


@both
@given(key=st.binary(max_size=40), start=int32, log_offset=int64, store_ms=int64)
def test_a_packed_key_is_its_hash_place_and_time(
    index_entries: Any, key: bytes, start: int, log_offset: int, store_ms: int
) -> None:
    expected = pack(">iqq", plain_form("hashes").key_hash(key, start), log_offset, store_ms)
    assert index_entries.pack_key(key, start, log_offset, store_ms) == expected


@both
@given(slots=slots)
def test_no_entry_leads_to_one_that_is_not_older(index_entries: Any, slots: list[int]) -> None:
    mapped = mapped_with(slots)
    many = [(number % 11, number, NOW_MS) for number in range(40)]
    entries, _ = index_entries.put_keys(mapped, pack_keys(many), first=5, slot_count=SLOTS, begin_ms=NOW_MS)
    for index in range(40):
        previous = int.from_bytes(entries[index * INDEX_ENTRY_BYTES + 16 :][:4], "big", signed=True)
        assert 0 <= previous < 5 + index


@both
@given(keys=keys, numbers=st.lists(st.integers(0, 4), min_size=SLOTS, max_size=SLOTS))
def test_what_is_taken_back_was_never_there(index_entries: Any, keys: list[Key], numbers: list[int]) -> None:
    mapped = mapped_with(numbers)
    entries, _ = index_entries.put_keys(mapped, pack_keys(keys), first=5, slot_count=SLOTS, begin_ms=NOW_MS)
    index_entries.take_back_keys(mapped, entries, slot_count=SLOTS)
    assert mapped == mapped_with(numbers)


@both
@pytest.mark.parametrize(
    ("mapped_bytes", "keys", "first", "slot_count"),
    [
        (MAPPED_BYTES - 1, bytes(20), 1, SLOTS),
        (MAPPED_BYTES, bytes(20), 1, SLOTS + 1),
        (MAPPED_BYTES, bytes(20), 1, 2**61),
        (MAPPED_BYTES, bytes(20), 1, 0),
        (MAPPED_BYTES, bytes(20), 1, -1),
        (MAPPED_BYTES, bytes(19), 1, SLOTS),
        (MAPPED_BYTES, bytes(20), 0, SLOTS),
        (MAPPED_BYTES, bytes(40), 2**31 - 2, SLOTS),
        (0, bytes(20), 1, 1),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    index_entries: Any, mapped_bytes: int, keys: bytes, first: int, slot_count: int
) -> None:
    mapped = bytearray(b"\x01" * mapped_bytes)
    with pytest.raises(ValueError):
        index_entries.put_keys(mapped, keys, first=first, slot_count=slot_count, begin_ms=NOW_MS)
    assert mapped == b"\x01" * mapped_bytes


@both
@pytest.mark.parametrize(
    ("entries", "slot_count"), [(bytes(19), SLOTS), (bytes(20), SLOTS + 1), (bytes(20), 0), (bytes(20), -SLOTS)]
)
def test_entries_that_do_not_fit_are_not_taken_back(index_entries: Any, entries: bytes, slot_count: int) -> None:
    mapped = bytearray(b"\x01" * MAPPED_BYTES)
    with pytest.raises(ValueError):
        index_entries.take_back_keys(mapped, entries, slot_count=slot_count)
    assert mapped == b"\x01" * MAPPED_BYTES


@both
def test_what_cannot_be_written_is_refused(index_entries: Any) -> None:
    with pytest.raises((TypeError, BufferError)):
        index_entries.put_keys(bytes(MAPPED_BYTES), bytes(20), first=1, slot_count=SLOTS, begin_ms=NOW_MS)
