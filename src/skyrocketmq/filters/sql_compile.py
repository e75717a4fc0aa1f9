"""From the tree of an SQL92 expression to functions: one closure a node, made for the kinds of its operands.

A function takes the values of the properties that the expression names, in the order of `names`, None for one that a
message does not have. A condition's function returns True, False or None, which is unknown:

| | |
|---|---|
| AND | false if one is false, else unknown if one is unknown |
| OR | true if one is true, else unknown if one is unknown |
| NOT | unknown stays unknown |
| order, IN | unknown if a property is missing |
| `a = b` | unknown if only the left side is missing, false if only the right one is, true if both are |
| a property alone | unknown if it is missing, else false |

Rule 1: conditions are asked from left to right, and no more of them than needed: a text that is no number counts only
if it is asked for. It then raises `ValueError`, which ends the whole expression.
Rule 2: the kinds of operands are known before any message is seen, so the decisions about kinds are taken here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import Any, Final, TypeAlias

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

__all__ = ["Condition", "Values", "compile_condition", "number_of"]

Values: TypeAlias = Sequence[str | None]
Condition: TypeAlias = Callable[[Values], bool | None]
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


def compile_condition(node: Node) -> tuple[Condition, tuple[str, ...]]:
    """The function of a condition, and the names of the properties whose values it takes."""
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
            case Truth(value):
                return lambda values: value
            case Property(name):
                slot = self._slot(name)
                return lambda values: None if values[slot] is None else False
            case Not(inner):
                return _negated(self.condition(inner))
            case Junction(is_and, nodes):
                return _joined([self.condition(each) for each in nodes], stop_at=not is_and)
            case IsIn(name, texts):
                return _is_in(self._slot(name), texts)
            case IsNull(operand):
                return _is_null(self._operand(operand))
            case Order(sign, left, right):
                return self._order(sign, left, right)
            case Equal(left, right):
                return self._equal(left, right)
        raise AssertionError("the parser lets only conditions come here")

    def _order(self, sign: OrderSign, left: Node, right: Node) -> Condition:
        number_left, number_right = number_of(left), number_of(right)
        if isinstance(left, Property) and number_right is not None:
            return _property_order(self._slot(left.name), sign, number_right)
        if isinstance(right, Property) and number_left is not None:
            return _property_order(self._slot(right.name), _MIRRORED[sign], number_left)
        if number_left is not None and number_right is not None:
            answer = _OPERATORS[sign](*_same_kind(number_left, number_right))
            return lambda values: answer
        if isinstance(left, Property) and isinstance(right, Property):
            return _properties_order(self._slot(left.name), self._slot(right.name), sign)
        # One side is the negative of what is no number, which is unknown; but it is asked, and what it asks may fail.
        return _unknown_order(self._operand(left), self._operand(right))

    def _equal(self, left: Node, right: Node) -> Condition:
        number = number_of(right)
        if isinstance(left, Property):
            slot = self._slot(left.name)
            if number is not None:
                return _property_is_number(slot, number)
            if isinstance(right, Literal):
                assert isinstance(right.value, str), "numbers were handled before"
                return _property_is_text(slot, right.value)
        return _equal(self._operand(left), self._operand(right), _matcher(left, right))

    # ------------------------------------------------------------------------------------------------------- operands

    def _operand(self, node: Node) -> Operand:
        """The value of a node where any kind of value may stand."""
        if isinstance(node, CONDITIONS):
            return self.condition(node)
        number = number_of(node)
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


def number_of(node: Node) -> Number | None:
    """The number that a node stands for, signs included; None if it is not a number."""
    if isinstance(node, Literal) and not isinstance(node.value, str):
        return node.value
    if isinstance(node, Negative):
        inner = number_of(node.operand)
        return None if inner is None else Number(inner.kind, -inner.value)
    return None


def _same_kind(left: Number, right: Number) -> tuple[int | float, int | float]:
    """Two numbers as Java compares them: a decimal on one side makes the other one a decimal too."""
    if NumberKind.DOUBLE in (left.kind, right.kind):
        return float(left.value), float(right.value)
    return left.value, right.value


# ------------------------------------------------------------------------------------------------ closures: conditions


def _negated(inner: Condition) -> Condition:
    def negated(values: Values) -> bool | None:
        answer = inner(values)
        return None if answer is None else not answer

    return negated


def _joined(conditions: list[Condition], *, stop_at: bool) -> Condition:
    """AND ends at the first false, OR at the first true; an unknown one on the way makes the end unknown."""
    if len(conditions) == 2:
        first, second = conditions

        def joined_two(values: Values) -> bool | None:
            left = first(values)
            if left is stop_at:
                return stop_at
            right = second(values)
            if right is stop_at:
                return stop_at
            return None if left is None or right is None else not stop_at

        return joined_two

    def joined(values: Values) -> bool | None:
        end: bool | None = not stop_at
        for condition in conditions:
            answer = condition(values)
            if answer is stop_at:
                return stop_at
            if answer is None:
                end = None
        return end

    return joined


def _is_in(slot: int, texts: frozenset[str]) -> Condition:
    def is_in(values: Values) -> bool | None:
        value = values[slot]
        return None if value is None else value in texts

    return is_in


def _is_null(operand: Operand) -> Condition:
    return lambda values: operand(values) is None


def _property_is_text(slot: int, text: str) -> Condition:
    def is_text(values: Values) -> bool | None:
        value = values[slot]
        return None if value is None else value == text

    return is_text


def _property_is_number(slot: int, number: Number) -> Condition:
    read, wanted = reader_of(number.kind), number.value

    def is_number(values: Values) -> bool | None:
        value = values[slot]
        return None if value is None else read(value) == wanted

    return is_number


def _property_order(slot: int, sign: OrderSign, number: Number) -> Condition:
    read, compare, wanted = reader_of(number.kind), _OPERATORS[sign], number.value
    if number.kind is NumberKind.DOUBLE:
        return _property_order_double(slot, sign, float(wanted))

    def is_ordered(values: Values) -> bool | None:
        value = values[slot]
        return None if value is None else compare(read(value), wanted)

    return is_ordered


def _property_order_double(slot: int, sign: OrderSign, wanted: float) -> Condition:
    compare = _OPERATORS[sign]
    if_not_a_number = compare(1, 0)  # which is above all numbers, in Java's order

    def is_ordered(values: Values) -> bool | None:
        value = values[slot]
        if value is None:
            return None
        found = read_double(value)
        return compare(found, wanted) if found == found else if_not_a_number

    return is_ordered


def _properties_order(left_slot: int, right_slot: int, sign: OrderSign) -> Condition:
    compare = _OPERATORS[sign]

    def is_ordered(values: Values) -> bool | None:
        left, right = values[left_slot], values[right_slot]
        if left is None or right is None:
            return None
        return compare(compare_doubles(read_double(left), read_double(right)), 0)

    return is_ordered


def _unknown_order(left: Operand, right: Operand) -> Condition:
    def is_ordered(values: Values) -> None:
        if left(values) is not None:
            right(values)

    return is_ordered


def _equal(left: Operand, right: Operand, matches: Callable[[Any, Any], bool]) -> Condition:
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
    left_number, right_number = number_of(left), number_of(right)
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
