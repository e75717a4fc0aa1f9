"""Frames as Java's clients and brokers write them, by hand: the same for both servers, whatever our encoder does."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from itertools import count

VERSION_4_9_7 = 407
JAVA = 0
SUCCESS = 0
BINARY_FLAG_AT = 16  # its last byte: | word 4 | code 2 | language 1 | version 2 | request number 4 | flag 4 |

_opaques = count(1)


def encode_frame(
    code: int,
    ext: Mapping[str, str],
    body: bytes = b"",
    *,
    binary: bool = False,
    version: int = VERSION_4_9_7,
    opaque: int | None = None,
) -> bytes:
    """| length 4 B | encoding 1 B, header length 3 B | header | body |; without `opaque`, the next number."""
    number = next(_opaques) if opaque is None else opaque
    header = (_binary_header if binary else _json_header)(code, ext, number, version)
    word = (1 << 24 if binary else 0) | len(header)
    return struct.pack(">II", 4 + len(header) + len(body), word) + header + body


def _json_header(code: int, ext: Mapping[str, str], opaque: int, version: int) -> bytes:
    return json_bytes(
        {
            "code": code,
            "extFields": ext,
            "flag": 0,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": version,
        }
    )


def _binary_header(code: int, ext: Mapping[str, str], opaque: int, version: int) -> bytes:
    fields = b"".join(
        struct.pack(">h", len(key)) + key.encode() + struct.pack(">i", len(value)) + value.encode()
        for key, value in ext.items()
    )
    # | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | fields length 4 | fields |
    return struct.pack(">hbhiiii", code, JAVA, version, opaque, 0, 0, len(fields)) + fields


def answer_code(answer: bytes) -> int:
    """The response code of an answer (without its length) in either encoding."""
    (word,) = struct.unpack_from(">I", answer)
    if word >> 24:
        code: int = struct.unpack_from(">h", answer, 4)[0]
        return code
    header = json.loads(answer[4 : 4 + (word & 0xFF_FFFF)])
    return int(header["code"])


def is_answer(frame: bytes) -> bool:
    """Whether a frame (without its length) is an answer; servers send requests too."""
    (word,) = struct.unpack_from(">I", frame)
    if word >> 24:
        return bool(frame[BINARY_FLAG_AT] & 1)
    return bool(json.loads(frame[4 : 4 + (word & 0xFF_FFFF)])["flag"] & 1)


def answer_fields(answer: bytes) -> dict[str, str]:
    """The fields of an answer with a JSON header."""
    (word,) = struct.unpack_from(">I", answer)
    fields: dict[str, str] = json.loads(answer[4 : 4 + (word & 0xFF_FFFF)])["extFields"]
    return fields


def answer_body(answer: bytes) -> bytes:
    (word,) = struct.unpack_from(">I", answer)
    return answer[4 + (word & 0xFF_FFFF) :]


def json_bytes(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
