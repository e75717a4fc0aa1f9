"""The words of an SQL92 expression.

| token | form |
|---|---|
| keyword | AND, OR, NOT, BETWEEN, IN, IS, NULL, TRUE, FALSE, in any case |
| name | letters, digits, `_` and `$`, not beginning with a digit; upper and lower case differ |
| integer | `0`, or digits without a leading zero, `L` at the end allowed; up to 64 bits |
| decimal | with a point or an exponent: `5.5`, `5.`, `.5`, `5E10`; above 0 |
| text | `'...'`, with `''` for one quote |
| sign | `( ) , = <> > >= < <= + -` |

Blanks and comments (`-- ...` up to the end of a line, `/* ... */`) may stand between all of them. Tokens are found one
by one, as the parser asks for them: what follows a complete expression is not looked at beyond its first word.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from skyrocketmq.filters.sql_errors import SqlError
from skyrocketmq.model.numbers import INT32_MAX, INT64_MAX

__all__ = ["KEYWORDS", "Number", "NumberKind", "Token", "TokenKind", "Tokens"]

KEYWORDS: Final = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE"})

_INT64_DIGITS_MAX: Final = 19
_BLANKS: Final = re.compile(r"[ \t\n\r\f]*+")
_LINE_END: Final = re.compile(r"[\n\r]")
# Possessive repetitions throughout: no text can make the expression go back and try again.
_TOKEN: Final = re.compile(
    r"(?P<name>[A-Za-z_$][A-Za-z0-9_$]*+)"
    r"|(?P<decimal>[0-9]++(?:\.[0-9]*+(?:[eE][+-]?[0-9]++)?|[eE][+-]?[0-9]++)|\.[0-9]++(?:[eE][+-]?[0-9]++)?)"
    r"|(?P<integer>0|[1-9][0-9]*+[lL]?)"
    r"|(?P<text>'(?:[^']|'')*+')"
    r"|(?P<sign><>|>=|<=|[(),=<>+-])"
)


class NumberKind(Enum):
    """What a number literal is in Java; text that is compared with it is read as the same."""

    INT = "32-bit integer"
    LONG = "64-bit integer"
    DOUBLE = "decimal number"


class Number(NamedTuple):
    kind: NumberKind
    value: int | float


class TokenKind(Enum):
    KEYWORD = "keyword"
    NAME = "name"
    NUMBER = "number"
    TEXT = "text"
    SIGN = "sign"
    END = "end"


class Token(NamedTuple):
    """One word: `text` is the keyword in capitals, the name, the sign, the number as written, or
    the text without its quotes."""

    kind: TokenKind
    text: str
    at: int

    def __str__(self) -> str:
        match self.kind:
            case TokenKind.END:
                return "the end"
            case TokenKind.TEXT:
                return "a text"
            case TokenKind.NUMBER:
                return "a number"
            case TokenKind.NAME:
                return f"the name {self.text:.40}"
            case _:
                return self.text


class Tokens:
    """The tokens of a text, with `current` to look at and `advance` to go on."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self._next_at = 0
        # A comment up to the end of a line needs that end: without one, `--` is two signs, as it is at Apache.
        line_ends = [expression.rfind("\n"), expression.rfind("\r")]
        self._last_line_end = max(line_ends)
        self.current = self._read()

    def advance(self) -> Token:
        """Go on to the next token; returns the one that was current."""
        passed, self.current = self.current, self._read()
        return passed

    def following(self) -> Token:
        """The token after the current one, which stays where it is."""
        at = self._next_at
        token = self._read()
        self._next_at = at
        return token

    def error(self, reason: str, at: int | None = None) -> SqlError:
        return SqlError(reason, self.expression, self.current.at if at is None else at)

    def _read(self) -> Token:
        expression = self.expression
        at = self._skip(self._next_at)
        found = _TOKEN.match(expression, at)
        if found is None:
            if at == len(expression):
                self._next_at = at
                return Token(TokenKind.END, "", at)
            return self._cut_text(at)
        self._next_at = found.end()
        text = found[0]
        match found.lastgroup:
            case "name":
                word = text.upper()
                return Token(TokenKind.KEYWORD, word, at) if word in KEYWORDS else Token(TokenKind.NAME, text, at)
            case "integer" | "decimal":
                return Token(TokenKind.NUMBER, text, at)
            case "text":
                return Token(TokenKind.TEXT, text[1:-1].replace("''", "'"), at)
        return Token(TokenKind.SIGN, text, at)

    def _cut_text(self, at: int) -> Token:
        """A text that never ends, but has doubled quotes: it ends with the last of them, another follows."""
        last_quote = self.expression.rfind("'")
        if self.expression[at] != "'" or last_quote == at:
            raise self.error(_unreadable(self.expression, at), at)
        self._next_at = last_quote
        return Token(TokenKind.TEXT, self.expression[at + 1 : last_quote - 1].replace("''", "'"), at)

    def _skip(self, at: int) -> int:
        """The place of the next token, after blanks and comments."""
        expression = self.expression
        while True:
            at = _BLANKS.match(expression, at).end()  # type: ignore[union-attr]  # it matches the empty text too
            if expression.startswith("--", at) and at < self._last_line_end:
                end = _LINE_END.search(expression, at)
                assert end is not None, "one follows"
                at = end.end()
            elif expression.startswith("/*", at):
                close = expression.find("*/", at + 2)
                if close < 0:
                    raise self.error("this comment has no end: write */", at)
                at = close + 2
            else:
                return at

    def number(self, token: Token) -> Number:
        """What a number token stands for; an error if there is no such number."""
        is_decimal = token.text.startswith(".") or not token.text.rstrip("lL").isdecimal()
        return self._decimal(token.text, token.at) if is_decimal else self._integer(token.text, token.at)

    def _integer(self, text: str, at: int) -> Number:
        digits = text.rstrip("lL")
        value = int(digits) if len(digits) <= _INT64_DIGITS_MAX else INT64_MAX + 1
        if value > INT64_MAX:
            raise self.error("this number is too large: integers have 64 bits, write it with a point", at)
        return Number(NumberKind.INT if value <= INT32_MAX else NumberKind.LONG, value)

    def _decimal(self, text: str, at: int) -> Number:
        value = float(text)
        if not 0 < value < float("inf"):
            raise self.error("a number with a point has to be above 0 and finite: for 0 write 0", at)
        return Number(NumberKind.DOUBLE, value)


def _unreadable(expression: str, at: int) -> str:
    match expression[at]:
        case "'":
            return "this text has no end: close it with ', and write '' for a quote inside"
        case "!":
            return "there is no sign !: write <> for not equal"
        case '"':
            return "texts stand between single quotes: '...'"
    return f"{expression[at]!r} means nothing here"
