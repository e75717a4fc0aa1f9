"""Batch bodies, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import IllegalArgument, ProtocolError
from skyrocketmq.wire.batches import decode_batch, encode_batch
from skyrocketmq.wire.properties import encode_properties

TWO = bytes.fromhex(
    "00000033 00000000 00000000 00000000 00000002 6231"
    "001b 4b455953014b31 02 5741495401 74727565 02 5441475301 54616741"
    "00000021 00000000 00000000 00000000 00000002 6232 0009 5741495401 74727565"
)

entries = st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=100), st.binary(max_size=100))


def test_a_batch_is_written_as_apache_writes_it() -> None:
    first = encode_properties({"KEYS": "K1", "WAIT": "true", "TAGS": "TagA"})
    second = encode_properties({"WAIT": "true"})
    assert encode_batch([(0, b"b1", first), (0, b"b2", second)]) == TWO
    assert decode_batch(TWO) == [(0, b"b1", first), (0, b"b2", second)]


@given(st.lists(entries, max_size=6))
def test_what_is_written_is_read_back(batch: list[tuple[int, bytes, bytes]]) -> None:
    assert decode_batch(encode_batch(batch)) == batch


def test_total_magic_and_checksum_are_not_believed() -> None:
    assert decode_batch(b"\xff" * 12 + TWO[12:]) == decode_batch(TWO)


@pytest.mark.parametrize("kept", [at for at in range(1, len(TWO)) if at != 51])
def test_a_batch_cut_inside_an_entry_is_refused(kept: int) -> None:
    with pytest.raises(ProtocolError):
        decode_batch(TWO[:kept])


@pytest.mark.parametrize("at", [16, 17, 18, 22, 23])
def test_a_length_that_leads_out_of_the_batch_is_refused(at: int) -> None:
    with pytest.raises(ProtocolError):
        decode_batch(TWO[:at] + b"\xf0" + TWO[at + 1 :])


def test_properties_that_no_record_could_hold_are_refused() -> None:
    with pytest.raises(IllegalArgument, match="32768"):
        encode_batch([(0, b"x", b"p" * 32_768)])


@given(st.binary(max_size=200), st.integers(0, 80))
def test_any_bytes_are_a_batch_or_one_error(noise: bytes, place: int) -> None:
    for data in (noise, TWO[:place] + noise, TWO[:place] + noise + TWO[place:]):
        try:
            decode_batch(data)
        except ProtocolError:
            pass
