"""From the text of an SQL92 expression to its tree.

From the loosest to the tightest, each level reading from left to right:

    or          a OR b
    and         a AND b
    equality    a = b, a <> b, a IS NULL, a IS NOT NULL
    comparison  a > b, a >= b, a < b, a <= b, a [NOT] BETWEEN b AND c, a [NOT] IN ('x', 'y')
    unary       +a, -a, NOT a
    primary     a name, a literal, ( ... )

Rule 1: the language is Apache's, with its limits: no arithmetic, no LIKE, no functions, texts cannot be ordered, IN
takes a property and texts, and NOT binds tighter than any comparison.
Rule 2: text after a complete expression is not part of it. `a > 5 b` is `a > 5`, as it is with Apache's; the parser
says where the rest begins, so that the author can hear of it.
Rule 3: one pass, no going back; depth and size are limited, and an expression beyond the limits is refused.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skyrocketmq.filters.sql_errors import SqlError
from skyrocketmq.filters.sql_nodes import (
    CONDITIONS,
    Equal,
    IsIn,
    IsNull,
    Junction,
    Literal,
    Negative,
    Node,
    Not,
    Order,
    OrderSign,
    Property,
    Truth,
)
from skyrocketmq.filters.sql_tokens import Token, TokenKind, Tokens

__all__ = ["CHARACTERS_MAX", "CONDITIONS_MAX", "DEPTH_MAX", "Parsed", "parse_sql"]

CHARACTERS_MAX: Final = 65_536  # of an expression; long ones are lists of texts for IN
CONDITIONS_MAX: Final = 1_000  # comparisons, names alone, NOTs in an expression: each is asked of every message
OPERANDS_MAX: Final = 4 * CONDITIONS_MAX  # names, literals, parentheses: as many as comparisons can have, and some
TEXTS_MAX: Final = 4_096  # in lists for IN: they are asked for all at once, but read one by one
DEPTH_MAX: Final = 100  # of parentheses, NOT and signs inside each other

_OR, _AND, _EQUALITY, _COMPARISON = range(1, 5)
_LEVELS: Final = {
    **{"OR": _OR, "AND": _AND, "=": _EQUALITY, "<>": _EQUALITY, "IS": _EQUALITY},
    **dict.fromkeys(("<", "<=", ">", ">=", "BETWEEN", "IN", "NOT"), _COMPARISON),
}
_TRUTHS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


class Parsed(NamedTuple):
    """A tree, how much work it is for each message, and where the text begins that does not belong to it.

    The work is one for each comparison, for each name or truth value that stands alone, and for each NOT. What
    a comparison compares is not counted again.
    """

    condition: Node
    condition_count: int
    end: int


def parse_sql(expression: str) -> Parsed:
    """Understand an expression; `SqlError` says what is wrong with it and where."""
    if len(expression) > CHARACTERS_MAX:
        raise SqlError(f"the expression has more than {CHARACTERS_MAX} characters", expression, CHARACTERS_MAX)
    parser = _Parser(expression)
    begin = parser.tokens.current.at
    condition = parser.condition(parser.binary(_OR), begin)
    return Parsed(condition, parser.condition_count, parser.tokens.current.at)


class _Parser:
    def __init__(self, expression: str) -> None:
        self.tokens = Tokens(expression)
        self.condition_count = 0
        self._operand_count = 0
        self._text_count = 0
        self._depth = 0

    # --------------------------------------------------------------------------------------------------------- levels

    def binary(self, lowest: int) -> Node:
        """An expression of this level or a tighter one."""
        tokens = self.tokens
        begin = tokens.current.at
        left = self._unary()
        highest = _COMPARISON
        chain: Junction | None = None  # the AND or OR that is being made longer
        while True:
            sign = tokens.current
            is_sign = sign.kind is TokenKind.SIGN or sign.kind is TokenKind.KEYWORD
            level = _LEVELS.get(sign.text, 0) if is_sign else 0
            if not lowest <= level <= highest:
                return left
            tokens.advance()
            # What a looser sign has joined is closed to tighter ones: after `a IS NULL`, a `>` begins the rest.
            highest = level
            if level <= _AND:
                right_at = tokens.current.at
                left = self.condition(left, begin)
                right = self.condition(self.binary(level + 1), right_at)
                if chain is None or chain.is_and is not (level == _AND):
                    left = chain = Junction(level == _AND, [left])
                chain.conditions.append(right)
                continue
            self._count(sign)
            left = self._equality(sign, left) if level == _EQUALITY else self._comparison(sign, left, begin)

    def _equality(self, sign: Token, left: Node) -> Node:
        tokens = self.tokens
        if sign.text == "IS":
            is_negated = self._take_keyword("NOT")
            self._expect("NULL")
            return Not(IsNull(left)) if is_negated else IsNull(left)
        right = self.binary(_COMPARISON)
        for operand in (left, right):
            if isinstance(operand, Truth) and operand.value is None:
                raise tokens.error("nothing is equal to NULL: write IS NULL or IS NOT NULL", sign.at)
        if isinstance(left, Truth) and isinstance(right, Literal):
            raise tokens.error("a truth value cannot be compared with a number or a text", sign.at)
        return Not(Equal(left, right)) if sign.text == "<>" else Equal(left, right)

    def _comparison(self, sign: Token, left: Node, left_at: int) -> Node:
        is_negated = sign.text == "NOT"
        if is_negated:
            sign = self.tokens.advance()
        match sign.text:
            case "BETWEEN" if sign.kind is TokenKind.KEYWORD:
                return self._between(sign, left, left_at, is_negated=is_negated)
            case "IN" if sign.kind is TokenKind.KEYWORD:
                return self._in(left, left_at, is_negated=is_negated)
        if is_negated:
            raise self.tokens.error("after a value, NOT needs BETWEEN or IN", sign.at)
        right_at = self.tokens.current.at
        right = self._unary()
        self._check_order(sign.text, (left, left_at), (right, right_at))
        return Order(OrderSign(sign.text), left, right)

    def _between(self, sign: Token, left: Node, left_at: int, *, is_negated: bool) -> Node:
        low_at = self.tokens.current.at
        low = self._unary()
        self._expect("AND")
        high_at = self.tokens.current.at
        high = self._unary()
        self._check_order(sign.text, (left, left_at), (low, low_at), (high, high_at))
        self._count(sign)  # once more: it is two comparisons
        if is_negated:
            return Junction(False, [Order(OrderSign.LESS, left, low), Order(OrderSign.MORE, left, high)])
        if isinstance(low, Literal) and isinstance(high, Literal):
            assert not isinstance(low.value, str), "texts were refused"
            assert not isinstance(high.value, str), "texts were refused"
            if low.value.value > high.value.value:
                raise self.tokens.error("BETWEEN needs the smaller number first", low_at)
        return Junction(True, [Order(OrderSign.MORE_OR_EQUAL, left, low), Order(OrderSign.LESS_OR_EQUAL, left, high)])

    def _in(self, left: Node, left_at: int, *, is_negated: bool) -> Node:
        if not isinstance(left, Property):
            raise self.tokens.error("IN needs a property on its left", left_at)
        self._expect("(")
        texts = [self._text()]
        while self._take_sign(","):
            texts.append(self._text())
            self._text_count += 1
            if self._text_count >= TEXTS_MAX:
                raise self.tokens.error(f"the expression has more than {TEXTS_MAX} texts for IN")
        self._expect(")")
        found = IsIn(left.name, frozenset(texts))
        return Not(found) if is_negated else found

    def _unary(self) -> Node:
        sign = self.tokens.current
        is_keyword = sign.kind is TokenKind.KEYWORD
        if not (is_keyword and sign.text == "NOT") and not (sign.kind is TokenKind.SIGN and sign.text in "+-("):
            return self._primary()
        self._depth += 1
        self._count_operand()
        if self._depth > DEPTH_MAX:
            raise self.tokens.error(f"the expression nests deeper than {DEPTH_MAX}")
        self.tokens.advance()
        operand_at = self.tokens.current.at
        node: Node
        match sign.text:
            case "(":
                node = self.binary(_OR)
                self._expect(")")
            case "NOT":
                self._count(sign)
                node = Not(self.condition(self._unary(), operand_at))
            case "-":
                node = Negative(self._unary())
            case _:
                node = self._unary()
        self._depth -= 1
        return node

    def _primary(self) -> Node:
        token = self.tokens.current
        self._count_operand()
        match token.kind:
            case TokenKind.NAME:
                self.tokens.advance()
                return Property(token.text)
            case TokenKind.NUMBER:
                self.tokens.advance()
                return Literal(self.tokens.number(token))
            case TokenKind.TEXT:
                self.tokens.advance()
                return Literal(token.text)
            case TokenKind.KEYWORD if token.text in _TRUTHS:
                self.tokens.advance()
                return Truth(_TRUTHS[token.text])
        raise self.tokens.error(f"a property, a literal or ( was expected, found {token}")

    # --------------------------------------------------------------------------------------------------------- checks

    def condition(self, node: Node, at: int) -> Node:
        """The node, where something that is true or false is needed."""
        if isinstance(node, Property | Truth):
            self._count(self.tokens.current)
        if isinstance(node, (*CONDITIONS, Property)):
            return node
        raise self.tokens.error("a condition was expected, this is a value: compare it with something", at)

    def _check_order(self, sign: str, *operands: tuple[Node, int]) -> None:
        for operand, at in operands:
            if isinstance(operand, CONDITIONS):
                raise self.tokens.error(f"{sign} needs a number or a property, not a truth value", at)
            if isinstance(operand, Literal) and isinstance(operand.value, str):
                raise self.tokens.error(f"{sign} needs a number or a property, not a text", at)

    def _count_operand(self) -> None:
        self._operand_count += 1
        if self._operand_count > OPERANDS_MAX:
            raise self.tokens.error(f"the expression has more than {OPERANDS_MAX} names, literals and parentheses")

    def _count(self, sign: Token) -> None:
        self.condition_count += 1
        if self.condition_count > CONDITIONS_MAX:
            raise self.tokens.error(f"the expression has more than {CONDITIONS_MAX} comparisons", sign.at)

    # --------------------------------------------------------------------------------------------------------- tokens

    def _text(self) -> str:
        if self.tokens.current.kind is not TokenKind.TEXT:
            raise self.tokens.error(f"IN takes texts between single quotes, found {self.tokens.current}")
        return self.tokens.advance().text

    def _take_keyword(self, word: str) -> bool:
        is_there = self.tokens.current.kind is TokenKind.KEYWORD and self.tokens.current.text == word
        if is_there:
            self.tokens.advance()
        return is_there

    def _take_sign(self, sign: str) -> bool:
        is_there = self.tokens.current.kind is TokenKind.SIGN and self.tokens.current.text == sign
        if is_there:
            self.tokens.advance()
        return is_there

    def _expect(self, word: str) -> None:
        if not (self._take_sign(word) or self._take_keyword(word)):
            raise self.tokens.error(f"{word} was expected, found {self.tokens.current}")
