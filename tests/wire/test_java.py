"""Java's hash and checksum."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.wire.java import body_crc, string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagABCDEFGHIJ", 208451487),
        ("中文", 646394),
        ("TopicTest#k1", 2746024),
        ("TopicTest#OrderID188", -1231271670),
        ("AaAa", 2031744),
        ("BBBB", 2031744),  # two tags with one hash
        ("😀", 55357 * 31 + 56832),  # two UTF-16 units
    ],
)
def test_a_text_hashes_as_in_java(text: str, expected: int) -> None:
    assert string_hash(text) == expected
    assert string_hash(text.encode()) == expected


def slow_hash(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


@given(st.text(max_size=200))
def test_every_text_hashes_by_the_definition(text: str) -> None:
    assert string_hash(text) == slow_hash(text)
    assert string_hash(text.encode()) == slow_hash(text)


def test_half_a_surrogate_pair_is_a_unit_like_any_other() -> None:
    assert string_hash("\ud83d") == 0xD83D


def test_bytes_that_are_not_utf8_still_have_a_hash() -> None:
    assert string_hash(b"\xff") == 0xFFFD


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 5000])
def test_the_checksum_is_crc32_without_its_sign_bit(size: int) -> None:
    data = bytes(at * 7 % 256 for at in range(size))
    assert body_crc(data) == zlib.crc32(data) & 0x7FFFFFFF
    assert body_crc(memoryview(data)) == zlib.crc32(data) & 0x7FFFFFFF


def test_the_checksum_of_a_known_body() -> None:
    assert body_crc(b"hello") == 0x3610A686
