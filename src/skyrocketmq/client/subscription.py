"""What a consumer tells the broker about a topic it wants: built from the topic and an expression.

The version is a time, given by the caller: a broker replaces the subscription it has only by a newer one, so a consumer
takes a new one whenever its share of the queues changes.
"""

from __future__ import annotations

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.filters import ALL_TAGS, parse_tags
from skyrocketmq.model import SQL92_EXPRESSION, TAG_EXPRESSION, SubscriptionData

__all__ = ["subscription_of"]


def subscription_of(
    topic: str, expression: str | None = ALL_TAGS, *, sub_version: int, expression_type: str = TAG_EXPRESSION
) -> SubscriptionData:
    """The subscription to a topic. None, the empty text and `*` mean every message; SQL92 needs an expression.

    >>> sorted(subscription_of("T", "TagA || TagB", sub_version=7).tags_set)
    ['TagA', 'TagB']
    """
    if expression_type == TAG_EXPRESSION:
        tags = parse_tags(expression)
        return SubscriptionData(
            topic=topic,
            sub_string=tags.expression,
            tags_set=frozenset(tags.tags),
            code_set=tags.codes,
            sub_version=sub_version,
        )
    if expression_type != SQL92_EXPRESSION:
        raise IllegalArgument(
            f"the expression type {expression_type!r} is unknown: use {TAG_EXPRESSION} or {SQL92_EXPRESSION}"
        )
    if not expression or not expression.strip():
        raise IllegalArgument(f"the SQL92 subscription to {topic} has no expression; to get every message, use '*'")
    return SubscriptionData(
        topic=topic, sub_string=expression, sub_version=sub_version, expression_type=SQL92_EXPRESSION
    )
