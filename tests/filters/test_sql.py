"""SQL92 expressions: what they mean, for properties that are there, missing, or not what they are taken for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.filters import SqlFilter, compile_sql
from skyrocketmq.wire.properties import encode_properties

MESSAGE = {
    "seven": "7",
    "half": "7.5",
    "big": "99999999999",
    "word": "seven",
    "yes": "TRUE",
    "no": "no",
    "quote": "it's",
    "TAGS": "TagA",
}


def matches(expression: str, properties: dict[str, str] | None = None) -> bool:
    found = MESSAGE if properties is None else properties
    compiled = compile_sql(expression)
    answer = compiled.matches(found)
    text = encode_properties(found)
    assert compiled.matches_text(text) is answer
    assert compiled.matches_text(text) is answer  # now that it knows the layout, the quick way if there is one
    return answer


@pytest.mark.parametrize(
    "expression",
    [
        "seven = 7",
        "seven = 7.0",
        "seven = 7L",
        "7 = seven",
        "7.0 = seven",
        "seven = '7'",
        "'7' = seven",
        "seven <> 8",
        "seven > 6",
        "seven > 6.5",
        "6.5 < seven",
        "seven >= 7",
        "7 >= seven",
        "seven <= 7",
        "seven < 8",
        "seven > -1",
        "-1 < seven",
        "seven > - -6",
        "seven > +6",
        "seven > --6",
        "half > 7.25",
        "half = 7.5",
        "half = 75E-1",
        "half = .75E1",
        "half > 7.",
        "big > 99999999998",
        "big > 2147483648",
        "word = 'seven'",
        "word <> 'eight'",
        "word <> seven",
        "quote = 'it''s'",
        "yes = TRUE",
        "yes <> false",
        "no = FALSE",
        "'TrUe' = TRUE",
        "seven < half",
        "seven BETWEEN 7 AND 8",
        "seven BETWEEN -7 AND 8",
        "seven BETWEEN 6.5 AND half",
        "seven NOT BETWEEN 8 AND 9",
        "seven NOT BETWEEN 9 AND 8",
        "word IN ('six', 'seven')",
        "word NOT IN ('six')",
        "(word) IN ('seven')",
        "+word IN ('seven')",
        "word in ('a','b','c','d','e','f','seven')",
        "missing IS NULL",
        "seven IS NOT NULL",
        "(seven > 8) IS NOT NULL",
        "(missing > 8) IS NULL",
        "missing = other",
        "TRUE",
        "true or missing > 5",
        "missing > 5 OR seven = 7",
        "not (seven = 8)",
        "NOT FALSE",
        "NOT NOT TRUE",
        "(seven = 7) = TRUE",
        "TRUE = (seven = 7)",
        "seven = 7 = TRUE",
        "yes = (seven = 7)",
        "TAGS = 'TagA'",
        "seven = 7 -- a comment\n AND word = 'seven'",
        "seven = /* not 8 */ 7",
        "seven = 7 /**/ AND/* a * b */word = 'seven'",
        "5 < 6",
        "5 = 5.0",
        "-5 < 5",
        "9007199254740993 = 9007199254740992.0",
    ],
)
def test_the_message_matches(expression: str) -> None:
    assert matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "seven = 8",
        "seven <> 7",
        "seven > 7",
        "word = 'Seven'",
        "WORD = 'seven'",
        "FALSE",
        "NULL",
        "NOT NULL",
        "seven",
        "NOT missing",
        "missing",
        "missing = 5",
        "missing <> 5",
        "5 = missing",
        "missing > 5",
        "missing BETWEEN 1 AND 5",
        "missing NOT BETWEEN 1 AND 5",
        "missing IN ('a')",
        "missing NOT IN ('a')",
        "NOT (missing = 5)",
        "NOT (missing > 5)",
        "missing <> other",
        "missing IS NOT NULL",
        "seven IS NULL",
        "TRUE AND missing > 5",
        "FALSE OR missing > 5",
        "-seven = 7",
        "-seven < 7",
        "-'7' = 7",
        "7 = TRUE",
        "(seven = 7) = 7",
        "half > 7",  # 7.5 is no 32-bit integer, and 7 is one
        "big > 7",
        "big = 99999999999.5",
        "word > 5",
        "word < half",
        "word = 7",
        "NOT (word = 7)",
        "word = 7 OR TRUE",  # what fails ends the whole expression
        "missing > 5 AND word > 5",
        "TRUE = yes",
        "NOT (TRUE = yes)",
        "seven = 7.00001",
    ],
)
def test_the_message_does_not_match(expression: str) -> None:
    assert not matches(expression)


@pytest.mark.parametrize("expression", ["TRUE OR word > 5", "NOT (FALSE AND word > 5)", "seven = 7 OR word = 7"])
def test_what_need_not_be_asked_cannot_fail(expression: str) -> None:
    assert matches(expression)


@pytest.mark.parametrize(
    ("first", "second", "both", "either"),
    [
        ("TRUE", "TRUE", True, True),
        ("TRUE", "FALSE", False, True),
        ("TRUE", "NULL", None, True),
        ("FALSE", "FALSE", False, False),
        ("FALSE", "NULL", False, None),
        ("NULL", "NULL", None, None),
    ],
)
def test_unknown_is_neither_true_nor_false(first: str, second: str, both: bool | None, either: bool | None) -> None:
    for left, right in ((first, second), (second, first)):
        for sign, wanted in (("AND", both), ("OR", either)):
            joined = f"({left} {sign} {right})"
            assert matches(joined) is (wanted is True)
            assert matches(f"NOT {joined}") is (wanted is False)
            assert matches(f"{joined} IS NULL") is (wanted is None)
            longer = f"({left} {sign} {right} {sign} {right})"
            assert matches(f"{longer} IS NULL") is (wanted is None)


@pytest.mark.parametrize(
    ("expression", "grouped"),
    [
        ("TRUE OR TRUE AND FALSE", "TRUE OR (TRUE AND FALSE)"),
        ("FALSE AND FALSE OR TRUE", "(FALSE AND FALSE) OR TRUE"),
        ("seven > 8 = FALSE", "(seven > 8) = FALSE"),
        ("NOT FALSE AND FALSE", "(NOT FALSE) AND FALSE"),
        ("seven BETWEEN 1 AND 9 AND word = 'seven'", "(seven BETWEEN 1 AND 9) AND word = 'seven'"),
        ("word IN ('seven') = TRUE", "(word IN ('seven')) = TRUE"),
        ("missing IS NULL AND seven = 7", "(missing IS NULL) AND seven = 7"),
        ("seven = 8 OR word = 'seven' AND half > 1.0", "seven = 8 OR (word = 'seven' AND half > 1.0)"),
    ],
)
def test_tighter_signs_bind_first(expression: str, grouped: str) -> None:
    assert matches(expression) is matches(grouped)


@pytest.mark.parametrize(
    ("text", "literal", "is_equal"),
    [
        ("+7", "7", True),
        ("007", "7", True),
        ("0" * 30 + "7", "7", True),
        ("-" + "0" * 30 + "7", "-7", True),
        (" 7", "7", False),
        ("7_0", "70", False),
        ("٧", "7", True),  # Java reads the digits of every script
        ("2147483647", "2147483647", True),
        ("-2147483648", "-2147483648", True),
        ("9" * 5000, "9", False),
        (" 7.0 ", "7.0", True),
        ("7d", "7.0", True),
        ("7F", "7.0", True),
        ("0x7p0", "7.0", True),
        ("7_0", "70.0", False),
        ("inf", "7.0", False),
        ("1e400", "7.0", False),
        ("٧", "7.0", False),
    ],
)
def test_numbers_in_texts_are_read_as_java_reads_them(text: str, literal: str, is_equal: bool) -> None:
    assert matches(f"a = {literal}", {"a": text}) is is_equal


@pytest.mark.parametrize(
    ("expression", "text"),
    [("a > 1E308", "Infinity"), ("a < -1E308", "-Infinity"), ("a > 5.0", "NaN"), ("a >= a", "NaN"), ("a > b", "0.0")],
)
def test_odd_decimals_have_javas_order(expression: str, text: str) -> None:
    assert matches(expression, {"a": text, "b": "-0.0"})


def test_of_a_repeated_property_the_last_value_counts() -> None:
    assert compile_sql("a = 2").matches_text(b"a\x011\x02b\x011\x02a\x012")
    assert compile_sql("a = 1").matches_text(b"a\x011\x02a\x01")  # a property without a value is not there


def test_an_expression_with_many_names_sees_all_of_them() -> None:
    expression = " AND ".join(f"p{n} = {n}" for n in range(20))
    assert matches(expression, {f"p{n}": str(n) for n in range(20)})
    assert not matches(expression, {f"p{n}": str(n) for n in range(19)})


def test_a_filter_tells_what_it_asks_for() -> None:
    compiled = compile_sql("a > 5 AND b IN ('x') OR a IS NULL")
    assert compiled.names == ("a", "b")
    assert compiled.condition_count == 3
    assert compiled.ignored == ""


def test_text_behind_a_complete_expression_is_ignored_and_shown() -> None:
    compiled = compile_sql("seven = 7 LIKE 'x%' @")
    assert compiled.matches(MESSAGE)
    assert compiled.ignored == "LIKE 'x%' @"


def test_an_expression_is_compiled_once() -> None:
    assert compile_sql("seven = 7 AND once = 1") is compile_sql("seven = 7 AND once = 1")


operands = st.sampled_from(["seven", "word", "missing", "half", "7", "7.5", "'seven'", "-7", "TRUE", "FALSE"])


def conditions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})")
    return joined | inner.map(lambda text: f"NOT ({text})") | inner.map(lambda text: f"(({text}) IS NULL)")


simple = st.one_of(
    operands.map(lambda operand: f"{operand} IS NULL"),
    st.sampled_from(["seven = 7", "half > 1.5", "missing < 3", "word IN ('seven')", "TRUE", "NULL", "word = '7'"]),
)


@given(st.recursive(simple, conditions, max_leaves=12))
def test_exactly_one_of_a_condition_its_negation_and_unknown_is_true(expression: str) -> None:
    answers = [f"({expression})", f"NOT ({expression})", f"({expression}) IS NULL"]
    assert [SqlFilter(each).matches(MESSAGE) for each in answers].count(True) == 1
