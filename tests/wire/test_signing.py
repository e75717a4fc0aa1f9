"""Signed requests: Apache's vectors, and what a check must accept and refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.wire.signing import is_signed_by, sign_request, signature, signed_content

ACCESS = "rocketmq2"
SECRET = "12345678"
names = st.text(min_size=1, max_size=8)
ext_fields = st.dictionaries(names, st.none() | st.text(max_size=8), max_size=6)


def signed(ext: dict[str, str | None] | None, body: bytes = b"", *, is_binary: bool = False) -> dict[str, str | None]:
    return sign_request(ext, body, access_key=ACCESS, secret_key=SECRET, is_binary=is_binary)


@pytest.mark.parametrize(
    ("ext", "body", "content", "expected"),
    [
        ({"topic": "T"}, b"", b"rocketmq2T", "msA2HLu5rmWfLoIZzBCi0WKUq2o="),
        (None, b"{}", b"rocketmq2{}", "rSstUKkrER5aSJ6DGS3kFVeNxfw="),
    ],
)
def test_requests_are_signed_as_apache_signs_them(
    ext: dict[str, str | None] | None, body: bytes, content: bytes, expected: str
) -> None:
    fields = signed(ext, body)
    assert fields == {**(ext or {}), "AccessKey": ACCESS, "Signature": expected}
    assert signed_content(fields, body) == content
    assert is_signed_by(fields, body, secret_key=SECRET)


def test_upper_case_names_come_before_the_underscore_and_lower_case() -> None:
    assert signed_content({"b": "4", "_x": "3", "Z": "2", "A": "1", "Signature": "no"}, b"!") == b"1234!"


def test_names_are_ordered_by_utf16_units() -> None:
    # U+FF5E is one unit 0xFF5E, U+1F600 two that begin with 0xD83D: Java sorts the emoji first.
    assert signed_content({"～": "2", "😀": "1"}, b"") == b"12"


def test_a_token_is_signed_too() -> None:
    fields = sign_request({}, b"", access_key=ACCESS, secret_key=SECRET, security_token="tok")
    assert fields["SecurityToken"] == "tok"
    assert fields["Signature"] == signature(b"rocketmq2tok", SECRET)


@given(ext_fields, st.binary(max_size=30), st.booleans())
def test_what_is_signed_is_accepted(ext: dict[str, str | None], body: bytes, is_binary: bool) -> None:
    fields = signed(ext, body, is_binary=is_binary)
    if is_binary:
        fields = {name: value or None for name, value in fields.items()}  # what the binary header makes of it
    assert is_signed_by(fields, body, secret_key=SECRET)
    assert not is_signed_by(fields, body + b"x", secret_key=SECRET)
    assert not is_signed_by(fields, body, secret_key=SECRET + "x")
    assert not is_signed_by({**fields, "AccessKey": "another"}, body, secret_key=SECRET)


def test_a_request_without_a_signature_is_refused() -> None:
    assert not is_signed_by(None, b"", secret_key=SECRET)
    assert not is_signed_by({"AccessKey": ACCESS}, b"", secret_key=SECRET)
    assert not is_signed_by({"AccessKey": ACCESS, "Signature": None}, b"", secret_key=SECRET)
    assert not is_signed_by({"AccessKey": ACCESS, "Signature": "中"}, b"", secret_key=SECRET)


def test_a_query_is_signed_without_the_field_that_brokers_leave_out() -> None:
    with_field = signed({"topic": "T", "_UNIQUE_KEY_QUERY": "true"})
    assert with_field["Signature"] == signed({"topic": "T"})["Signature"]
    assert with_field["_UNIQUE_KEY_QUERY"] == "true"


def test_a_query_of_a_newer_client_that_signed_it_is_accepted() -> None:
    fields: dict[str, str | None] = {"AccessKey": ACCESS, "topic": "T", "_UNIQUE_KEY_QUERY": "true"}
    for content in (b"rocketmq2trueT", b"rocketmq2T"):
        assert is_signed_by({**fields, "Signature": signature(content, SECRET)}, b"", secret_key=SECRET)


def test_an_empty_value_in_a_binary_header_is_signed_as_the_word_null() -> None:
    assert signed({"a": ""}, is_binary=True)["Signature"] == signature(b"rocketmq2null", SECRET)
    assert signed({"a": ""})["Signature"] == signature(b"rocketmq2", SECRET)


def test_both_readings_of_an_empty_value_are_accepted() -> None:
    for content in (b"rocketmq2null", b"rocketmq2"):
        fields = {"AccessKey": ACCESS, "a": None, "Signature": signature(content, SECRET)}
        assert is_signed_by(fields, b"", secret_key=SECRET)
