"""The bytes between masters and slaves: fed whole, one by one, with a rest, and as nonsense."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.replication import (
    PIECE_BYTES_MAX,
    PieceDecoder,
    ReportDecoder,
    encode_piece_head,
    encode_report,
)

PIECES = [(0, b"first"), (5, b""), (5, bytes(range(256)) * 20), (5125, b"x")]
STREAM = b"".join([encode_piece_head(offset, len(data)) + data for offset, data in PIECES])


def cuts(data: bytes, sizes: Iterator[int]) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = next(sizes)
        yield data[at : at + size]
        at += size


@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_read_however_they_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    decoder = PieceDecoder()
    found = []
    for part in cuts(STREAM, iter(lambda: chance.choice((1, 2, 11, 13, 700, 10_000)), 0)):
        found += [(offset, bytes(data)) for offset, data in decoder.feed(part)]
    assert found == PIECES


def test_the_layout_is_the_one_of_the_family() -> None:
    assert encode_piece_head(0x0102030405060708, 0x0A0B0C0D).hex() == "01020304050607080a0b0c0d"
    assert encode_report(4096).hex() == "0000000000001000"


def test_of_several_reports_the_last_whole_one_counts() -> None:
    decoder = ReportDecoder()
    assert decoder.feed(encode_report(1) + encode_report(7) + encode_report(9)[:3]) == 7
    assert decoder.feed(b"") is None
    assert decoder.feed(encode_report(9)[3:]) == 9


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (0, -1), (0, PIECE_BYTES_MAX + 1)])
def test_what_no_master_sends_is_refused_at_its_head(offset: int, length: int) -> None:
    with pytest.raises(ProtocolError, match="announces"):
        PieceDecoder().feed(encode_piece_head(offset, length))


def test_a_slave_whose_log_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ProtocolError, match="ends at -1"):
        ReportDecoder().feed(encode_report(-1))
