"""Binary headers as JSON: what both forms give, and that it means what the general decoder reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.frames import Encoding, Frame, decode_frame, encode_frame
from tests.hot.forms import compiled_form, forms_of, plain_form

both = pytest.mark.parametrize("binary_headers", forms_of("binary_headers"))


def header_of(frame: Frame) -> bytes:
    frame.encoding = Encoding.BINARY
    return encode_frame(frame)[8:]


def read(header: bytes, *, is_json: bool) -> Frame:
    word = len(header) | (0 if is_json else 1 << 24)
    return decode_frame(header, word, 0, len(header), len(header))


USUAL = Frame(11, -7, 3, {"topic": "T", "empty": None, "queueOffset": "12"}, version=-1)


@both
def test_a_header_says_the_same_as_json(binary_headers: Any) -> None:
    header = header_of(USUAL)
    made = binary_headers.as_json(b"??" + header + b"body", 2, 2 + len(header))
    assert made == b'{"code":11,"version":-1,"opaque":-7,"flag":3,"extFields":{"topic":"T","queueOffset":"12"}}'
    no_value = header[:21] + b"\x00\x01a\x00\x00\x00\x00"
    no_value = no_value[:17] + (7).to_bytes(4, "big") + no_value[21:]
    assert binary_headers.as_json(no_value, 0, len(no_value)).endswith(b'"extFields":{"a":null}}')
    no_fields = header_of(Frame(-2, 2**31 - 1, -(2**31)))
    assert binary_headers.as_json(no_fields, 0, 21).startswith(b'{"code":-2,"version":')


@both
@pytest.mark.parametrize(
    "frame",
    [
        Frame(11, remark="hello"),
        Frame(11, ext={"a": 'quoted "text"'}),
        Frame(11, ext={"a": "back\\slash"}),
        Frame(11, ext={"a\n": "x"}),
        Frame(11, ext={"ü": "x"}),
        Frame(11, ext={"a": "日本"}),
        Frame(11, ext={"a": "\x7f"}),
    ],
)
def test_what_is_unusual_is_left_alone(binary_headers: Any, frame: Frame) -> None:
    header = header_of(frame)
    assert binary_headers.as_json(header, 0, len(header)) is None


@both
def test_a_header_that_ends_anywhere_else_is_left_alone(binary_headers: Any) -> None:
    header = header_of(USUAL)
    for end in range(len(header)):
        assert binary_headers.as_json(header, 0, end) is None
    assert binary_headers.as_json(header + b"x", 0, len(header) + 1) is None
    for begin, end in ((-1, 5), (5, 2), (0, len(header) + 1)):
        assert binary_headers.as_json(header, begin, end) is None


@given(st.binary(max_size=120) | st.binary(max_size=60).map(lambda ext: bytes(17) + len(ext).to_bytes(4, "big") + ext))
@example(bytes(17) + (6).to_bytes(4, "big") + bytes(6))
@example(bytes(17) + (12).to_bytes(4, "big") + bytes(12))
@example(bytes(17) + (6).to_bytes(4, "big") + b"\x00\x00\xff\xff\xff\xff")
@example(bytes(17) + (2).to_bytes(4, "big") + b"\xff\xff")
def test_both_forms_give_the_same_for_any_bytes(data: bytes) -> None:
    plain = plain_form("binary_headers").as_json(data, 0, len(data))
    assert compiled_form("binary_headers").as_json(data, 0, len(data)) == plain


texts = st.text(st.characters(codec="ascii"), max_size=20) | st.text(max_size=5)


@both
@given(
    ext=st.dictionaries(texts, st.none() | texts, max_size=6),
    numbers=st.tuples(st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(0, 7)),
    cut=st.none() | st.tuples(st.integers(0, 200), st.binary(max_size=3)),
)
def test_what_is_taken_means_what_the_general_decoder_reads(
    binary_headers: Any,
    ext: dict[str, str | None],
    numbers: tuple[int, int, int],
    cut: tuple[int, bytes] | None,
) -> None:
    code, opaque, flag = numbers
    header = header_of(Frame(code, opaque, flag, {name: text for name, text in ext.items() if name}))
    if cut is not None:
        header = header[: cut[0]] + cut[1] + header[cut[0] + len(cut[1]) :]
    made = binary_headers.as_json(header, 0, len(header))
    if made is None:
        return
    found = read(made, is_json=True)
    wanted = read(header, is_json=False)
    fields = {name: text for name, text in (wanted.ext or {}).items() if text is not None}
    assert (found.code, found.opaque) == (wanted.code, wanted.opaque)
    assert (found.flag, found.version) == (wanted.flag, wanted.version)
    assert {name: text for name, text in (found.ext or {}).items() if text is not None and name} == fields


@both
@given(data=st.binary(max_size=80))
def test_what_the_general_decoder_refuses_is_never_taken(binary_headers: Any, data: bytes) -> None:
    try:
        read(data, is_json=False)
    except ProtocolError:
        assert binary_headers.as_json(data, 0, len(data)) is None
