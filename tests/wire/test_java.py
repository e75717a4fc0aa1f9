"""Java's hash, checksum and properties text."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.wire.java import body_crc, decode_properties_text, encode_properties_text, string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagABCDEFGHIJ", 208451487),
        ("中文", 646394),
        ("TopicTest#k1", 2746024),
        ("TopicTest#OrderID188", -1231271670),
        ("AaAa", 2031744),
        ("BBBB", 2031744),  # two tags with one hash
        ("😀", 55357 * 31 + 56832),  # two UTF-16 units
    ],
)
def test_a_text_hashes_as_in_java(text: str, expected: int) -> None:
    assert string_hash(text) == expected
    assert string_hash(text.encode()) == expected


def slow_hash(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


@given(st.text(max_size=200))
def test_every_text_hashes_by_the_definition(text: str) -> None:
    assert string_hash(text) == slow_hash(text)
    assert string_hash(text.encode()) == slow_hash(text)


def test_half_a_surrogate_pair_is_a_unit_like_any_other() -> None:
    assert string_hash("\ud83d") == 0xD83D


def test_bytes_that_are_not_utf8_still_have_a_hash() -> None:
    assert string_hash(b"\xff") == 0xFFFD


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 5000])
def test_the_checksum_is_crc32_without_its_sign_bit(size: int) -> None:
    data = bytes(at * 7 % 256 for at in range(size))
    assert body_crc(data) == zlib.crc32(data) & 0x7FFFFFFF
    assert body_crc(memoryview(data)) == zlib.crc32(data) & 0x7FFFFFFF


def test_the_checksum_of_a_known_body() -> None:
    assert body_crc(b"hello") == 0x3610A686


def test_properties_text_is_read_as_java_reads_it() -> None:
    text = (
        b"# a comment\n"
        b"  ! another \\\n"
        b"brokerName=broker-a\r\n"
        b"  brokerId : 0\r"
        b"namesrvAddr   10.0.0.1:9876;10.0.0.2:9876\n"
        b"\n"
        b"list = a, \\\n"
        b"       b\n"
        b"path=C\\:\\\\store\\tx\n"
        b"empty\n"
        b"key\\ with\\=blank=value = with\n"
        b"unicode=\\u4e2d\\uD83D\\ude00\n"
        b"latin=\xe9\n"
        b"twice=1\ntwice=2\n"
        b"last=trailing blank \\"
    )
    assert decode_properties_text(text) == {
        "brokerName": "broker-a",
        "brokerId": "0",
        "namesrvAddr": "10.0.0.1:9876;10.0.0.2:9876",
        "list": "a, b",
        "path": "C:\\store\tx",
        "empty": "",
        "key with=blank": "value = with",
        "unicode": "中😀",
        "latin": "é",
        "twice": "2",
        "last": "trailing blank ",
    }


def test_a_file_of_ours_may_be_utf8() -> None:
    assert decode_properties_text("name=中\n".encode(), encoding="utf-8") == {"name": "中"}
    with pytest.raises(ProtocolError, match="not utf-8"):
        decode_properties_text(b"name=\xff", encoding="utf-8")


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(ProtocolError, match="escape"):
        decode_properties_text(b"a=\\u12")
    with pytest.raises(ProtocolError, match="escape"):
        decode_properties_text(b"a=\\u+123")


def test_ordinary_pairs_are_written_plain() -> None:
    written = encode_properties_text(
        {"namesrvAddr": "10.0.0.1:9876", "storePathRootDir": "/home/mq/store", "a": "x y=z"}
    )
    assert written == b"namesrvAddr=10.0.0.1:9876\nstorePathRootDir=/home/mq/store\na=x y=z\n"


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert decode_properties_text(encode_properties_text(properties)) == properties


@given(st.binary(max_size=200) | st.text(alphabet="\\u0dD8=: \n\r#!ab", max_size=60).map(str.encode))
def test_any_bytes_are_properties_or_one_error(data: bytes) -> None:
    try:
        decode_properties_text(data)
    except ProtocolError:
        pass
