"""SQL92 expressions over the properties of messages: `price > 10 AND region IN ('eu', 'us')`.

An expression is compiled once and then asked of every message. Compiled ones are kept by their text, since all members
of a group send the same one with every heartbeat; so are those that cannot be compiled. For messages of a few layouts
each has quick forms (`sql_quick`), made when the first message of a layout is met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocketmq.filters.sql_compile import Condition, Values, compile_condition
from skyrocketmq.filters.sql_errors import SqlError
from skyrocketmq.filters.sql_parser import parse_sql
from skyrocketmq.filters.sql_quick import SCAN_ALL, Layout, RecordScan, can_be_quick, layout_of
from skyrocketmq.wire.properties import decode_properties, find_property

__all__ = ["KEPT_MAX", "SqlFilter", "compile_sql"]

KEPT_MAX: Final = 256  # expressions; the oldest makes room
KEPT_CHARACTERS_MAX: Final = 16_384  # of an expression that is kept
LAYOUTS_MAX: Final = 8  # of messages, for which an expression is made quick
LEARNING_MAX: Final = 32  # times; making one takes a millisecond, and some messages come in no layout twice
_LOOKED_UP_SINGLY_MAX: Final = 4  # properties: with more names than that, splitting the whole text is quicker


class SqlFilter:
    """A compiled expression.

    `names` are the properties it asks for. `condition_count` says how much work one message is. `ignored` is the text
    after a complete expression: it is not part of it, and Apache's brokers take no notice of it, so neither can we,
    but its author should hear of it.
    """

    __slots__ = (
        "_condition",
        "_layouts",
        "_left_to_learn",
        "_marks",
        "_tree",
        "condition_count",
        "expression",
        "ignored",
        "names",
    )

    def __init__(self, expression: str) -> None:
        """Raises `SqlError`."""
        parsed = parse_sql(expression)
        condition, names = compile_condition(parsed.condition)
        self.expression = expression
        self.condition_count = max(1, parsed.condition_count)
        self.ignored = expression[parsed.end :]
        self.names = names
        self._condition: Condition = condition
        self._tree = parsed.condition
        self._layouts: list[Layout] = []  # that of the latest message first
        is_quick = can_be_quick(parsed.condition, condition_count=self.condition_count)
        self._left_to_learn = LEARNING_MAX if is_quick else 0
        # What stands before a value in the text of properties, and how long that is.
        self._marks = tuple((b"\x02%b\x01" % name, len(name) + 2, name) for name in (each.encode() for each in names))

    def __repr__(self) -> str:
        return f"<SqlFilter {self.expression!r:.100}>"

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties is wanted."""
        return self._is_true([properties.get(name) for name in self.names])

    @property
    def scan(self) -> RecordScan:
        """Looks at records, quickly at those that have the layout of the latest one that was asked about."""
        return self._layouts[0].scan if self._layouts else SCAN_ALL

    def matches_text(self, properties: bytes) -> bool:
        """The same of properties as a record holds them."""
        layouts, end = self._layouts, len(properties)
        for number, layout in enumerate(layouts):
            answer = layout.test(properties, 0, end)
            if answer is not None:
                if number:
                    layouts.insert(0, layouts.pop(number))
                return answer
        if self._left_to_learn and len(layouts) < LAYOUTS_MAX:
            self._left_to_learn -= 1
            learnt = layout_of(self._tree, self.names, properties)
            if learnt is not None:
                layouts.insert(0, learnt)
        return self.matches_any_text(properties)

    def matches_any_text(self, properties: bytes) -> bool:
        """The same, whatever the layout: the general way."""
        marks = self._marks
        if len(marks) > _LOOKED_UP_SINGLY_MAX:
            return self.matches(decode_properties(properties))
        values: list[str | None] = []
        text = b"\x02" + properties
        for mark, mark_bytes, name in marks:
            at = text.rfind(mark)
            if at < 0:
                values.append(None)
                continue
            start = at + mark_bytes
            end = text.find(b"\x02", start)
            found: bytes | None = text[start:] if end < 0 else text[start:end]
            found = found or find_property(properties, name)  # an empty value does not count: an earlier one may
            values.append(None if found is None else found.decode("utf-8", "replace"))
        try:
            return self._condition(values) is True
        except ValueError:
            return False  # as in `_is_true`

    def _is_true(self, values: Values) -> bool:
        try:
            return self._condition(values) is True
        except ValueError:
            return False  # a property is not what the expression takes it for


_kept: dict[str, SqlFilter | SqlError] = {}


def compile_sql(expression: str) -> SqlFilter:
    """The filter of an expression; `SqlError` says what is wrong with it and where."""
    known = _kept.get(expression)
    if known is None:
        try:
            known = SqlFilter(expression)
        except SqlError as error:
            known = error.with_traceback(None)
        if len(expression) <= KEPT_CHARACTERS_MAX:
            if len(_kept) >= KEPT_MAX:
                del _kept[next(iter(_kept))]
            _kept[expression] = known
    if isinstance(known, SqlError):
        raise SqlError(known.reason, known.expression, known.at)
    return known
