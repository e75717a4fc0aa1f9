"""The Bloom filter beside queue entries: Apache's sizes and places, and what it promises."""

from __future__ import annotations

import random

import pytest

from skyrocketmq.filters.bloom import BloomFilter, murmur_hash

DEFAULT = BloomFilter(error_percent=20, subscriber_count=32)


def test_the_default_filter_has_112_bits_and_three_places_for_each() -> None:
    assert (DEFAULT.bit_count, DEFAULT.byte_count, DEFAULT.place_count) == (112, 14, 3)
    assert DEFAULT.places("g#T") == (90, 68, 28)


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        (b"", 0),
        # Published values of the first half of MurmurHash3_x64_128 with seed 0.
        (b"hello", 0xCBD8A7B341BD9B02),
        (b"hello, world", 0x342FAC623A5EBC8E),
        (b"The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9),
    ],
)
def test_texts_are_hashed_by_murmur_3(text: bytes, hashed: int) -> None:
    assert murmur_hash(text) == hashed


def test_what_was_put_in_is_found_and_little_else() -> None:
    names = [f"group-{n}#Topic" for n in range(1000)]
    rng = random.Random(7)
    wrong = 0
    for _ in range(50):
        inside = set(rng.sample(names, 32))
        bits = 0
        for name in inside:
            bits |= DEFAULT.mask(DEFAULT.places(name))
        found = {name for name in names if bits & (mask := DEFAULT.mask(DEFAULT.places(name))) == mask}
        assert inside <= found
        wrong += len(found - inside)
    assert wrong / (50 * 968) < 0.30  # made for 20 %


def test_bits_are_bytes_with_the_lowest_first() -> None:
    assert DEFAULT.encode(1 << 0 | 1 << 9 | 1 << 111) == b"\x01\x02" + bytes(11) + b"\x80"
    assert DEFAULT.decode(b"\x01\x02" + bytes(12)) == 1 << 0 | 1 << 9
    assert DEFAULT.decode(bytes(8)) is None  # of another filter
