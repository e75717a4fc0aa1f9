r"""SQL92 at speed: an expression as one Python function, made for messages whose properties stand in one order.

A producer writes the same properties in the same order into each of its messages. For such a *layout* (which names, in
which order) all of an expression but the values is known beforehand: where each value stands, and which properties are
missing. So a regular expression takes the values out of the text in one go, and what is left of the expression is
compiled to a line of Python without any unknown in it:

    price > 0.5 AND region = 'north' AND color IS NULL      (messages with `id`, `region` and `price`)
    [^\x02prc][^\x02]*\x02region\x01([^\x02]+)\x02price\x01(-?[0-9]{1,15}(?:\.[0-9]{0,15})?)\Z
    float(v1) > c0 and v0 == c1

Rule 1: the general way (`sql_compile`) decides what an expression means, and is asked wherever something is not plain:
in an expression (no layout is made of it) or in a message (its layout does not match: another order, a name twice, an
empty value, a number of unusual form).
Rule 2: no text of an expression or of a message becomes source: names and values are patterns and bound constants.
Rule 3: a pattern has no two ways to match a text, so that a text which does not match costs a few passes over it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from skyrocketmq.filters.sql_compile import number_of
from skyrocketmq.filters.sql_nodes import Equal, IsIn, IsNull, Junction, Literal, Node, Not, Order, Property, Truth
from skyrocketmq.filters.sql_tokens import Number, NumberKind
from skyrocketmq.wire.records import HEAD_BYTES

__all__ = ["SCAN_ALL", "Layout", "RecordScan", "can_be_quick", "layout_of"]

CONDITIONS_MAX: Final = 64  # of an expression that is made quick: longer ones would take long to compile
FIELDS_MAX: Final = 64  # of a layout

RecordScan: TypeAlias = Callable[
    [
        Iterable[tuple[int, int, int]],  # cells: log offset, size, tags code
        "memoryview | bytes",  # a file of the log
        int,  # its first log offset
        int,  # what may be looked at begins here
        int,  # and ends here
        int,  # the bytes of a record, with hosts of IPv4, beside its body and its properties
        int,  # how many are wanted
        "list[tuple[int, int, int]]",  # gets what was found: how many cells were looked at, log offset, size
        Callable[["memoryview | bytes"], bool],  # asked of each record that is not plain
    ],
    int,
]
"""Looks at the records of cells, one after the other, and returns at how many; it ends at the first outside."""

_VALUES: Final[dict[NumberKind | None, bytes]] = {
    None: rb"[^\x02]+",
    NumberKind.INT: rb"-?[0-9]{1,9}",
    NumberKind.LONG: rb"-?[0-9]{1,18}",
    NumberKind.DOUBLE: rb"-?[0-9]{1,15}(?:\.[0-9]{0,15})?",
}
_STRICTEST_FIRST: Final = (NumberKind.INT, NumberKind.LONG, NumberKind.DOUBLE, None)
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_flag_and_length: Final = Struct(">i44xi").unpack_from  # of a record's head, from its system flag on
_SYS_FLAG_AT: Final = 36
assert HEAD_BYTES == _SYS_FLAG_AT + 52, "the body's length is the last field of a head"

_TEST: Final = """
def test(text, start, end):
    found = match(text, start, end)
    if found is None:
        return None
    {values}
    return {condition}
"""
_SCAN: Final = """
def scan(cells, view, begin, low, high, fixed_bytes, left, places, ask):
    looked = 0
    for looked, (position, size, _) in enumerate(cells, 1):
        if not low <= position <= high - size:
            return looked - 1
        at = position - begin
        flag, body_bytes = flag_and_length(view, at + 36)
        found = None if flag & 0x30 else match(view, at + fixed_bytes + body_bytes, at + size)
        if found is None:
            if not ask(view[at : at + size]):
                continue
        else:
            {values}
            if not ({condition}):
                continue
        places.append((looked, position, size))
        left -= 1
        if not left:
            break
    return looked
"""


class Layout(NamedTuple):
    """An expression made for one layout. `test(text, start, end)` is None where the text has another one."""

    test: Callable[[bytes, int, int], bool | None]
    scan: RecordScan


class _NotPlain(Exception):
    """This part of an expression is left to the general way."""


def _never(text: object, start: int, end: int) -> None:
    """Matches nothing."""


def can_be_quick(node: Node, *, condition_count: int) -> bool:
    """Whether an expression has only parts that are known here."""
    try:
        _Writer(_AllPresent()).write(node, unknown=False)
    except (_NotPlain, RecursionError):
        return False
    return condition_count <= CONDITIONS_MAX


def layout_of(node: Node, names: Iterable[str], properties: bytes) -> Layout | None:
    """The expression for messages whose properties stand like these; None if these are not plain."""
    wanted = {name.encode() for name in names}
    fields = properties.split(b"\x02")
    field_names = [field.partition(b"\x01")[0] for field in fields]
    present = [name for name in field_names if name in wanted]
    if len(fields) > FIELDS_MAX or len(set(present)) != len(present):
        return None
    writer = _Writer({name.decode(): number for number, name in enumerate(present)})
    try:
        condition = writer.write(node, unknown=False)
        pattern = _pattern(field_names, wanted, writer.kinds)
        match = re.compile(pattern, re.DOTALL).match
        if match(properties) is None:
            return None
        source = (_TEST + _SCAN).format(values=_values(writer), condition=condition)
        return _made(source, writer.constants, match)
    except (_NotPlain, RecursionError, SyntaxError, MemoryError, re.error):
        return None  # the compilers have limits of their own


def _pattern(field_names: list[bytes], wanted: set[bytes], kinds: Mapping[str, set[NumberKind | None]]) -> bytes:
    firsts = b"".join(sorted({re.escape(name[:1]) for name in wanted}))
    parts: list[bytes] = []
    for name in field_names:
        if name in wanted:
            asked = kinds.get(name.decode())
            kind = None if asked is None else next(each for each in _STRICTEST_FIRST if each in asked)
            value = _VALUES[kind] if asked is None else b"(%b)" % _VALUES[kind]
            parts.append(rb"%b\x01%b" % (re.escape(name), value))
        elif not name:
            parts.append(b"")  # after a separator at the end
        elif name[0] in firsts:
            parts.append(rb"%b\x01[^\x02]*" % re.escape(name))
        else:
            parts.append(rb"[^\x02%b][^\x02]*" % firsts)  # whatever it is, it is no property of the expression
    return rb"\x02".join(parts) + rb"\Z"


def _values(writer: _Writer) -> str:
    """The values out of a match; numbers that are compared more than once are made once."""
    names = writer.value_names()
    if not names:
        return "pass"
    made = [f"; {name} = {text}" for text, name in writer.hoisted().items()]
    return "".join(f"{name}, " for name in names) + "= found.groups()" + "".join(made)


def _made(source: str, constants: Mapping[str, object], match: object) -> Layout:
    scope: dict[str, Any] = {**constants, "match": match, "flag_and_length": _flag_and_length}
    exec(compile(source, "<sql92>", "exec"), scope)  # made here, of nothing but numbered names
    return Layout(scope["test"], scope["scan"])


SCAN_ALL: Final = _made((_TEST + _SCAN).format(values="pass", condition="True"), {}, _never).scan
"""Asks of every record: for expressions that are not quick, and before a layout is known."""


class _AllPresent(dict[str, int]):
    """Every property is there."""

    def __missing__(self, name: str) -> int:
        return 0

    def __contains__(self, name: object) -> bool:
        return True


class _Writer:
    """The condition of a layout as source.

    Unknown answers are settled while writing. A condition is asked either whether it is true, or, below a NOT, whether
    it is anything but false; `unknown` says which of the two, and is the answer for what is unknown. AND and OR ask
    their parts the same question.
    """

    def __init__(self, present: Mapping[str, int]) -> None:
        self._present = present
        self._read_count: dict[str, int] = {}  # by the source that reads a number
        self.kinds: dict[str, set[NumberKind | None]] = {}
        self.constants: dict[str, object] = {}

    def value_names(self) -> list[str]:
        """The values that are asked for, in the order of the layout; of others it counts only that they are there."""
        return [f"v{number}" for number in sorted(self._present[name] for name in self.kinds)]

    def hoisted(self) -> dict[str, str]:
        """Names for numbers that are read more than once."""
        return {text: self._number_name(text) for text, count in self._read_count.items() if count > 1}

    def write(self, node: Node, *, unknown: bool) -> str:
        text = self._write(node, unknown)
        for read, name in self.hoisted().items():
            text = text.replace(read, name)
        return text

    def _write(self, node: Node, unknown: bool) -> str:
        match node:
            case Truth(value):
                return str(unknown if value is None else value)
            case Property(name):
                return str(unknown if name not in self._present else False)
            case Not(inner):
                return f"not ({self._write(inner, not unknown)})"
            case Junction(is_and, nodes):
                return (" and " if is_and else " or ").join([f"({self._write(each, unknown)})" for each in nodes])
            case IsIn(name, texts):
                wanted = frozenset(map(_encoded, texts))
                return self._text(name, "in", wanted) if name in self._present else str(unknown)
            case IsNull(Property(name)):
                return str(name not in self._present)
            case Order(sign, left, right):
                return self._order(sign.value, left, right, unknown)
            case Equal(left, right):
                return self._equal(left, right, unknown)
        raise _NotPlain

    def _order(self, sign: str, left: Node, right: Node, unknown: bool) -> str:
        if isinstance(right, Property):
            sign, left, right = _MIRRORED[sign], right, left
        number = number_of(right)
        if not isinstance(left, Property) or number is None:
            raise _NotPlain
        return self._number(left.name, sign, number) if left.name in self._present else str(unknown)

    def _equal(self, left: Node, right: Node, unknown: bool) -> str:
        if isinstance(right, Property):
            left, right, unknown = right, left, False  # a property that is missing on the right is not equal
        if not isinstance(left, Property):
            raise _NotPlain
        number = number_of(right)
        if number is not None:
            return self._number(left.name, "==", number) if left.name in self._present else str(unknown)
        if not isinstance(right, Literal) or not isinstance(right.value, str):
            raise _NotPlain
        wanted = _encoded(right.value)
        return self._text(left.name, "==", wanted) if left.name in self._present else str(unknown)

    def _text(self, name: str, sign: str, wanted: object) -> str:
        self.kinds.setdefault(name, set()).add(None)
        return f"v{self._present[name]} {sign} {self._constant(wanted)}"

    def _number(self, name: str, sign: str, number: Number) -> str:
        self.kinds.setdefault(name, set()).add(number.kind)
        reader = "float" if number.kind is NumberKind.DOUBLE else "int"
        read = f"{reader}(v{self._present[name]})"
        self._read_count[read] = self._read_count.get(read, 0) + 1
        return f"{read} {sign} {self._constant(number.value)}"

    def _number_name(self, read: str) -> str:
        return read.replace("(v", "_").rstrip(")")

    def _constant(self, value: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name


def _encoded(text: str) -> bytes:
    """A text as a record holds it. Bytes that are not UTF-8 are read as U+FFFD: a text with that is not plain."""
    if "\ufffd" in text:
        raise _NotPlain
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _NotPlain from error
