"""SQL92 expressions that cannot be used: refused with the place, and hostile ones within bounded time and memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.filters import SqlError, compile_sql
from skyrocketmq.filters.sql_parser import CHARACTERS_MAX, CONDITIONS_MAX, DEPTH_MAX


@pytest.mark.parametrize(
    "expression",
    [
        # The place is that of the mark below.
        ("a >", "   ^", "a property, a literal or ( was expected, found the end"),
        ("", "^", "a property, a literal or ( was expected, found the end"),
        ("a > 'cheap'", "    ^", "not a text"),
        ("'cheap' < a", "^", "not a text"),
        ("a > TRUE", "    ^", "not a truth value"),
        ("a > NULL", "    ^", "not a truth value"),
        ("(a > 5) > 3", "^", "not a truth value"),
        ("a = NULL", "  ^", "write IS NULL"),
        ("NULL <> a", "     ^", "write IS NULL"),
        ("TRUE = 5", "     ^", "cannot be compared"),
        ("a BETWEEN 9 AND 8", "          ^", "the smaller number first"),
        ("a BETWEEN 'a' AND 'b'", "          ^", "not a text"),
        ("a BETWEEN 1, 2", "           ^", "AND was expected, found ,"),
        ("5 IN ('a')", "^", "needs a property"),
        ("(a = 5) IN ('a')", "^", "needs a property"),
        ("a IN (5)", "      ^", "takes texts"),
        ("a IN ()", "      ^", "takes texts"),
        ("a IN ('a' 'b')", "          ^", ") was expected"),
        ("a IN 'a'", "     ^", "( was expected"),
        ("5", "^", "this is a value"),
        ("'text'", "^", "this is a value"),
        ("-a", "^", "this is a value"),
        ("a = 5 AND 7", "          ^", "this is a value"),
        ("7 OR a = 5", "^", "this is a value"),
        ("NOT 5", "    ^", "this is a value"),
        ("NOT a > 5", "^", "not a truth value"),
        ("a == 5", "   ^", "a property, a literal or ( was expected"),
        ("a != 5", "  ^", "write <> for not equal"),
        ("a = 5 & b = 6", "      ^", "means nothing here"),
        ('a = "x"', "    ^", "single quotes"),
        ("a = 'x", "    ^", "has no end"),
        ("a = 'x''", "       ^", "has no end"),
        ("a = 5 /* b", "      ^", "this comment has no end"),
        ("(a = 5", "      ^", ") was expected, found the end"),
        ("a IS 5", "     ^", "NULL was expected"),
        ("a IS NOT 5", "         ^", "NULL was expected"),
        ("a NOT 5", "      ^", "NOT needs BETWEEN or IN"),
        ("AND a = 5", "^", "found AND"),
        ("a = 9223372036854775808", "    ^", "too large"),
        ("a = " + "9" * 10_000, "    ^", "too large"),
        ("a = 0.0", "    ^", "above 0"),
        ("a = 1E999", "    ^", "above 0"),
        ("a = b.c", "     ^", "means nothing here"),
        ("höhe = 5", " ^", "means nothing here"),
    ],
    ids=lambda case: case[0][:30],
)
def test_an_error_points_at_its_place(expression: tuple[str, str, str]) -> None:
    text, mark, reason = expression
    with pytest.raises(SqlError) as refused:
        compile_sql(text)
    assert reason in str(refused.value)
    assert refused.value.at == mark.index("^")
    shown, below = str(refused.value).splitlines()[-2:]
    assert below == "    " + mark
    assert shown.startswith("    " + text[:30])


def test_an_error_far_inside_shows_what_is_around_it() -> None:
    text = " OR ".join(f"property{n} = {n}" for n in range(200)) + " OR AND\n  AND" + " " * 100
    with pytest.raises(SqlError) as refused:
        compile_sql(text)
    shown, below = str(refused.value).splitlines()[-2:]
    assert shown[below.index("^") :].startswith("AND   AND")
    assert len(shown) < 100
    assert shown.startswith("    ...")
    assert shown.endswith("...")


def test_a_refused_expression_is_an_illegal_argument_and_is_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(IllegalArgument, match="was expected"):
            compile_sql("a = = 5")


@pytest.mark.parametrize("opening", ["(", "NOT ", "- ", "+ ", "NOT (", "(-", "a = (", "a AND (b OR ("])
def test_depth_is_limited(opening: str) -> None:
    with pytest.raises(SqlError):
        compile_sql(opening * 100_000 + "a")


def test_an_expression_up_to_the_limits_is_evaluated() -> None:
    deep = "NOT (" * (DEPTH_MAX // 2) + "a = 5" + ")" * (DEPTH_MAX // 2)
    assert compile_sql(deep).matches({"a": "5"})
    many = " OR ".join(f"a = {n}" for n in range(CONDITIONS_MAX))
    assert compile_sql(many).matches({"a": str(CONDITIONS_MAX - 1)})
    with pytest.raises(SqlError, match="more than"):
        compile_sql(many + " OR a = 5")
    with pytest.raises(SqlError, match="characters"):
        compile_sql("a = 5" + " " * CHARACTERS_MAX)


def seconds_of(work: Callable[[], object]) -> float:
    began = time.process_time()
    try:
        work()
    except SqlError:
        pass
    return time.process_time() - began


HOSTILE: dict[str, Callable[[int], str]] = {
    "quotes": lambda n: "a = '" + "''" * n,
    "signs": lambda n: "a > " + "-" * n + "5",
    "comments": lambda n: "a = 5 " + "/**/" * n,
    "comments without an end": lambda n: "/*" * n,
    "line comments": lambda n: "--\n" * n + "a = 5",
    "line comments without an end": lambda n: "a > " + "--" * n,
    "a list": lambda n: "a IN (" + ",".join(["'x'"] * n) + ")",
    "digits": lambda n: "a = " + "1" * n,
    "decimals": lambda n: "a = 1." + "1" * n,
    "a long name": lambda n: "a" * n + " = 5",
    "blanks": lambda n: " " * n + "a = 5",
    "parentheses": lambda n: "(" * n + ")" * n,
    "equalities": lambda n: "a" + " = TRUE" * n,
    "text behind": lambda n: "a = 5 " + "b " * n,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_parsing_takes_time_in_proportion_to_the_length(kind: str) -> None:
    text = HOSTILE[kind](200_000)
    assert seconds_of(lambda: compile_sql(text)) < 1.0 + len(text) * 2e-6  # a square of this would take hours


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a = 5", "1" * 32_000),
        ("a = 5", "0" * 32_000 + "5"),
        ("a = 5.5", "1" * 32_000),
        ("a = 5.5", "0." + "0" * 32_000 + "1"),
        ("a = 5.5", " " * 32_000 + "x"),
        ("a = 5.5", "0x" + "1" * 32_000 + "p1"),
        ("a = 5.5", "1e" + "1" * 32_000),
        ("a = TRUE", "t" * 32_000),
        ("a IN ('x')", "x" * 32_000),
        ("a > b", "1" * 16_000),
    ],
)
def test_evaluating_takes_time_in_proportion_to_the_value(expression: str, value: str) -> None:
    compiled = compile_sql(expression)
    text = b"a\x01" + value.encode() + b"\x02b\x01" + value.encode()
    assert seconds_of(lambda: [compiled.matches_text(text) for _ in range(100)]) < 2.0
