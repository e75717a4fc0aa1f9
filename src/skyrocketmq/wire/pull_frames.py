"""Pulls on the wire: the request (11) as one value, read straight from the bytes, and the head of its answer.

Rule 1: the short way is as strict as the general one (`decode_frame`, then `decode_header`), because the same decoder
reads the same types. What it does not take, right or wrong, the general way reads, and says what is wrong.
Rule 2: an answer takes the encoding of its request.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from skyrocketmq.errors import FrameTooLarge
from skyrocketmq.hot import as_json
from skyrocketmq.hot.layout import BINARY_BYTES_MIN, FRAME_BYTES_MAX, HEADER_BINARY
from skyrocketmq.model.numbers import Int32
from skyrocketmq.wire.codes import VERSION_4_9_7, Language, RequestCode
from skyrocketmq.wire.frames import RESPONSE_BIT, Encoding, Frame
from skyrocketmq.wire.headers_pull import PullMessageHeader

__all__ = ["PullRequest", "pull_head", "read_pull"]

SHORT_HEADER_BYTES_MAX: Final = 16_384  # beyond, the general way counts fields before it reads them
_NAMES: Final = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")
_JSON: Final = (
    b'{"code":%%d,"extFields":{"suggestWhichBrokerId":"%%d","nextBeginOffset":"%%d","minOffset":"%%d","maxOffset":"%%d"},'
    b'"flag":%d,"language":"%b","opaque":%%d,"remark":"%%b","serializeTypeCurrentRPC":"JSON","version":%d}'
    % (RESPONSE_BIT, Language.PYTHON.name.encode(), VERSION_4_9_7)
)
_EXT: Final = b"".join(b"%b%b\0\0\0%%c%%b" % (len(name).to_bytes(2, "big"), name.encode()) for name in _NAMES)
_json_start: Final = Struct(">ii").pack
_binary_start: Final = Struct(">iIhBhiii").pack
_length: Final = Struct(">i").pack


class PullRequest(msgspec.Struct, gc=False):
    """A pull. Its `frame` is kept where a signature has to be checked; the short way has none."""

    opaque: Int32
    flag: Int32
    header: PullMessageHeader = msgspec.field(name="extFields")
    # These three decide nothing, but a frame in which they are wrong is none.
    code: Int32 = RequestCode.PULL_MESSAGE
    version: Int32 = 0
    language: str | None = None
    remark: str | None = None
    encoding: Encoding = Encoding.JSON
    frame: Frame | None = None

    @classmethod
    def of(cls, frame: Frame, header: PullMessageHeader) -> PullRequest:
        """One that the general decoder has read."""
        return cls(frame.opaque, frame.flag, header, encoding=frame.encoding, frame=frame)

    def as_frame(self) -> Frame:
        """As much of the frame as a refusal needs."""
        return self.frame or Frame(RequestCode.PULL_MESSAGE, self.opaque, self.flag, encoding=self.encoding)


_read: Final = msgspec.json.Decoder(PullRequest, strict=False).decode  # not strict: numbers may be written as text


def read_pull(data: bytes, word: int, header_at: int, body_at: int) -> PullRequest | None:
    """The request in a frame at the offsets that `split_frames` found; None leaves it to the general decoder."""
    if body_at - header_at > SHORT_HEADER_BYTES_MAX:
        return None
    is_binary = word >> 24 == HEADER_BINARY
    header = as_json(data, header_at, body_at) if is_binary else data[header_at:body_at]
    if header is None:
        return None
    try:
        request = _read(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    request.encoding = Encoding.BINARY if is_binary else Encoding.JSON
    request.frame = None
    return request


def pull_head(
    request: PullRequest,
    code: int,
    remark: bytes,
    *,
    suggested_id: int,
    next_offset: int,
    min_offset: int,
    max_offset: int,
    body_bytes: int = 0,
) -> bytes:
    """All of the answer but its body, which has so many bytes. The remark is ASCII and needs no escapes."""
    if request.encoding is Encoding.JSON:
        header = _JSON % (code, suggested_id, next_offset, min_offset, max_offset, request.opaque, remark)
        length = 4 + len(header) + body_bytes
        head = _json_start(length, len(header)) + header
    else:
        one, two, three, four = b"%d" % suggested_id, b"%d" % next_offset, b"%d" % min_offset, b"%d" % max_offset
        ext = _EXT % (len(one), one, len(two), two, len(three), three, len(four), four)
        header_bytes = BINARY_BYTES_MIN + len(remark) + len(ext)
        length = 4 + header_bytes + body_bytes
        start = _binary_start(
            length,
            HEADER_BINARY << 24 | header_bytes,
            code,
            Language.PYTHON,
            VERSION_4_9_7,
            request.opaque,
            RESPONSE_BIT,
            len(remark),
        )
        head = b"%b%b%b%b" % (start, remark, _length(len(ext)), ext)
    if length + 4 > FRAME_BYTES_MAX:
        raise FrameTooLarge(f"an answer of {length + 4} bytes, the limit is {FRAME_BYTES_MAX}")
    return head
