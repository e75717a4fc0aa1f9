"""Java's properties text is read as Java reads it, and what is written is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.config.properties_text import read_properties, read_property_lines, write_properties
from skyrocketmq.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1\nb : 2\nc 3\nd\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("  a=1  ", {"a": "1  "}),
        ("# a=1\n! b=2\n   # c=3\n\n \t\nd=4", {"d": "4"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("a==1", {"a": "=1"}),
        ("a = = 1", {"a": "= 1"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a=1\nb=2\na=3", {"a": "3", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=x\\\n   y\\\n\tz", {"a": "xyz"}),
        ("a=x\\\n\nb=2", {"a": "x", "b": "2"}),
        ("a=x\\\n#y", {"a": "x#y"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a=x\\", {"a": "x"}),
        ("# a comment does not go on \\\nb=2", {"b": "2"}),
        ("a\\ b\\=c\\:d=1", {"a b=c:d": "1"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u0041\\u00e9", {"a": "Aé"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=1\x0b2\u20283", {"a": "1\x0b2\u20283"}),
        ("", {}),
        ("\\\n", {}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert read_properties(text) == expected
    assert read_properties(text.encode()) == expected


def test_bytes_that_are_no_utf_8_are_latin_1() -> None:
    assert read_properties(b"a=caf\xe9") == {"a": "café"}
    assert read_properties("a=café".encode()) == {"a": "café"}


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert read_properties(b"\xef\xbb\xbfa=1") == {"a": "1"}


def test_each_assignment_knows_the_line_it_begins_on() -> None:
    lines = list(read_property_lines("# first\na=1\\\n  2\n\nb=3\na=4"))
    assert lines == [(2, "a", "12"), (5, "b", "3"), (6, "a", "4")]


def test_a_broken_unicode_escape_names_its_line() -> None:
    with pytest.raises(ConfigError, match="line 2"):
        read_properties("a=1\npath=C:\\users\\x")


def test_written_text_is_one_plain_line_a_key() -> None:
    assert write_properties({"a": "1", "path": "C:\\x y", "two words": " café\n"}) == (
        b"a=1\npath=C:\\\\x y\ntwo\\ words=\\ caf\\u00e9\\n\n"
    )


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert read_properties(write_properties(properties)) == properties


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_properties(data)
    except ConfigError:
        pass
