"""Numbers and truth values in the texts of properties, read as Java reads them.

A property is text. Compared with a number it is read as a number of that kind, and a text that is not a number raises
`ValueError`: whatever the rest of an expression says, the message then does not match.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from skyrocketmq.filters.sql_tokens import NumberKind
from skyrocketmq.model.numbers import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

__all__ = ["compare_doubles", "read_double", "read_int32", "read_int64", "read_truth", "reader_of"]

_DIGITS_MAX: Final = 19  # of a 64-bit number; more are not converted, since that takes time that grows with the square
_INT32_DIGITS_SURE: Final = 10  # a number with fewer digits is one of 32 bits
_INTEGER: Final = re.compile(r"[+-]?\d++")
_DOUBLE: Final = re.compile(
    r"[\x00- ]*+([+-]?(?:NaN|Infinity|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[dDfF]?))[\x00- ]*+"
)
_HEX_DOUBLE: Final = re.compile(
    r"[\x00- ]*+([+-]?0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[dDfF]?[\x00- ]*+"
)


def read_int32(text: str) -> int:
    if len(text) < _INT32_DIGITS_SURE and text.isdecimal():
        return int(text)
    value = read_int64(text)
    if not INT32_MIN <= value <= INT32_MAX:
        raise ValueError("not a 32-bit integer")
    return value


def read_int64(text: str) -> int:
    if len(text) < _DIGITS_MAX and text.isdecimal():
        return int(text)
    if _INTEGER.fullmatch(text) is None:
        raise ValueError("not an integer")
    if len(text) > _DIGITS_MAX:
        digits = text.lstrip("+-").lstrip("0")
        if len(digits) > _DIGITS_MAX:
            raise ValueError("not a 64-bit integer")
        text = (text[0] if text[0] in "+-" else "") + (digits or "0")
    value = int(text)
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError("not a 64-bit integer")
    return value


def read_double(text: str) -> float:
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)  # what nearly every number looks like, in a third of the time
    found = _DOUBLE.fullmatch(text)
    if found is not None:
        return float(found[1].rstrip("dDfF"))
    found = _HEX_DOUBLE.fullmatch(text)
    if found is None:
        raise ValueError("not a decimal number")
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return float("-inf" if found[1].startswith("-") else "inf")


def read_truth(text: str) -> bool:
    """Only the word `true`, in any case, is true."""
    return text.lower() == "true"


_READERS: Final[dict[NumberKind, Callable[[str], int | float]]] = {
    NumberKind.INT: read_int32,
    NumberKind.LONG: read_int64,
    NumberKind.DOUBLE: read_double,
}


def reader_of(kind: NumberKind) -> Callable[[str], int | float]:
    """What reads a text that is compared with a number of this kind."""
    return _READERS[kind]


def compare_doubles(left: float, right: float) -> int:
    """Below, at or above 0, in Java's order: not-a-number above all others and equal to itself, -0.0 below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    return (_rank(left) > _rank(right)) - (_rank(left) < _rank(right))


def _rank(value: float) -> int:
    """Tells apart what `<` and `>` do not: -0.0, other numbers, not-a-number."""
    if value != value:
        return 2
    return 0 if value == 0 and str(value).startswith("-") else 1
