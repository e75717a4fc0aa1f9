r"""Records looked at for an expression that is known for their layout: one by one, or all of a pull together.

The functions are made of text, with the condition of a layout written into them, and `match` and `find_all` bound to
its pattern. Together is quicker: the properties of all records are taken out, those that cannot match for want of a
text (`needle`) are left out, and one call of a regular expression takes the values out of all the others:

    \x03 id=7 region=north price=3 \x03 id=8 region=north price=0 \x03    ->    [(3,), (0,)]    ->    [True, False]

Rule 1: records are looked at together only if every one of them has the layout; else one by one. A pattern begins at a
mark and ends before one. With as many marks as there are texts, and one, no text holds a mark; and with as many matches
as texts each begins at its own mark and ends before the next. So no match reaches from one text into another.
Rule 2: nothing but numbered names is written into source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from skyrocketmq.wire.records import HEAD_BYTES

__all__ = ["SCAN_ALL", "Layout", "RecordScan", "make_layout"]

RecordScan: TypeAlias = Callable[
    [
        Sequence[tuple[int, int, int]],  # cells: log offset, size, tags code
        "memoryview | bytes",  # a file of the log
        int,  # its first log offset
        int,  # what may be looked at begins here
        int,  # and ends here
        int,  # the bytes of a record, with hosts of IPv4, beside its body and its properties
        int,  # how many are wanted
        Callable[["memoryview | bytes"], bool],  # asked of each record that is not plain
    ],
    tuple[int, list[int]],
]
"""Looks at the records of cells, one after the other: at how many, and the indexes of those that match.

It ends with the last one that is wanted, and before the first that is outside.
"""

_flag_and_length: Final = Struct(">i44xi").unpack_from  # of a record's head, from its system flag on
_SYS_FLAG_AT: Final = 36
assert HEAD_BYTES == _SYS_FLAG_AT + 52, "the body's length is the last field of a head"

# A number may turn out to be none when it is read: as if the pattern had not matched.
_SINGLY: Final = """
def test(text, start, end):
    found = match(text, start, end)
    if found is None:
        return None
    try:
        {values}
        return {condition}
    except ValueError:
        return None

def scan_singly(cells, view, begin, low, high, fixed_bytes, left, ask):
    wanted = []
    for number, (position, size, _) in enumerate(cells):
        if not low <= position <= high - size:
            return number, wanted
        at = position - begin
        flag, body_bytes = flag_and_length(view, at + 36)
        found = None if flag & 0x30 else match(view, at + fixed_bytes + body_bytes, at + size)
        try:
            if found is None:
                is_wanted = ask(view[at : at + size])
            else:
                {values}
                is_wanted = {condition}
        except ValueError:
            is_wanted = ask(view[at : at + size])
        if is_wanted:
            wanted.append(number)
            if len(wanted) == left:
                return number + 1, wanted
    return len(cells), wanted
"""
_TOGETHER: Final = """
def scan(cells, view, begin, low, high, fixed_bytes, left, ask):
    data = view.obj if isinstance(view, memoryview) else view  # what is cut out of it is bytes
    texts = [
        data[position + fixed_bytes - begin + body_bytes : position - begin + size]
        for position, size, _ in cells
        if low <= position <= high - size
        for flag, body_bytes in (flag_and_length(data, position - begin + 36),)
        if not flag & 0x30
    ]
    if len(texts) != len(cells):
        return scan_singly(cells, view, begin, low, high, fixed_bytes, left, ask)
    {leave_out}
    joined = between.join([b"", *texts, b""])
    found = find_all(joined)
    if len(found) != len(texts) or joined.count(mark) != len(texts) + 1:
        return scan_singly(cells, view, begin, low, high, fixed_bytes, left, ask)
    try:
        wanted = [number for number, {names} in zip(numbers, found) {hoisted} if {condition}]
    except ValueError:
        return scan_singly(cells, view, begin, low, high, fixed_bytes, left, ask)
    if len(wanted) < left:
        return len(cells), wanted
    del wanted[left:]
    return wanted[-1] + 1, wanted
"""
_LEAVE_OUT: Final = (
    "numbers = [number for number, text in enumerate(texts) if needle in text]; "
    "texts = [texts[number] for number in numbers]"
)
_LEAVE_NONE_OUT: Final = "numbers = range(len(texts))"


class Layout(NamedTuple):
    """An expression made for one layout. `test(text, start, end)` is None where the text has another one."""

    test: Callable[[bytes, int, int], bool | None]
    scan: RecordScan


def make_layout(
    pattern: bytes,
    condition: str,
    *,
    values: Sequence[str],
    hoisted: Mapping[str, str],
    constants: Mapping[str, object],
    needle: bytes | None,
) -> Layout:
    """The functions of a layout.

    `pattern` takes the `values` out of a text of properties. `hoisted` are further names of the condition, with how to
    make each. `needle` is in every text that matches, whatever its layout.
    """
    match len(values):
        case 0:
            names = "_"
        case 1:
            names = values[0]  # a pattern with one group finds texts, not tuples
        case _:
            names = f"({', '.join(values)})"
    singly = [f"{', '.join(values)}, = found.groups()"] if values else ["pass"]
    singly += [f"{name} = {text}" for name, text in hoisted.items()]
    scope: dict[str, Any] = {
        **constants,
        "match": re.compile(pattern + rb"\Z", re.DOTALL).match,
        "find_all": re.compile(rb"\x03\x02%b\x02(?=\x03)" % pattern, re.DOTALL).findall,
        "flag_and_length": _flag_and_length,
        "needle": needle,
        "mark": b"\x03",
        "between": b"\x02\x03\x02",  # the separator of properties, too: where each value may end
    }
    source = _SINGLY.format(values="; ".join(singly), condition=condition) + _TOGETHER.format(
        leave_out=_LEAVE_NONE_OUT if needle is None else _LEAVE_OUT,
        names=names,
        hoisted=" ".join(f"for {name} in ({text},)" for name, text in hoisted.items()),
        condition=condition,
    )
    exec(compile(source, "<sql92>", "exec"), scope)
    return Layout(scope["test"], scope["scan"])


def _scan_asking() -> RecordScan:
    scope: dict[str, Any] = {"match": lambda text, start, end: None, "flag_and_length": _flag_and_length}
    exec(compile(_SINGLY.format(values="pass", condition="True"), "<sql92>", "exec"), scope)
    scan: RecordScan = scope["scan_singly"]
    return scan


SCAN_ALL: Final = _scan_asking()
"""Asks of every record: for expressions that are not quick, and before a layout is known."""
