"""What masters and slaves say to each other on the replication port: plain numbers and bytes of the log, no handshake.

    slave to master    | how far its log reaches 8 |                             again after all that it stores
    master to slave    | where the data belongs 8 | length 4 | bytes of the log |  a length of 0 is a sign of life

Numbers are big-endian. Data is cut without regard to records, but never across two log files.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from skyrocketmq.errors import ProtocolError

__all__ = [
    "PIECE_BYTES_MAX",
    "PIECE_HEAD_BYTES",
    "REPORT_BYTES",
    "Piece",
    "PieceDecoder",
    "ReportDecoder",
    "encode_piece_head",
    "encode_report",
]

_REPORT: Final = Struct(">q")
_PIECE_HEAD: Final = Struct(">qi")
REPORT_BYTES: Final = 8
PIECE_HEAD_BYTES: Final = 12
assert _REPORT.size == REPORT_BYTES
assert _PIECE_HEAD.size == PIECE_HEAD_BYTES

PIECE_BYTES_MAX: Final = 16 << 20  # masters send 32 KiB at a time; far more is no master

Piece = tuple[int, memoryview]  # log offset, data


def encode_report(offset: int) -> bytes:
    return _REPORT.pack(offset)


def encode_piece_head(offset: int, data_bytes: int) -> bytes:
    return _PIECE_HEAD.pack(offset, data_bytes)


class ReportDecoder:
    """Reads what a slave says. Of several reports only the last counts: a slave's log only grows."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """The last report that is complete with these bytes; None if there is none. Raises `ProtocolError`."""
        data = self._rest + data
        whole_bytes = len(data) - len(data) % REPORT_BYTES
        self._rest = data[whole_bytes:]
        if not whole_bytes:
            return None
        (offset,) = _REPORT.unpack_from(data, whole_bytes - REPORT_BYTES)
        if offset < 0:
            raise ProtocolError(f"a slave reports that its log ends at {offset}")
        return int(offset)


class PieceDecoder:
    """Reads what a master says. A piece is given once it is complete; its data is a view, not a copy."""

    __slots__ = ("_need_bytes", "_parts", "_waiting_bytes")

    def __init__(self) -> None:
        self._parts: list[bytes] = []  # joined only when they are enough: no copying of what arrives in crumbs
        self._waiting_bytes = 0
        self._need_bytes = PIECE_HEAD_BYTES

    def feed(self, data: bytes) -> list[Piece]:
        """All pieces that are complete with these bytes. Raises `ProtocolError` for what no master sends."""
        self._parts.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes < self._need_bytes:
            return []
        buffer = data if len(self._parts) == 1 else b"".join(self._parts)
        view = memoryview(buffer)
        pieces: list[Piece] = []
        at, end = 0, len(buffer)
        need_bytes = PIECE_HEAD_BYTES
        while end - at >= PIECE_HEAD_BYTES:
            offset, data_bytes = _PIECE_HEAD.unpack_from(buffer, at)
            if offset < 0 or not 0 <= data_bytes <= PIECE_BYTES_MAX:
                raise ProtocolError(f"a master announces {data_bytes} bytes of its log at {offset}")
            data_at = at + PIECE_HEAD_BYTES
            if end - data_at < data_bytes:
                need_bytes = PIECE_HEAD_BYTES + data_bytes
                break
            pieces.append((offset, view[data_at : data_at + data_bytes]))
            at = data_at + data_bytes
        rest = buffer[at:]
        self._parts = [rest] if rest else []
        self._waiting_bytes = len(rest)
        self._need_bytes = need_bytes
        return pieces
