"""Frames: what travels on a connection, in either direction.

    | length 4 B | header word 4 B | header | body |

`length` counts what follows it. The header word has the header's encoding in its first byte and the header's length in
the other three. A header says the same in both encodings: code, opaque, flag, language, version, remark, and "ext
fields", a map of texts that holds the fields of the request or answer.

This is a module of the hot path: it trades objects for tuples and offsets, and tries the common form first. The rules:

1. `split_frames` looks at lengths only, so that a caller may read a frame's fields in its own way, or not at all.
2. A JSON header is decoded straight into a struct; what that refuses but a Java peer accepts goes to `tolerant_header`.
3. A frame that breaks the format is a `ProtocolError` as soon as the bytes that show it have arrived; the caller closes
   the connection, for there is no way to find the next frame.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from struct import Struct
from typing import Annotated

import msgspec

from skyrocketmq.errors import FrameTooLarge, ProtocolError
from skyrocketmq.wire.codes import VERSION_4_9_7, Language
from skyrocketmq.wire.tolerant_header import language_code, read_tolerant_header

__all__ = [
    "EXT_FIELDS_MAX",
    "FRAME_BYTES_MAX",
    "OPAQUE_MISSING",
    "Encoding",
    "Frame",
    "FrameDecoder",
    "decode_frame",
    "encode_frame",
    "encode_head",
    "split_frames",
]

FRAME_BYTES_MAX = 16_777_216  # the length field included: `length` itself is at most four less
EXT_FIELDS_MAX = 10_000  # real requests have at most about twenty; a hostile header could hold millions
OPAQUE_MISSING = -1  # Java puts its own next number here, so that the answer matches nothing; so does this one

RESPONSE_BIT = 1
ONEWAY_BIT = 2

_LENGTH_MAX = FRAME_BYTES_MAX - 4
_LENGTH_MIN = 5  # the header word and one byte of header: an empty header is no header
_BINARY_WORD = 0x01000000
_LENGTH_AND_WORD = Struct(">II")
_LENGTH = Struct(">I")
_BINARY_HEAD = Struct(">hBhiii")  # | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 |
_BINARY_START = Struct(">IIhBhiii")  # the same behind length and header word
_KEY_BYTES = Struct(">h")
_VALUE_BYTES = Struct(">i")
_BINARY_BYTES_MIN = 21
assert _BINARY_HEAD.size + _VALUE_BYTES.size == _BINARY_BYTES_MIN

# Above this size a JSON header is first searched for quotation marks: millions of tiny fields would take twenty times
# their bytes in memory. The largest real header is the answer to a big batch: one long text of message ids.
_LARGE_HEADER_BYTES = 262_144
_LARGE_EXT_BYTES = 6 * EXT_FIELDS_MAX  # an entry has six bytes at least: below this size none need be counted
_LANGUAGE_NONE_BYTE = 255  # a binary header always has a language; a number nobody has is read as none


class Encoding(IntEnum):
    """How a header is written. An answer takes the encoding of its request."""

    JSON = 0
    BINARY = 1


class Frame(msgspec.Struct, gc=False):
    """One request or answer. `ext` holds its fields as text; `None` for a field is the same as leaving it out.

    `language` is None where the peer named one that nobody knows. `reply` makes the answer to a request.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    ext: dict[str, str | None] | None = None
    body: bytes = b""
    remark: str | None = None
    language: int | None = Language.PYTHON
    version: int = VERSION_4_9_7
    encoding: Encoding = Encoding.JSON

    @property
    def is_response(self) -> bool:
        return self.flag & RESPONSE_BIT != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & ONEWAY_BIT != 0

    def encode(self, opaque: int) -> bytes:
        """The bytes of the frame, under this number."""
        self.opaque = opaque
        return encode_frame(self)

    def frame(self) -> Frame:
        """Itself: for whoever has a request of some kind, and wants its frame."""
        return self

    def reply(
        self, code: int = 0, *, remark: str | None = None, ext: dict[str, str | None] | None = None, body: bytes = b""
    ) -> Frame:
        """The answer: same opaque, same encoding, response bit set and one-way bit clear."""
        return Frame(code, self.opaque, RESPONSE_BIT, ext, body, remark, encoding=self.encoding)


def split_frames(data: bytes, start: int = 0) -> tuple[list[tuple[int, int, int, int]], int]:
    """Find the complete frames in a buffer: (header word, header offset, body offset, end) each, and the bytes used.

    What follows the last complete frame is checked as far as it goes: a length that cannot be is an error now, not
    once sixteen megabytes have been collected.
    """
    found: list[tuple[int, int, int, int]] = []
    size = len(data)
    at = start
    unpack = _LENGTH_AND_WORD.unpack_from
    while size - at >= 8:
        length, word = unpack(data, at)
        header_at = at + 8
        body_at = header_at + (word & 0xFFFFFF)
        end = at + 4 + length
        if not header_at < body_at <= end or length > _LENGTH_MAX or word >= 0x02000000:
            raise _bad_frame(length, word)
        if end > size:
            return found, at - start
        found.append((word, header_at, body_at, end))
        at = end
    if size - at >= 4:
        (length,) = _LENGTH.unpack_from(data, at)
        if not _LENGTH_MIN <= length <= _LENGTH_MAX:
            raise _bad_frame(length, None)
    return found, at - start


def find_frame(data: bytes, at: int) -> tuple[int, int, int, int] | None:
    """The place of the frame that begins at `at`, as `split_frames` gives it; None if it is not complete."""
    if len(data) - at < 8:
        if len(data) - at >= 4:
            (length,) = _LENGTH.unpack_from(data, at)
            if not _LENGTH_MIN <= length <= _LENGTH_MAX:
                raise _bad_frame(length, None)
        return None
    length, word = _LENGTH_AND_WORD.unpack_from(data, at)
    body_at = at + 8 + (word & 0xFFFFFF)
    end = at + 4 + length
    if not at + 8 < body_at <= end or length > _LENGTH_MAX or word >= 0x02000000:
        raise _bad_frame(length, word)
    return None if end > len(data) else (word, at + 8, body_at, end)


def _bad_frame(length: int, word: int | None) -> ProtocolError:
    if length > _LENGTH_MAX:
        return FrameTooLarge(f"a frame announces {length} bytes, the limit is {_LENGTH_MAX}")
    if length < _LENGTH_MIN or word is None:
        return ProtocolError(f"a frame announces {length} bytes, too few for a header")
    if word >= 0x02000000:
        return ProtocolError(f"a frame's header has the unknown encoding {word >> 24}")
    return ProtocolError(f"a frame of {length} bytes announces a header of {word & 0xFFFFFF} bytes")


def decode_frame(data: bytes, header_word: int, header_at: int, body_at: int, end: int) -> Frame:
    """One frame at the offsets that `split_frames` found."""
    if header_word >= _BINARY_WORD:
        return _decode_binary(data, header_at, body_at, end)
    if body_at - header_at > _LARGE_HEADER_BYTES and data.count(b'"', header_at, body_at) > 4 * EXT_FIELDS_MAX:
        raise ProtocolError(f"a header of {body_at - header_at} bytes has too many fields")
    header = data[header_at:body_at]
    try:
        read = _read_json(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_tolerant(header, data[body_at:end])
    language = _LANGUAGE_CODES.get(read.language)
    if language is None:
        language = language_code(read.language)
    return Frame(
        read.code,
        read.opaque,
        read.flag,
        read.ext_fields,
        data[body_at:end],
        read.remark,
        language,
        read.version,
        Encoding.JSON,
    )


_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _JsonHeader(msgspec.Struct, gc=False, rename="camel"):
    code: _Int32 = 0
    flag: _Int32 = 0
    language: str | None = "JAVA"
    opaque: _Int32 = OPAQUE_MISSING
    version: _Int32 = 0
    remark: str | None = None
    ext_fields: dict[str, str | None] | None = None


_read_json = msgspec.json.Decoder(_JsonHeader, strict=False).decode  # strict=False: numbers may be written as text
_LANGUAGE_CODES: dict[str | None, int] = {language.name: language for language in Language}
_LANGUAGE_NAMES: dict[int | None, bytes] = {language.value: language.name.encode() for language in Language}
_LANGUAGES: dict[int, int] = {language.value: language for language in Language}


def _decode_tolerant(header: bytes, body: bytes) -> Frame:
    read = read_tolerant_header(header)
    opaque = OPAQUE_MISSING if read.opaque is None else read.opaque
    return Frame(read.code, opaque, read.flag, read.ext, body, read.remark, read.language, read.version, Encoding.JSON)


def _decode_binary(data: bytes, header_at: int, body_at: int, end: int) -> Frame:
    if body_at - header_at < _BINARY_BYTES_MIN:
        raise ProtocolError(f"a binary header of {body_at - header_at} bytes, at least {_BINARY_BYTES_MIN} are needed")
    code, language, version, opaque, flag, remark_bytes = _BINARY_HEAD.unpack_from(data, header_at)
    at = header_at + 17
    remark = None
    if remark_bytes:
        remark_at = at
        at += remark_bytes
        if remark_bytes < 0 or at + 4 > body_at:
            raise ProtocolError(f"a remark of {remark_bytes} bytes does not fit its header")
        remark = str(data[remark_at:at], "utf-8", "replace")
    (ext_bytes,) = _VALUE_BYTES.unpack_from(data, at)
    ext = None
    if ext_bytes:
        at += 4
        ext_end = at + ext_bytes
        if ext_bytes < 0 or ext_end > body_at:
            raise ProtocolError(f"ext fields of {ext_bytes} bytes do not fit their header")
        ext = _decode_ext(data[at:ext_end])
    return Frame(code, opaque, flag, ext, data[body_at:end], remark, _LANGUAGES.get(language), version, Encoding.BINARY)


def _decode_ext(entries: bytes) -> dict[str, str | None]:
    """The map of a binary header: | key length 2 | key | value length 4 | value | each.

    An empty value is null, a later duplicate wins, an entry without a key is dropped. Nearly all maps are ASCII; those
    are made into one text first and cut up, which takes a third less time than decoding every piece.
    """
    end = len(entries)
    if end > _LARGE_EXT_BYTES or not entries.isascii():
        return _decode_any_ext(entries)
    text = entries.decode("ascii")
    ext: dict[str, str | None] = {}
    at = 0
    try:
        while at < end:
            key_at = at + 2
            key_end = key_at + (entries[at] << 8 | entries[at + 1])
            value_at = key_end + 4
            at = value_at + entries[value_at - 1]
            if entries[key_end + 2] or entries[key_end + 1] or entries[key_end]:  # a value of 256 and more bytes
                at = value_at + _VALUE_BYTES.unpack_from(entries, key_end)[0]
            ext[text[key_at:key_end]] = text[value_at:at] or None
    except IndexError:
        raise ProtocolError("the ext fields end inside an entry") from None
    if at > end:
        raise ProtocolError("an ext field is longer than the map it stands in")
    ext.pop("", None)
    return ext


def _decode_any_ext(entries: bytes, errors: str = "strict") -> dict[str, str | None]:
    ext: dict[str, str | None] = {}
    at = 0
    entry_count = 0
    try:
        while at < len(entries):
            (key_bytes,) = _KEY_BYTES.unpack_from(entries, at)
            key_end = at + 2 + key_bytes
            if key_bytes < 0 or key_end > len(entries):
                raise ProtocolError("an ext field is longer than the map it stands in")
            key = entries[at + 2 : key_end].decode("utf-8", errors)
            (value_bytes,) = _VALUE_BYTES.unpack_from(entries, key_end)
            value_at = key_end + 4
            at = value_at + value_bytes
            if value_bytes < 0 or at > len(entries):
                raise ProtocolError("an ext field is longer than the map it stands in")
            if key:
                ext[key] = entries[value_at:at].decode("utf-8", errors) or None
            entry_count += 1
            if entry_count > EXT_FIELDS_MAX:
                raise ProtocolError(f"a header has more than {EXT_FIELDS_MAX} ext fields")
    except struct.error:
        raise ProtocolError("the ext fields end inside an entry") from None
    except UnicodeDecodeError:
        return _decode_any_ext(entries, "replace")  # as Java reads it
    return ext


def encode_frame(frame: Frame) -> bytes:
    """A whole frame, its length field included."""
    body = frame.body
    return encode_head(frame, len(body)) + body if body else encode_head(frame, 0)


def encode_head(frame: Frame, body_bytes: int) -> bytes:
    """All of a frame that comes before its body, for a body that is sent as slices; `frame.body` is not looked at."""
    try:
        if frame.encoding == 0:
            header = _encode_json(frame)
            head = _LENGTH_AND_WORD.pack(4 + len(header) + body_bytes, len(header)) + header
        else:
            head = _encode_binary(frame, body_bytes)
    except struct.error:
        raise FrameTooLarge(f"a value of code {frame.code} does not fit its place in the header") from None
    if len(head) + body_bytes > FRAME_BYTES_MAX:
        raise FrameTooLarge(f"a frame of {len(head) + body_bytes} bytes, the limit is {FRAME_BYTES_MAX}")
    return head


_to_json = msgspec.json.Encoder().encode


def _encode_json(frame: Frame) -> bytes:
    # The order of keys is the alphabet's, as Java writes it: equal bytes make captures and tests comparable.
    ext = frame.ext
    if ext is not None and None in ext.values():
        ext = {key: value for key, value in ext.items() if value is not None}
    language = _LANGUAGE_NAMES.get(frame.language)
    try:
        return b'{"code":%d,%b"flag":%d,%b"opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}' % (
            frame.code,
            b"" if ext is None else b'"extFields":%b,' % _to_json(ext),
            frame.flag,
            b"" if language is None else b'"language":"%b",' % language,
            frame.opaque,
            b"" if frame.remark is None else b'"remark":%b,' % _to_json(frame.remark),
            frame.version,
        )
    except UnicodeEncodeError:
        return _encode_json(_without_lone_surrogates(frame))


def _encode_binary(frame: Frame, body_bytes: int) -> bytes:
    try:
        remark = b"" if frame.remark is None else frame.remark.encode()
        ext = b"" if frame.ext is None else _encode_ext(frame.ext)
    except UnicodeEncodeError:
        return _encode_binary(_without_lone_surrogates(frame), body_bytes)
    header_bytes = _BINARY_BYTES_MIN + len(remark) + len(ext)
    start = _BINARY_START.pack(
        4 + header_bytes + body_bytes,
        _BINARY_WORD | header_bytes,
        frame.code,
        _LANGUAGE_NONE_BYTE if frame.language is None else frame.language,
        frame.version,
        frame.opaque,
        frame.flag,
        len(remark),
    )
    return b"%b%b%b%b" % (start, remark, _VALUE_BYTES.pack(len(ext)), ext)


def _encode_ext(ext: dict[str, str | None]) -> bytes:
    parts: list[bytes] = []
    for key, value in ext.items():
        if value is not None:
            value_bytes = value.encode()
            parts += (_encoded_keys.get(key) or _encode_key(key), _VALUE_BYTES.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)


_encoded_keys: dict[str, bytes] = {}  # a few dozen names occur; they are encoded once
_ENCODED_KEYS_MAX = 1_000


def _encode_key(key: str) -> bytes:
    key_bytes = key.encode()
    encoded = _KEY_BYTES.pack(len(key_bytes)) + key_bytes
    if len(_encoded_keys) < _ENCODED_KEYS_MAX:
        _encoded_keys[key] = encoded
    return encoded


def _without_lone_surrogates(frame: Frame) -> Frame:
    """Half a surrogate pair cannot be written in UTF-8: Java writes a question mark in its place, and so do we."""

    def clean(text: str) -> str:
        return text.encode("utf-8", "replace").decode()

    ext = frame.ext and {clean(key): None if value is None else clean(value) for key, value in frame.ext.items()}
    remark = frame.remark and clean(frame.remark)
    return msgspec.structs.replace(frame, ext=ext, remark=remark)


class FrameDecoder:
    """Collects received bytes and gives back the frames in them; for connections that do not split for themselves.

    A large frame that comes in many pieces is copied twice in all, however small they are.
    """

    __slots__ = ("_needed_bytes", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed_bytes = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that has not arrived completely."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes. After a `ProtocolError` the decoder is of no further use."""
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < self._needed_bytes:
                return []
            data = bytes(rest)
            rest.clear()
        places, used = split_frames(data)
        if used < len(data):
            rest += data[used:] if used else data
            self._needed_bytes = _needed_bytes(rest)
        return [decode_frame(data, *place) for place in places]


def _needed_bytes(rest: bytearray) -> int:
    """At which size of the rest it pays to look again: when the length, the header word, or the frame is complete."""
    if len(rest) < 8:
        return 4 if len(rest) < 4 else 8
    return 4 + int(_LENGTH.unpack_from(rest)[0])
