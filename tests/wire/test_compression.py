"""Compressed bodies: three formats, and bodies that mean harm."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.flags import CompressionType
from skyrocketmq.wire.compression import (
    compress,
    compression_bits,
    compression_type,
    decompress,
    should_compress,
)

Pack = Callable[[bytes], bytes]
kinds = pytest.mark.parametrize("kind", list(CompressionType))


# 9000 bytes (7 * i mod 31), packed by the compressors of Apache's client 4.9.7.
PACKED_BY_APACHE = {
    CompressionType.LZ4: (
        "04224d186070734d000000ff1000070e151c040b121901080f161d050c131a020910171e060d141b030a11181f00ffffffff"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff1450040b12190100000000"
    ),
    CompressionType.ZSTD: (
        "28b52ffd00583c0100f800070e151c040b121901080f161d050c131a020910171e060d141b030a111801001b0cc12b27010000"
    ),
    CompressionType.ZLIB: (
        "785eedc9c51583500000b08f1729525ccafe63b2072fb92614ed7ca5f56f8f3eddf2cf9af188cb7ebdf3ef7426d5b005adb5"
        "d65a6badb5d65a6badb5d65a6badb5d65a6baddfd00f14a30f62"
    ),
}


@kinds
def test_bodies_packed_by_apaches_client_are_inflated(kind: CompressionType) -> None:
    expected = bytes(7 * i % 31 for i in range(9000))
    assert decompress(bytes.fromhex(PACKED_BY_APACHE[kind]), kind) == expected


@kinds
@given(body=st.binary(max_size=3000))
def test_what_is_compressed_is_inflated_again(kind: CompressionType, body: bytes) -> None:
    assert decompress(compress(body, kind), kind) == body


@pytest.mark.parametrize(
    ("sys_flag", "kind"),
    [
        (0x001, CompressionType.ZLIB),  # before 4.9.4
        (0x301, CompressionType.ZLIB),
        (0x101, CompressionType.LZ4),
        (0x201, CompressionType.ZSTD),
        (0x331, CompressionType.ZLIB),
    ],
)
def test_the_system_flag_says_how_a_body_is_compressed(sys_flag: int, kind: CompressionType) -> None:
    assert compression_type(sys_flag) is kind


@kinds
def test_a_producer_marks_the_type_it_used(kind: CompressionType) -> None:
    assert compression_bits(kind) == {"ZLIB": 0x301, "LZ4": 0x101, "ZSTD": 0x201}[kind.name]
    assert compression_type(compression_bits(kind)) is kind


@pytest.mark.parametrize("bits", [4, 5, 6, 7])
def test_an_unknown_type_is_refused(bits: int) -> None:
    with pytest.raises(ProtocolError, match=f"type {bits}"):
        compression_type(bits << 8 | 1)


def test_bodies_are_compressed_from_four_kibibytes_on() -> None:
    assert not should_compress(4095)
    assert should_compress(4096)
    assert should_compress(10, from_bytes=10)


@pytest.mark.parametrize("size", [10, 200_000])
def test_lz4_frames_have_independent_blocks_because_java_reads_no_others(size: int) -> None:
    frame = compress(bytes(size), CompressionType.LZ4)
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] == 0x60  # version 1, independent blocks, no checksum, no size


def test_linked_lz4_blocks_of_other_producers_are_read() -> None:
    body = bytes(range(256)) * 2000
    assert decompress(lz4.frame.compress(body, block_linked=True), CompressionType.LZ4) == body


def stream_without_size(body: bytes) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("kind", "pack"),
    [
        (CompressionType.ZLIB, lambda body: zlib.compress(body, 9)),
        (CompressionType.LZ4, lz4.frame.compress),
        (CompressionType.LZ4, lambda body: lz4.frame.compress(body, store_size=False)),
        (CompressionType.ZSTD, lambda body: zstandard.ZstdCompressor().compress(body)),
        (CompressionType.ZSTD, stream_without_size),  # as Java's stream class writes it
    ],
    ids=["zlib", "lz4", "lz4 without size", "zstd", "zstd without size"],
)
class TestLimit:
    def test_a_body_of_exactly_the_limit_passes(self, kind: CompressionType, pack: Pack) -> None:
        assert decompress(pack(bytes(100_000)), kind, bytes_max=100_000) == bytes(100_000)

    def test_a_body_one_byte_above_is_refused(self, kind: CompressionType, pack: Pack) -> None:
        with pytest.raises(ProtocolError):
            decompress(pack(bytes(100_001)), kind, bytes_max=100_000)

    def test_a_bomb_is_refused(self, kind: CompressionType, pack: Pack) -> None:
        with pytest.raises(ProtocolError):
            decompress(pack(bytes(40_000_000)), kind)

    def test_a_limit_of_nothing_refuses_everything_but_nothing(self, kind: CompressionType, pack: Pack) -> None:
        with pytest.raises(ProtocolError):
            decompress(pack(b"x" * 1000), kind, bytes_max=0)

    @pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
    def test_a_body_cut_short_is_refused(self, kind: CompressionType, pack: Pack, share: float) -> None:
        packed = pack(bytes(range(256)) * 40)
        with pytest.raises(ProtocolError):
            decompress(packed[: int(len(packed) * share)], kind)

    def test_a_body_without_its_last_byte_is_refused(self, kind: CompressionType, pack: Pack) -> None:
        with pytest.raises(ProtocolError):
            decompress(pack(b"hello" * 100)[:-1], kind)


@kinds
@given(noise=st.binary(max_size=200), place=st.integers(0, 60))
def test_any_bytes_inflate_or_give_one_error(kind: CompressionType, noise: bytes, place: int) -> None:
    packed = compress(b"some body, some body, some body", kind)
    for data in (noise, packed[:place] + noise, packed[:place] + noise + packed[place + len(noise) :]):
        try:
            assert len(decompress(data, kind, bytes_max=5000)) <= 5000
        except ProtocolError:
            pass
