"""Properties of a message, between text and pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.wire.properties import (
    decode_properties,
    encode_properties,
    find_property,
    join_properties,
    split_properties,
    without_property,
)

names = st.text(min_size=1, max_size=20).filter(lambda name: not set(name) & {"\x01", "\x02"})
values = st.text(min_size=1, max_size=30).filter(lambda value: "\x02" not in value)
chaos = st.binary(max_size=120) | st.text(alphabet="AB\x01\x02中", max_size=60).map(str.encode)


def test_pairs_are_joined_without_a_separator_at_the_end() -> None:
    assert encode_properties({"TAGS": "TagA", "KEYS": "k1"}) == b"TAGS\x01TagA\x02KEYS\x01k1"
    assert encode_properties({"TAGS": None, "KEYS": "k1"}) == b"KEYS\x01k1"
    assert encode_properties({}) == b""


def test_an_empty_value_is_written_and_not_read() -> None:
    assert encode_properties({"A": "", "B": "2"}) == b"A\x01\x02B\x012"
    assert decode_properties(b"A\x01\x02B\x012") == {"B": "2"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"A\x011\x02", {"A": "1"}),
        (b"\x02\x02A\x011", {"A": "1"}),
        (b"A\x011\x02A\x012", {"A": "2"}),
        (b"\x01value\x02name\x01\x02bare\x02A\x011", {"A": "1"}),
        (b"A\x01x\x01y", {"A": "x\x01y"}),
        (b"A\x01\xff", {"A": "�"}),
    ],
)
def test_a_reader_drops_what_is_no_pair(data: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(data) == expected


def test_text_is_read_like_bytes() -> None:
    assert decode_properties("A\x01中\x02B\x012") == {"A": "中", "B": "2"}


@pytest.mark.parametrize("pairs", [{"": "x"}, {"a\x01b": "x"}, {"a\x02b": "x"}, {"a": "x\x02y"}, {"a": "x" * 32_766}])
def test_what_could_not_be_read_back_is_not_written(pairs: dict[str, str]) -> None:
    with pytest.raises(IllegalArgument):
        encode_properties(pairs)


def test_the_longest_text_fits_exactly() -> None:
    assert len(encode_properties({"a": "x" * 32_765})) == 32_767


@given(st.dictionaries(names, values, max_size=8))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    data = encode_properties(properties)
    assert decode_properties(data) == properties
    assert decode_properties(data + b"\x02") == properties


@given(chaos)
def test_any_bytes_can_be_read_and_the_result_written(data: bytes) -> None:
    properties = decode_properties(data)
    assert decode_properties(encode_properties(properties)) == properties


@given(st.dictionaries(names, values, max_size=8))
def test_splitting_gives_the_same_pairs_undecoded(properties: dict[str, str]) -> None:
    expected = {name.encode(): value.encode() for name, value in properties.items()}
    assert split_properties(encode_properties(properties)) == expected


@given(chaos)
def test_splitting_any_bytes_agrees_with_finding_each(data: bytes) -> None:
    assert all(find_property(data, name) == value for name, value in split_properties(data).items())


@given(chaos, st.sampled_from([b"A", b"B", b"AB"]))
def test_finding_one_property_agrees_with_reading_all(data: bytes, name: bytes) -> None:
    found = find_property(data, name)
    expected = decode_properties(data).get(name.decode())
    assert (None if found is None else found.decode("utf-8", "replace")) == expected


@given(chaos, st.sampled_from([b"A", b"B", b"AB"]))
def test_a_removed_property_is_gone_and_the_others_stay(data: bytes, name: bytes) -> None:
    expected = {key: value for key, value in decode_properties(data).items() if key != name.decode()}
    assert decode_properties(without_property(data, name)) == expected


@given(chaos, chaos)
def test_joined_properties_are_both_with_the_second_winning(first: bytes, second: bytes) -> None:
    assert decode_properties(join_properties(first, second)) == decode_properties(first) | decode_properties(second)


def test_joining_adds_one_separator_where_both_have_something() -> None:
    assert join_properties(b"A\x011", b"B\x012") == b"A\x011\x02B\x012"
    assert join_properties(b"A\x011\x02", b"B\x012") == b"A\x011\x02B\x012"
    assert join_properties(b"", b"B\x012") == b"B\x012"
    assert join_properties(b"A\x011", b"") == b"A\x011"
