"""Offset ids and unique ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.ids import (
    UniqueId,
    UniqueIdGenerator,
    decode_offset_id,
    decode_unique_id,
    encode_offset_id,
    month_bounds_ms,
    unique_id_time_ms,
)

BROKER = bytes.fromhex("0a00000200002a9f")
BROKER_V6 = bytes.fromhex("20010db8000000000000000000000001 00002a9f")
CHINA = timezone(timedelta(hours=8))


def ms(*moment: int, tz: timezone = UTC) -> int:
    return int(datetime(*moment, tzinfo=tz).timestamp()) * 1000  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("host", "offset", "text"),
    [
        (BROKER, 3, "0A00000200002A9F0000000000000003"),
        (BROKER, 4096, "0A00000200002A9F0000000000001000"),
        (BROKER_V6, 255, "20010DB800000000000000000000000100002A9F00000000000000FF"),
    ],
)
def test_an_offset_id_is_address_and_place(host: bytes, offset: int, text: str) -> None:
    assert encode_offset_id(host, offset) == text
    assert decode_offset_id(text) == (host, offset)
    assert decode_offset_id(text.lower()) == (host, offset)


@given(st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20), st.integers(-(2**63), 2**63 - 1))
def test_every_offset_id_is_read_back(host: bytes, offset: int) -> None:
    assert decode_offset_id(encode_offset_id(host, offset)) == (host, offset)


@given(st.text(max_size=60) | st.text(alphabet="0123456789abcdefABCDEFx ٣", min_size=30, max_size=58))
def test_any_text_is_an_id_or_one_error(text: str) -> None:
    for decode in (decode_offset_id, decode_unique_id):
        try:
            decode(text)
        except ProtocolError:
            assert len(text) not in (32, 56) or not set(text) <= set("0123456789abcdefABCDEF")
        else:
            assert len(text) in (32, 56)


def test_a_unique_id_holds_address_process_time_and_counter() -> None:
    generator = UniqueIdGenerator(ip=bytes([10, 0, 0, 1]), process_id=0x1_2345, constant=0x18B4AAC2)
    now = ms(2024, 3, 1, 0, 0, 1)
    assert generator.next_id(now) == "0A000001234518B4AAC2000003E80000"
    assert generator.next_id(now + 5) == "0A000001234518B4AAC2000003ED0001"
    assert decode_unique_id(generator.next_id(now)) == UniqueId(bytes([10, 0, 0, 1]), 0x2345, 0x18B4AAC2, 1000, 2)


def test_an_ipv6_unique_id_is_longer() -> None:
    generator = UniqueIdGenerator(ip=BROKER_V6[:16], process_id=1, constant=2)
    made = generator.next_id(ms(2024, 3, 1))
    assert len(made) == 56
    assert decode_unique_id(made) == UniqueId(BROKER_V6[:16], 1, 2, 0, 0)


def test_an_id_made_by_apaches_client_is_made_again() -> None:
    made, now_ms = "FD000000000000000000000000000002549930946E094CF5016E0000", 1_794_782_325_102
    generator = UniqueIdGenerator(ip=bytes.fromhex(made[:32]), process_id=0x5499, constant=0x30946E09)
    assert generator.next_id(now_ms) == made
    assert unique_id_time_ms(made, now_ms=now_ms + 1) == now_ms
    assert unique_id_time_ms(made, now_ms=now_ms) == 1_792_103_925_102  # "not yet past" counts as last month's


def test_the_month_begins_at_midnight_where_the_producer_lives() -> None:
    now = ms(2024, 2, 29, 23, 0)  # already March in China
    assert month_bounds_ms(now) == (ms(2024, 2, 1), ms(2024, 3, 1))
    assert month_bounds_ms(now, CHINA) == (ms(2024, 3, 1, tz=CHINA), ms(2024, 4, 1, tz=CHINA))
    assert month_bounds_ms(ms(2023, 12, 31)) == (ms(2023, 12, 1), ms(2024, 1, 1))


def test_the_generator_starts_again_with_the_next_month() -> None:
    generator = UniqueIdGenerator(ip=bytes(4), process_id=1, constant=2)
    assert decode_unique_id(generator.next_id(ms(2024, 3, 31, 23, 59, 59))).month_ms == 31 * 86_400_000 - 1000
    assert decode_unique_id(generator.next_id(ms(2024, 4, 1, 0, 0, 1))).month_ms == 1000


def test_a_clock_set_back_a_little_counts_as_the_start_of_the_month() -> None:
    generator = UniqueIdGenerator(ip=bytes(4), process_id=1, constant=2)
    generator.next_id(ms(2024, 4, 1))
    assert decode_unique_id(generator.next_id(ms(2024, 4, 1) - 999_999)).month_ms == 0


def test_the_counter_runs_through_its_16_bits() -> None:
    generator = UniqueIdGenerator(ip=bytes(4), process_id=1, constant=2)
    now = ms(2024, 4, 1)
    assert len({generator.next_id(now) for _ in range(65_536)}) == 65_536
    assert decode_unique_id(generator.next_id(now)).counter == 0


@pytest.mark.parametrize("tz", [UTC, CHINA])
def test_the_time_of_an_id_is_found_again(tz: timezone) -> None:
    generator = UniqueIdGenerator(ip=bytes(4), process_id=1, constant=2, timezone=tz)
    made_at = ms(2024, 3, 15, 12)
    made = generator.next_id(made_at)
    assert unique_id_time_ms(made, now_ms=made_at + 1, timezone=tz) == made_at
    assert unique_id_time_ms(made, now_ms=ms(2024, 3, 31), timezone=tz) == made_at


def test_an_id_of_last_month_is_not_taken_for_the_future() -> None:
    generator = UniqueIdGenerator(ip=bytes(4), process_id=1, constant=2)
    made = generator.next_id(ms(2024, 3, 20))
    assert unique_id_time_ms(made, now_ms=ms(2024, 4, 5)) == ms(2024, 3, 20)
