"""Java's rules between texts and typed fields."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.numbers import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, Int32, Int64
from skyrocketmq.wire.headers_codec import Header, NoFields, decode_header, encode_header


class Sample(Header):
    some_text: str | None = None
    small: Int32 | None = None
    large: Int64 | None = None
    maybe: bool | None = None
    primitive: bool = False
    count: Int32 = 0


class FastSample(Sample):
    is_fast: ClassVar[bool] = True


@pytest.mark.parametrize("ext", [None, {}, {"someText": None, "small": None, "primitive": None}, {"unknown": "x"}])
def test_missing_and_null_fields_have_their_defaults(ext: dict[str, str | None] | None) -> None:
    assert decode_header(Sample, ext) == Sample()


@pytest.mark.parametrize(
    ("text", "expected"),
    [(text, True) for text in ("true", "TRUE", "True")]
    + [(text, False) for text in ("false", "1", "0", "yes", "", " true", "t")],
)
def test_a_boolean_is_true_only_for_true(text: str, expected: bool) -> None:
    header = decode_header(Sample, {"maybe": text, "primitive": text})
    assert (header.maybe, header.primitive) == (expected, expected)


@pytest.mark.parametrize(
    ("text", "small", "large"),
    [
        ("5", 5, 5),
        ("-5", -5, -5),
        ("+5", 5, 5),
        ("007", 7, 7),
        (str(INT32_MAX), INT32_MAX, INT32_MAX),
        (str(INT32_MIN), INT32_MIN, INT32_MIN),
        (str(INT32_MAX + 1), None, INT32_MAX + 1),
        (str(INT64_MAX), None, INT64_MAX),
        (str(INT64_MIN), None, INT64_MIN),
        (str(INT64_MAX + 1), None, None),
        ("9" * 5000, None, None),
        ("", None, None),
        ("-", None, None),
        (" 5", None, None),
        ("5_0", None, None),
        ("x", None, None),
        ("５", None, None),
        ("²", None, None),
    ],
)
def test_a_number_that_does_not_fit_is_null(text: str, small: int | None, large: int | None) -> None:
    header = decode_header(Sample, {"small": text, "large": text, "someText": text})
    assert (header.small, header.large, header.some_text) == (small, large, text)


def test_one_bad_field_leaves_the_others_alone() -> None:
    header = decode_header(Sample, {"small": "x", "large": "7", "maybe": "true", "count": "y", "someText": "t"})
    assert header == Sample(some_text="t", large=7, maybe=True)


@pytest.mark.parametrize("text", ["x", "", str(INT32_MAX + 1), " 5"])
def test_a_fast_header_refuses_a_bad_number(text: str) -> None:
    with pytest.raises(ProtocolError):
        decode_header(FastSample, {"small": text})


def test_a_fast_header_takes_missing_fields_and_odd_booleans() -> None:
    assert decode_header(FastSample, {"maybe": "1", "small": "3"}) == FastSample(maybe=False, small=3)


def test_null_is_left_out_and_primitives_are_always_written() -> None:
    assert encode_header(Sample()) == {"primitive": "false", "count": "0"}
    assert encode_header(Sample("x", -1, INT64_MAX, True, True, 5)) == {
        "someText": "x",
        "small": "-1",
        "large": "9223372036854775807",
        "maybe": "true",
        "primitive": "true",
        "count": "5",
    }
    assert encode_header(NoFields()) == {}


@given(
    st.builds(
        Sample,
        st.none() | st.text(),
        st.none() | st.integers(INT32_MIN, INT32_MAX),
        st.none() | st.integers(INT64_MIN, INT64_MAX),
        st.none() | st.booleans(),
        st.booleans(),
        st.integers(INT32_MIN, INT32_MAX),
    )
)
def test_what_is_written_is_read_back(header: Sample) -> None:
    assert decode_header(Sample, encode_header(header)) == header


@given(
    st.dictionaries(st.sampled_from(["someText", "small", "large", "maybe", "primitive", "x"]), st.none() | st.text())
)
def test_any_fields_give_a_header(ext: dict[str, str | None]) -> None:
    assert isinstance(decode_header(Sample, ext), Sample)
