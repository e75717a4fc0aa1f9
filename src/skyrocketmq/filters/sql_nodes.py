"""An SQL92 expression, understood: a tree of conditions over properties, literals and signs.

A node is a condition (it is true, false or unknown) or an operand (a property, a number, a text). Chains of AND and OR
are one node each, however long, so that the tree is as deep as the expression nests and no deeper.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from skyrocketmq.filters.sql_tokens import Number

__all__ = [
    "CONDITIONS",
    "Equal",
    "IsIn",
    "IsNull",
    "Junction",
    "Literal",
    "Negative",
    "Node",
    "Not",
    "Order",
    "OrderSign",
    "Property",
    "Truth",
]


@dataclass(slots=True)
class Property:
    """A message's property by name. As a condition it is never true: its value is text."""

    name: str


@dataclass(slots=True)
class Literal:
    """A number or a text."""

    value: Number | str


@dataclass(slots=True)
class Truth:
    """TRUE, FALSE or NULL."""

    value: bool | None


@dataclass(slots=True)
class Negative:
    """A minus sign. Of anything but a number it is unknown."""

    operand: Node


@dataclass(slots=True)
class Not:
    condition: Node


@dataclass(slots=True)
class Junction:
    """Conditions joined by AND (`is_and`) or by OR."""

    is_and: bool
    conditions: list[Node]


@dataclass(slots=True)
class Equal:
    left: Node
    right: Node


@dataclass(slots=True)
class IsNull:
    operand: Node


class OrderSign(Enum):
    LESS = "<"
    LESS_OR_EQUAL = "<="
    MORE = ">"
    MORE_OR_EQUAL = ">="


@dataclass(slots=True)
class Order:
    sign: OrderSign
    left: Node
    right: Node


@dataclass(slots=True)
class IsIn:
    name: str
    texts: frozenset[str]


Node: TypeAlias = Property | Literal | Truth | Negative | Not | Junction | Equal | IsNull | Order | IsIn
CONDITIONS = (Truth, Not, Junction, Equal, IsNull, Order, IsIn)
