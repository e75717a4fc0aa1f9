"""The quick form of an expression answers as the general one, and leaves to it what is not plain."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocketmq.filters import SqlFilter
from skyrocketmq.filters.sql import LAYOUTS_MAX, LEARNING_MAX
from skyrocketmq.filters.sql_parser import parse_sql
from skyrocketmq.filters.sql_quick import can_be_quick, layout_of
from skyrocketmq.wire.records import encode_record

NAMES = ("a", "b", "c", "ab", "$d")


def quick_answer(expression: str, properties: bytes) -> bool | None:
    """Of the quick form that is made for these very properties; None if there is none."""
    layout = layout_of(parse_sql(expression).condition, SqlFilter(expression).names, properties)
    return None if layout is None else layout.test(properties, 0, len(properties))


@pytest.mark.parametrize(
    ("expression", "properties", "answer"),
    [
        ("a > 5 AND b = 'x'", b"id\x017\x02a\x016\x02b\x01x", True),
        ("a > 5 AND b = 'x'", b"a\x015\x02b\x01x", False),
        ("a BETWEEN -5 AND 5", b"a\x01-5", True),
        ("a BETWEEN 0.5 AND 5.5", b"a\x015.50\x02", True),  # with a separator at the end, as old clients write it
        ("a > 5 OR b IS NULL", b"a\x011", True),
        ("NOT (a > 5 AND b > 5)", b"a\x011", True),  # one is unknown, but the other is false
        ("NOT (a > 5 AND b > 5)", b"a\x019", False),  # unknown
        ("NOT (NOT (b > 5))", b"a\x019", False),
        ("a IN ('x', 'y') AND b NOT IN ('x')", b"a\x01y\x02b\x01y", True),
        ("5 < a AND 7 = a AND 'x' <> b", b"a\x017", True),  # what is missing on the right is not equal, not unknown
        ("b <> 'x'", b"a\x017", False),
        ("NULL OR a = 7", b"a\x017", True),
        ("a", b"a\x017", False),
        ("ab = 1 AND a = 2", b"ab\x011\x02abc\x013\x02a\x012", True),
        ("a > 4294967296", b"a\x014294967297", True),
    ],
)
def test_what_is_plain_has_a_quick_form(expression: str, properties: bytes, answer: bool) -> None:
    assert quick_answer(expression, properties) is answer
    assert SqlFilter(expression).matches_any_text(properties) is answer


@pytest.mark.parametrize(
    ("expression", "properties"),
    [
        ("a > 5", b"a\x01six"),
        ("a > 5", b"a\x017.0"),  # no integer
        ("a > 5", b"a\x012147483648"),  # no 32-bit integer, or perhaps one: too long to be sure
        ("a > 5.5", b"a\x01NaN"),
        ("a > 5", b"a\x01+7"),
        ("a > 5", b"a\x011\x02a\x017"),  # a name twice
        ("a > 5", b"a\x01"),  # no value
        ("a > 5", b"a"),
        ("a > 5", b"\x0117"),
        ("a > b", b"a\x011\x02b\x012"),
        ("(a > 5) IS NULL", b"a\x011"),
        ("(a > 5) = TRUE", b"a\x011"),
        ("a = '\ufffd'", b"a\x01\xff"),
        ("a > 5", b"\x02".join(b"x%d\x011" % number for number in range(100))),
    ],
)
def test_what_is_not_plain_has_none(expression: str, properties: bytes) -> None:
    assert quick_answer(expression, properties) is None


def test_a_layout_takes_no_message_of_another_one() -> None:
    tree = parse_sql("a = 1 AND b = 1").condition
    layout = layout_of(tree, ("a", "b"), b"a\x011\x02x\x011\x02b\x011")
    assert layout is not None
    for other in (
        b"b\x011\x02x\x011\x02a\x011",
        b"a\x011\x02a\x012\x02b\x011",
        b"a\x011\x02b\x011",
        b"a\x011\x02x\x011",
    ):
        assert layout.test(other, 0, len(other)) is None
    same = b"??a\x011\x02other\x01value\x02b\x012??"
    assert layout.test(same, 2, len(same) - 2) is False


def test_a_long_expression_has_no_quick_form() -> None:
    tree = parse_sql(" OR ".join(["a = 1"] * 200)).condition
    assert not can_be_quick(tree, condition_count=200)


def test_no_more_layouts_are_learnt_than_is_sensible() -> None:
    compiled = SqlFilter("a = 1 OR b = 1")
    for number in range(3 * LEARNING_MAX):
        text = b"".join(b"x%d\x011\x02" % field for field in range(number)) + b"a\x011"
        assert compiled.matches_text(text)
    assert len(compiled._layouts) == LAYOUTS_MAX
    odd = SqlFilter("a = 1")
    for _ in range(3 * LEARNING_MAX):
        assert odd.matches_text(b"a\x01+1")
    assert odd._left_to_learn == 0
    assert odd._layouts == []


numbers = st.sampled_from(["1", "7", "-7", "0", "7.5", "2147483648", "0.5"])
numbers_above = st.sampled_from(["7", "7.5", "2147483648"])
texts = st.sampled_from(["'x'", "'7'", "'-7'", "'a,b'"])
values = st.one_of(
    st.sampled_from(
        [b"7", b"-7", b"7.5", b"x", b"+7", b"7.", b".5", b"", b"NaN", b"true", b"\xff", b"12345678901", b"-0.0"]
    ),
    st.binary(max_size=3),
)
conditions = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(NAMES), st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), numbers),
    st.builds("{} {} {}".format, numbers, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.sampled_from(NAMES)),
    st.builds("{} {} {}".format, st.sampled_from(NAMES), st.sampled_from(["=", "<>"]), texts),
    st.builds("{} IN ({}, {})".format, st.sampled_from(NAMES), texts, texts),
    st.builds(
        "{} BETWEEN {} AND {}".format, st.sampled_from(NAMES), st.sampled_from(["-7", "0", "0.5"]), numbers_above
    ),
    st.builds("{} IS {}NULL".format, st.sampled_from(NAMES), st.sampled_from(["", "NOT "])),
    st.sampled_from(["TRUE", "FALSE", "NULL", "a", "a = b", "(a > 1) IS NULL"]),
)
expressions = st.recursive(
    conditions,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=6,
)
fields = st.builds(
    b"%b\x01%b".__mod__, st.tuples(st.sampled_from([*(n.encode() for n in NAMES), b"x", b"abc"]), values)
)
properties_texts = st.lists(fields, max_size=6).map(b"\x02".join)


@settings(max_examples=100, deadline=None)
@given(expressions, st.lists(properties_texts, min_size=1, max_size=4))
def test_both_ways_agree_about_every_message(expression: str, messages: list[bytes]) -> None:
    compiled = SqlFilter(expression)
    for properties in [*messages, *messages]:
        assert compiled.matches_text(properties) is compiled.matches_any_text(properties)


@pytest.mark.parametrize("sys_flag", [0, 0x30], ids=["IPv4", "IPv6"])
def test_records_are_scanned_up_to_the_number_that_is_wanted_or_the_end_of_what_may_be_seen(sys_flag: int) -> None:
    host = bytes(20 if sys_flag else 8)
    records = [
        encode_record(
            topic=b"T",
            body=b"\x02n\x012" * number,
            properties=b"id\x01%d\x02n\x01%d" % (number, number),
            queue_id=0,
            queue_offset=number,
            log_offset=0,
            born_timestamp=0,
            born_host=host,
            store_timestamp=0,
            store_host=host,
            sys_flag=sys_flag,
        )
        for number in range(10)
    ]
    cells, at = [], 1000
    for record in records:
        cells.append((at, len(record), 0))
        at += len(record)
    compiled = SqlFilter("n BETWEEN 2 AND 7")
    asked: list[bytes] = []

    def ask(record: bytes | memoryview) -> bool:
        asked.append(bytes(record))
        return compiled.matches_text(bytes(record)[bytes(record).rindex(b"id\x01") :])

    def scan(wanted: int, end: int) -> tuple[int, list[int]]:
        places: list[tuple[int, int, int]] = []
        looked = compiled.scan(cells, memoryview(b"".join(records)), 1000, 1000, end, 92, wanted, places, ask)
        return looked, [number - 1 for number, *place in places if tuple(place) == cells[number - 1][:2]]

    assert scan(100, at) == (10, [2, 3, 4, 5, 6, 7])  # asked of each, before there is a layout
    assert asked == records
    asked.clear()
    assert scan(3, at) == (5, [2, 3, 4])
    assert asked == (records[:5] if sys_flag else [])
    assert scan(100, at - 1) == (9, [2, 3, 4, 5, 6, 7])
    assert scan(100, 1000) == (0, [])
