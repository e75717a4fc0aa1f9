"""SQL92 expressions over the properties of messages: `price > 10 AND region IN ('eu', 'us')`.

An expression is compiled once and then asked of every message. Compiled ones are kept by their text, since all members
of a group send the same one with every heartbeat; so are those that cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocketmq.filters.sql_compile import Condition, Values, compile_condition
from skyrocketmq.filters.sql_errors import SqlError
from skyrocketmq.filters.sql_parser import parse_sql
from skyrocketmq.hot import PropertyReader

__all__ = ["KEPT_MAX", "SqlFilter", "compile_sql"]

KEPT_MAX: Final = 256  # expressions; the oldest makes room
KEPT_CHARACTERS_MAX: Final = 16_384  # of an expression that is kept


class SqlFilter:
    """A compiled expression.

    `names` are the properties it asks for. `condition_count` says how much work one message is. `ignored` is text after
    a complete expression. Apache's brokers take no notice of it, so neither can we, but its author should hear of it.
    """

    __slots__ = ("_condition", "_properties", "condition_count", "expression", "ignored", "names")

    def __init__(self, expression: str) -> None:
        """Raises `SqlError`."""
        parsed = parse_sql(expression)
        condition, names = compile_condition(parsed.condition)
        self.expression = expression
        self.condition_count = max(1, parsed.condition_count)
        self.ignored = expression[parsed.end :]
        self.names = names
        self._condition: Condition = condition
        self._properties = PropertyReader(names)

    def __repr__(self) -> str:
        return f"<SqlFilter {self.expression!r:.100}>"

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Whether a message with these properties is wanted."""
        return self._is_true([properties.get(name) for name in self.names])

    def matches_text(self, properties: bytes) -> bool:
        """The same of properties as a record holds them."""
        return self._is_true(self._properties.values(properties))

    def select(self, view: bytes | memoryview, base: int, cells: bytes) -> bytes:
        """The same of the records that the cells of a queue point at: a byte for each that lies in the view.

        It is 0 where the message is not wanted. The view begins at log offset `base`.
        """
        return self._properties.select(self._condition, view, base, cells)

    def _is_true(self, values: Values) -> bool:
        try:
            return self._condition.ask(values) is True
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
