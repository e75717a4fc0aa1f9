"""From the tree of an SQL92 expression to a condition that can be asked: what is common is of `hot.conditions`.

A condition takes the values of the properties that the expression names, in the order of `names`, None for one that a
message does not have. What AND, OR, NOT, IN and comparisons with a number mean is said there; the rest is a function:

| | |
|---|---|
| `a = b` | unknown if only the left side is missing, false if only the right one is, true if both are |
| a property alone | unknown if it is missing, else false |

Rule: the kinds of operands are known before any message is seen, so the decisions about kinds are taken here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import Any, Final, TypeAlias

from skyrocketmq import hot
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
from skyrocketmq.filters.sql_tokens import Number, NumberKind
from skyrocketmq.filters.sql_values import compare_doubles, read_double, read_truth, reader_of
from skyrocketmq.hot.conditions import Condition

__all__ = ["Condition", "Values", "compile_condition"]

Values: TypeAlias = Sequence[str | None]
Answer: TypeAlias = Callable[[Values], bool | None]
Operand: TypeAlias = Callable[[Values], Any]

_OPERATORS: Final[dict[OrderSign, Callable[[Any, Any], bool]]] = {
    OrderSign.LESS: lt,
    OrderSign.LESS_OR_EQUAL: le,
    OrderSign.MORE: gt,
    OrderSign.MORE_OR_EQUAL: ge,
}
_MIRRORED: Final = {
    OrderSign.LESS: OrderSign.MORE,
    OrderSign.LESS_OR_EQUAL: OrderSign.MORE_OR_EQUAL,
    OrderSign.MORE: OrderSign.LESS,
    OrderSign.MORE_OR_EQUAL: OrderSign.LESS_OR_EQUAL,
}
_DIGITS_SURE: Final = {NumberKind.INT: 9, NumberKind.LONG: 18, NumberKind.DOUBLE: 0}  # so many fit in 32 and 64 bits


def compile_condition(node: Node) -> tuple[Condition, tuple[str, ...]]:
    """What a condition is asked as, and the names of the properties whose values it takes."""
    compiler = _Compiler()
    return compiler.condition(node), tuple(compiler.slots)


class _Compiler:
    def __init__(self) -> None:
        self.slots: dict[str, int] = {}  # where each property's value is found

    def _slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))

    # ----------------------------------------------------------------------------------------------------- conditions

    def condition(self, node: Node) -> Condition:
        match node:
            case Not(inner):
                return hot.Negation(self.condition(inner))
            case Junction(is_and, nodes):
                return hot.Junction([self.condition(each) for each in nodes], is_and=is_and)
            case IsIn(name, texts):
                return hot.IsIn(self._slot(name), texts)
            case IsNull(Property(name)):
                return hot.IsMissing(self._slot(name))
            case Order(sign, left, right):
                return self._order(sign, left, right)
            case Equal(left, right):
                return self._equal(left, right)
        return hot.Asked(self._rare(node))

    def _rare(self, node: Node) -> Answer:
        match node:
            case Truth(value):
                return lambda values: value
            case Property(name):
                slot = self._slot(name)
                return lambda values: None if values[slot] is None else False
            case IsNull(inner):
                operand = self._operand(inner)
                return lambda values: operand(values) is None
        raise AssertionError("the parser lets only conditions come here")

    def _order(self, sign: OrderSign, left: Node, right: Node) -> Condition:
        number_left, number_right = _number_of(left), _number_of(right)
        if isinstance(left, Property) and number_right is not None:
            return self._compared(left.name, sign.value, number_right)
        if isinstance(right, Property) and number_left is not None:
            return self._compared(right.name, _MIRRORED[sign].value, number_left)
        if number_left is not None and number_right is not None:
            answer = _OPERATORS[sign](*_same_kind(number_left, number_right))
            return hot.Asked(lambda values: answer)
        if isinstance(left, Property) and isinstance(right, Property):
            return hot.Asked(_properties_order(self._slot(left.name), self._slot(right.name), sign))
        # One side is the negative of what is no number, which is unknown; but it is asked, and what it asks may fail.
        return hot.Asked(_unknown_order(self._operand(left), self._operand(right)))

    def _equal(self, left: Node, right: Node) -> Condition:
        number = _number_of(right)
        if isinstance(left, Property):
            if number is not None:
                return self._compared(left.name, "=", number)
            if isinstance(right, Literal):
                assert isinstance(right.value, str), "numbers were handled before"
                return hot.IsIn(self._slot(left.name), (right.value,))
        return hot.Asked(_equal(self._operand(left), self._operand(right), _matcher(left, right)))

    def _compared(self, name: str, sign: str, number: Number) -> Condition:
        return hot.Compared(
            self._slot(name),
            sign,
            float(number.value) if number.kind is NumberKind.DOUBLE else number.value,
            digits_sure=_DIGITS_SURE[number.kind],
            read=reader_of(number.kind),
        )

    # ------------------------------------------------------------------------------------------------------- operands

    def _operand(self, node: Node) -> Operand:
        """The value of a node where any kind of value may stand."""
        if isinstance(node, CONDITIONS):
            return self.condition(node).ask
        number = _number_of(node)
        if number is not None:
            value = number.value
            return lambda values: value
        match node:
            case Property(name):
                slot = self._slot(name)
                return lambda values: values[slot]
            case Literal(text):
                return lambda values: text
            case Negative(inner):
                return _asked_in_vain(self._operand(inner))
        raise AssertionError("there are no other nodes")


def _number_of(node: Node) -> Number | None:
    """The number that a node stands for, signs included; None if it is not a number."""
    if isinstance(node, Literal) and not isinstance(node.value, str):
        return node.value
    if isinstance(node, Negative):
        inner = _number_of(node.operand)
        return None if inner is None else Number(inner.kind, -inner.value)
    return None


def _same_kind(left: Number, right: Number) -> tuple[int | float, int | float]:
    """Two numbers as Java compares them: a decimal on one side makes the other one a decimal too."""
    if NumberKind.DOUBLE in (left.kind, right.kind):
        return float(left.value), float(right.value)
    return left.value, right.value


# ------------------------------------------------------------------------------------------------ closures: conditions


def _properties_order(left_slot: int, right_slot: int, sign: OrderSign) -> Answer:
    compare = _OPERATORS[sign]

    def is_ordered(values: Values) -> bool | None:
        left, right = values[left_slot], values[right_slot]
        if left is None or right is None:
            return None
        return compare(compare_doubles(read_double(left), read_double(right)), 0)

    return is_ordered


def _unknown_order(left: Operand, right: Operand) -> Answer:
    def is_ordered(values: Values) -> None:
        if left(values) is not None:
            right(values)

    return is_ordered


def _equal(left: Operand, right: Operand, matches: Callable[[Any, Any], bool]) -> Answer:
    def is_equal(values: Values) -> bool | None:
        first, second = left(values), right(values)
        if first is None:
            return True if second is None else None
        return False if second is None else matches(first, second)

    return is_equal


# -------------------------------------------------------------------------------------------------- closures: operands


def _asked_in_vain(inner: Operand) -> Operand:
    def ask(values: Values) -> None:
        inner(values)

    return ask


def _matcher(left: Node, right: Node) -> Callable[[Any, Any], bool]:
    """How two values that are there are compared for equality, by the kinds of the nodes they come from."""
    left_number, right_number = _number_of(left), _number_of(right)
    if isinstance(left, CONDITIONS):
        if isinstance(right, CONDITIONS):
            return lambda first, second: bool(first == second)
        # Apache's filter fails on the one and finds the other unequal.
        return _fails if right_number is None else _differ
    if isinstance(right, CONDITIONS):
        return _differ if left_number is not None else lambda first, second: read_truth(first) == second
    if left_number is not None and right_number is not None:
        answer = bool(left_number.value == right_number.value)
        if NumberKind.DOUBLE in (left_number.kind, right_number.kind):
            answer = float(left_number.value) == float(right_number.value)
        return lambda first, second: answer
    if left_number is not None:
        read_right = reader_of(left_number.kind)
        return lambda first, second: bool(first == read_right(second))
    if right_number is not None:
        read_left = reader_of(right_number.kind)
        return lambda first, second: bool(read_left(first) == second)
    return lambda first, second: bool(first == second)


def _fails(first: object, second: object) -> bool:
    raise ValueError("a truth value cannot be compared with a text")


def _differ(first: object, second: object) -> bool:
    return False
