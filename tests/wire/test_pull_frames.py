"""Pulls on the wire: the short way reads what the general one reads, and answers are frames like any other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import FrameTooLarge, ProtocolError
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import FRAME_BYTES_MAX, Encoding, Frame, decode_frame, encode_frame, split_frames
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_pull import PullMessageHeader
from skyrocketmq.wire.pull_frames import PullRequest, pull_head, read_pull

FIELDS: dict[str, Any] = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "3",
    "queueOffset": "12345678901",
    "maxMsgNums": "32",
    "sysFlag": "2",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subscription": "TagA || TagB",
    "subVersion": "1763300000000",
    "expressionType": "TAG",
    "bname": "broker-a",
}


def place_of(data: bytes) -> tuple[int, int, int, int]:
    [place], _ = split_frames(data)
    return place


def json_frame(header: object, **style: Any) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header, **style).encode()
    return (4 + len(text)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text


def generally(data: bytes) -> tuple[int, int, PullMessageHeader] | None:
    """What the general way makes of a frame; None if it refuses it."""
    try:
        frame = decode_frame(data, *place_of(data))
        return frame.opaque, frame.flag, decode_header(PullMessageHeader, frame.ext)
    except ProtocolError:
        return None


def shortly(data: bytes) -> PullRequest | None:
    word, header_at, body_at, _ = place_of(data)
    return read_pull(data, word, header_at, body_at)


@pytest.mark.parametrize("is_binary", [False, True], ids=["JSON", "binary"])
@pytest.mark.parametrize(
    "order", [list(FIELDS), sorted(FIELDS), list(reversed(FIELDS))], ids=["Java", "Go", "backward"]
)
def test_usual_requests_are_read_in_the_short_way(order: list[str], is_binary: bool) -> None:
    frame = Frame(RequestCode.PULL_MESSAGE, -7, 2, {name: FIELDS[name] for name in order}, b"body")
    frame.encoding = Encoding(is_binary)
    data = encode_frame(frame)
    request = shortly(data)
    assert request is not None
    assert (request.opaque, request.flag, request.header) == generally(data)
    assert (request.encoding, request.frame) == (Encoding(is_binary), None)
    assert request.header.queue_offset == 12345678901


@pytest.mark.parametrize("style", [{}, {"indent": 2}, {"separators": (",", ":")}, {"separators": (" ,\t", " :\n")}])
def test_spacing_does_not_matter(style: dict[str, Any]) -> None:
    header = {"extFields": FIELDS, "version": 407, "opaque": 7, "language": "GO", "flag": 0, "code": 11, "remark": ""}
    request = shortly(json_frame(header, **style))
    assert request is not None
    assert (request.opaque, request.flag, request.header) == generally(json_frame(header))


odd = st.sampled_from(
    ["3", "+3", "007", "3.0", "1e3", " 3", "", "null", "2147483648", "x", "ü", 3, 3.0, True, None, [1], {"a": 1}]
)


@given(
    name=st.sampled_from([*FIELDS, "other", "code", "flag", "opaque", "version", "language", "remark", "extFields"]),
    value=odd | st.text(max_size=3),
    is_left_out=st.booleans(),
)
def test_the_short_way_is_as_strict_as_the_general_one(name: str, value: Any, is_left_out: bool) -> None:
    header: dict[str, Any] = {"code": 11, "opaque": 7, "flag": 0, "version": 407, "language": "JAVA", "extFields": {}}
    header["extFields"] = dict(FIELDS)
    place = header if name in header or name in ("remark", "language") else header["extFields"]
    place[name] = value
    if is_left_out:
        del place[name]
    data = json_frame(header)
    request = shortly(data)
    if request is not None:
        assert (request.opaque, request.flag, request.header) == generally(data)


@pytest.mark.parametrize("own", [b'"encoding":1', b'"frame":null', b'"encoding":"x"'])
def test_nobody_chooses_what_only_the_reader_knows(own: bytes) -> None:
    request = shortly(json_frame(b'{"opaque":1,"flag":0,%b,"extFields":{}}' % own))
    assert request is None or (request.encoding, request.frame) == (Encoding.JSON, None)


def test_large_headers_are_left_to_the_general_way() -> None:
    assert shortly(json_frame({"opaque": 1, "flag": 0, "extFields": {"subscription": "x" * 20_000}})) is None


@pytest.mark.parametrize("encoding", Encoding)
@given(numbers=st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 4), opaque=st.integers(-(2**31), 2**31 - 1))
def test_an_answer_is_a_frame_in_the_encoding_of_its_request(
    encoding: Encoding, numbers: tuple[int, int, int, int], opaque: int
) -> None:
    request = PullRequest(opaque, 0, PullMessageHeader(), encoding=encoding)
    suggested, following, lowest, highest = numbers
    head = pull_head(
        request,
        19,
        b"OFFSET_OVERFLOW_ONE",
        suggested_id=suggested,
        next_offset=following,
        min_offset=lowest,
        max_offset=highest,
        body_bytes=5,
    )
    ext: dict[str, str | None] = {
        "suggestWhichBrokerId": str(suggested),
        "nextBeginOffset": str(following),
        "minOffset": str(lowest),
        "maxOffset": str(highest),
    }
    answer = Frame(11, opaque, encoding=encoding).reply(19, remark="OFFSET_OVERFLOW_ONE", ext=ext, body=b"abcde")
    assert head + b"abcde" == encode_frame(answer)


@pytest.mark.parametrize("encoding", Encoding)
def test_an_answer_that_no_frame_holds_is_refused(encoding: Encoding) -> None:
    request = PullRequest(1, 0, PullMessageHeader(), encoding=encoding)
    numbers = {"suggested_id": 0, "next_offset": 0, "min_offset": 0, "max_offset": 0}
    head = pull_head(request, 0, b"FOUND", **numbers, body_bytes=0)
    pull_head(request, 0, b"FOUND", **numbers, body_bytes=FRAME_BYTES_MAX - len(head))
    with pytest.raises(FrameTooLarge):
        pull_head(request, 0, b"FOUND", **numbers, body_bytes=FRAME_BYTES_MAX - len(head) + 1)
