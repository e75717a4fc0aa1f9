"""Compressed bodies: zlib, LZ4 frames and Zstandard, told apart by three bits of the system flag.

Rule 1: inflating is bounded. A body that would grow beyond the limit, is cut short or is no such stream at all raises
`ProtocolError`, and no more memory than the limit is touched on the way.
Rule 2: a producer compresses from a threshold on, and keeps the result even where it came out longer, as Apache does:
the flag then tells the truth, and a reader needs no second rule.
"""

from __future__ import annotations

import zlib
from typing import Final

import lz4.frame
import zstandard

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.flags import BODY_COMPRESSED, COMPRESSION_MASK, COMPRESSION_SHIFT, CompressionType

COMPRESS_FROM_BYTES: Final = 4096  # compressMsgBodyOverHowmuch
COMPRESS_LEVEL: Final = 5  # rocketmq.message.compressLevel
COMPRESS_LEVELS: Final = {
    CompressionType.ZLIB: range(10),
    CompressionType.LZ4: None,  # takes none
    CompressionType.ZSTD: range(1, 23),
}
INFLATED_BYTES_MAX: Final = 16_777_216  # a frame's limit; four times the largest body with default settings


def should_compress(body_bytes: int, *, from_bytes: int = COMPRESS_FROM_BYTES) -> bool:
    """Whether a producer compresses a body of this size. Bodies inside a batch never are."""
    return body_bytes >= from_bytes


def compression_bits(kind: CompressionType) -> int:
    """What the system flag of a message with such a body carries: that it is compressed, and how."""
    return BODY_COMPRESSED | kind << COMPRESSION_SHIFT


def compression_type(sys_flag: int) -> CompressionType:
    """How a compressed body was made; producers before 4.9.4 leave the type bits 0 and mean zlib."""
    kind = (sys_flag & COMPRESSION_MASK) >> COMPRESSION_SHIFT
    if kind > CompressionType.ZLIB:
        raise ProtocolError(f"the system flag {sys_flag:#x} names the compression type {kind}, which nobody knows")
    return CompressionType(kind) if kind else CompressionType.ZLIB


def compress(body: bytes, kind: CompressionType = CompressionType.ZLIB, *, level: int = COMPRESS_LEVEL) -> bytes:
    """The compressed body. The level has the meaning of the chosen library; LZ4 takes none."""
    if kind is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if kind is CompressionType.ZSTD:
        return zstandard.ZstdCompressor(level=level).compress(body)
    # Java's reader knows independent blocks only, and refuses the linked ones that the library makes by default.
    packed: bytes = lz4.frame.compress(body, block_linked=False, store_size=False)
    return packed


def decompress(body: bytes, kind: CompressionType, *, bytes_max: int = INFLATED_BYTES_MAX) -> bytes:
    """The body as its producer had it; `ProtocolError` if it is broken or longer than `bytes_max`."""
    return _INFLATERS[kind](body, bytes_max)


def _inflate_zlib(body: bytes, bytes_max: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # One byte more than allowed tells "exactly the limit" from "beyond it"; 0 would mean no limit at all.
        data = inflater.decompress(body, bytes_max + 1)
    except zlib.error as exc:
        raise ProtocolError(f"a body marked as zlib cannot be inflated: {exc}") from None
    return _checked(data, is_complete=inflater.eof, bytes_max=bytes_max)


def _inflate_lz4(body: bytes, bytes_max: int) -> bytes:
    inflater = lz4.frame.LZ4FrameDecompressor()
    try:
        data: bytes = inflater.decompress(body, max_length=bytes_max + 1)
    except (RuntimeError, ValueError, MemoryError) as exc:
        raise ProtocolError(f"a body marked as LZ4 cannot be inflated: {exc}") from None
    return _checked(data, is_complete=inflater.eof, bytes_max=bytes_max)


def _inflate_zstd(body: bytes, bytes_max: int) -> bytes:
    try:
        announced = zstandard.frame_content_size(body)  # -1 if the frame does not say, as Java's never do
        if announced > bytes_max:
            raise ProtocolError(f"a compressed body announces {announced} bytes, the limit is {bytes_max}")
        data = zstandard.ZstdDecompressor().decompress(body, max_output_size=bytes_max)
    except (zstandard.ZstdError, MemoryError) as exc:
        raise ProtocolError(f"a body marked as Zstandard cannot be inflated within {bytes_max} bytes: {exc}") from None
    return data


def _checked(data: bytes, *, is_complete: bool, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise ProtocolError(f"a compressed body grows beyond the limit of {bytes_max} bytes")
    if not is_complete:
        raise ProtocolError("a compressed body is cut short")
    return data


_INFLATERS: Final = {
    CompressionType.ZLIB: _inflate_zlib,
    CompressionType.LZ4: _inflate_lz4,
    CompressionType.ZSTD: _inflate_zstd,
}
