"""Our SQL92 filter beside Apache's: the same expressions, asked of the same messages, in the thousands."""

from __future__ import annotations

import random
from typing import Any

import pytest

from skyrocketmq.filters import SqlError, SqlFilter
from tests.interop.driver import Driver

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120, func_only=True)]

NAMES = ["a", "b", "c", "A", "_x", "$y"]
LITERALS = ["0", "1", "7", "7L", "2147483647", "2147483648", "9223372036854775807", "7.0", "6.5", ".5", "5.", "7E0"]
TEXTS = ["'7'", "'x'", "'it''s'", "''", "'true'", "'7.0'"]
TRUTHS = ["TRUE", "FALSE", "NULL"]
VALUES = ["7", "07", "+7", "-7", "7.0", "6.5", "x", "true", "False", "2147483648", "99999999999999999999", " 7", "7 "]
VALUES += ["NaN", "Infinity", "-0.0", "0.0", "7d", "0x7p0", "1e3", "it's", "null", "٧", "-", "."]
ORDERS = ["<", "<=", ">", ">="]
ODD = [
    "==",
    "!=",
    "LIKE",
    "--",
    "/* c */",
    "-- c\n",
    "@",
    "'",
    "(",
    ")",
    ",",
    "007",
    "9223372036854775808",
    "0.0",
    "IS",
]

HANDMADE = [
    *("a > 5 b", "a LIKE 'x'", "a > 5 @", "a > 5 b @", "a NOT 5", "a IS 5", "a IS NOT", "a NOT NULL", "a IS NULL > 5"),
    *("a > --5", "a = 5 -- c", "-- c", "-- c\na = 7", "a = 007", "a = 7l", "a = 0l", "a = 'x", "a = 'x''", "5 > 3"),
    *("NOT a", "NOT -a", "-a", "- - 5 = 5", "+a", "+a IN ('x')", "-a IN ('x')", "(a) IN ('x')", "(a = 7) IN ('x')"),
    *("a = b", "a <> b", "zz = yy", "zz <> yy", "zz = yy IS NULL", "a = TRUE", "TRUE = a", "TRUE = TRUE", "5 = TRUE"),
    *(
        "'true' = TRUE",
        "(a = 7) = 'true'",
        "(a = 7) = 7",
        "(a = 7) = b",
        "b = (a = 7)",
        "zz = (yy > 5)",
        "(yy > 5) = zz",
    ),
    *(
        "a BETWEEN 8 AND 7",
        "a NOT BETWEEN 8 AND 7",
        "a BETWEEN b AND c",
        "a BETWEEN 1 AND 5 = TRUE",
        "a BETWEEN -1 AND 9",
    ),
    *(
        "a BETWEEN NULL AND 5",
        "a BETWEEN 7 AND 7.0",
        "a BETWEEN 7.5 AND 7",
        "5 BETWEEN 1 AND 9",
        "a > -(b = 7)",
        "-a > 5",
    ),
    *(
        "NULL",
        "NULL = a",
        "NULL IS NULL",
        "a = -(b > 7)",
        "-(b > 7) = a",
        "-(b > 7) IS NULL",
        "a = -7",
        "-7 = a",
        "'7' = a",
    ),
    *(
        "a = 7 OR b > 5",
        "b > 5 OR a = 7",
        "NOT (b > 5)",
        "a IS NOT NULL",
        "a IN ('7',)",
        "a IN ('7' , 'x')",
        "",
        " ",
        "()",
    ),
    *("-2147483648 = a", "a = -9223372036854775808", "a > 1E308", "a < 1E-320", "a = 1E309", "a = 1E-400", "7 = 7.0"),
]


def random_operand(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(NAMES)
    if kind < 0.7:
        return rng.choice(LITERALS)
    if kind < 0.8:
        return rng.choice(TEXTS)
    if kind < 0.87:
        return rng.choice(["-", "+", "- "]) + random_operand(rng, depth)
    if kind < 0.92:
        return rng.choice(TRUTHS)
    return f"({random_condition(rng, depth - 1)})" if depth else rng.choice(NAMES)


def random_condition(rng: random.Random, depth: int) -> str:
    def operand() -> str:
        return random_operand(rng, depth)

    def condition() -> str:
        return random_condition(rng, depth - 1) if depth else rng.choice(["a = 7", "b > 5", "c IS NULL", "TRUE"])

    match rng.randrange(11):
        case 0 | 1:
            return f"{operand()} {rng.choice(['=', '<>'])} {operand()}"
        case 2 | 3:
            return f"{operand()} {rng.choice(ORDERS)} {operand()}"
        case 4:
            return f"{operand()} {rng.choice(['', 'NOT '])}BETWEEN {operand()} AND {operand()}"
        case 5:
            return f"{operand()} {rng.choice(['', 'not '])}IN ({', '.join(rng.choices(TEXTS, k=rng.randint(1, 6)))})"
        case 6:
            return f"{operand()} IS {rng.choice(['', 'NOT '])}NULL"
        case 7 | 8:
            return f"{condition()} {rng.choice(['AND', 'OR', 'and', 'Or'])} {condition()}"
        case 9:
            return f"NOT ({condition()})"
    return f"({condition()})"


def damaged(rng: random.Random, text: str) -> str:
    """Now and then an expression with a word too few or too many."""
    if rng.random() > 0.2:
        return text
    words = text.split(" ")
    at = rng.randrange(len(words))
    words[at : at + rng.randint(0, 1)] = [rng.choice(ODD)] if rng.random() < 0.7 else []
    return " ".join(words)


def random_properties(rng: random.Random) -> dict[str, str]:
    return {name: rng.choice(VALUES) for name in NAMES if rng.random() < 0.8}


def our_answer(question: dict[str, Any]) -> str:
    try:
        compiled = SqlFilter(question["sql"])
    except SqlError:
        return "refused"
    return "match" if compiled.matches(question["properties"]) else "no"


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_have_apaches_answers(java: Driver, seed: int) -> None:
    rng = random.Random(seed)
    sqls = [damaged(rng, random_condition(rng, rng.randint(0, 3))) for _ in range(5_000)]
    questions: list[dict[str, Any]] = [{"sql": sql, "properties": random_properties(rng)} for sql in sqls]
    theirs = java.call("sql_filter", wait_s=60, questions=questions)
    ours = [our_answer(question) for question in questions]
    different = [
        (question, f"Apache: {their}, ours: {our}")
        for question, their, our in zip(questions, theirs, ours, strict=True)
        if their != our
    ]
    assert different == []
    assert {answer: ours.count(answer) > 200 for answer in ("match", "no", "refused")} == dict.fromkeys(
        ("match", "no", "refused"), True
    )


def test_expressions_at_the_edges_of_the_language_have_apaches_answers(java: Driver) -> None:
    values: list[dict[str, str]] = [
        {"a": "7", "b": "x", "c": "6.5"},
        {"a": "7", "b": "true", "c": "9"},
        {"a": "-2147483648", "b": "7"},
        {"a": "NaN", "b": "-0.0", "c": "0.0"},
        {},
    ]
    questions: list[dict[str, Any]] = [{"sql": sql, "properties": each} for sql in HANDMADE for each in values]
    theirs = java.call("sql_filter", questions=questions)
    different = [
        (question, f"Apache: {their}")
        for question, their in zip(questions, theirs, strict=True)
        if our_answer(question) != their
    ]
    assert different == []
