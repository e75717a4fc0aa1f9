"""What a consumer wants of a topic, as one value: tags, or an SQL92 expression over properties.

    consumer.subscribe("Orders", MessageSelector.by_sql("price > 100 AND region = 'eu'"), handler)
    consumer.subscribe("Orders", MessageSelector.by_tag("TagA || TagB"), handler)

A plain text in its place names tags. Whether an SQL92 expression can be used is said by the broker, which may be newer
than we are; it has to allow them (`enablePropertyFilter`).
"""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.filters import ALL_TAGS, parse_tags
from skyrocketmq.model import SQL92_EXPRESSION, TAG_EXPRESSION

__all__ = ["MessageSelector", "as_selector"]


@dataclass(frozen=True, slots=True)
class MessageSelector:
    """An expression and its type; made by `by_sql` or `by_tag`."""

    expression: str
    expression_type: str = TAG_EXPRESSION

    @classmethod
    def by_sql(cls, expression: str) -> MessageSelector:
        """Messages whose properties make the expression true. Raises `IllegalArgument` for an empty one."""
        if not expression or not expression.strip():
            raise IllegalArgument("the SQL92 expression is empty; to get every message, subscribe to '*'")
        return cls(expression, SQL92_EXPRESSION)

    @classmethod
    def by_tag(cls, expression: str = ALL_TAGS) -> MessageSelector:
        """Messages with one of these tags, `TagA || TagB`; `*` for all."""
        return cls(parse_tags(expression).expression, TAG_EXPRESSION)


def as_selector(expression: str | MessageSelector | None, sql: str | None = None) -> MessageSelector:
    """What a caller means who may give tags, a selector, or an SQL92 expression apart."""
    if sql is None:
        return expression if isinstance(expression, MessageSelector) else MessageSelector(expression or ALL_TAGS)
    if expression not in (None, "", ALL_TAGS):
        raise IllegalArgument("a subscription filters by tags or by an SQL92 expression: give one of them")
    return MessageSelector(sql, SQL92_EXPRESSION)
