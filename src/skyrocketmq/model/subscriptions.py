"""Which messages of a topic a group wants."""

from __future__ import annotations

import msgspec

from skyrocketmq.model.numbers import Int32, Int64

__all__ = ["SQL92_EXPRESSION", "TAG_EXPRESSION", "SubscriptionData"]

TAG_EXPRESSION = "TAG"
SQL92_EXPRESSION = "SQL92"


class SubscriptionData(msgspec.Struct, frozen=True, rename="camel"):
    """A group's subscription to a topic, as clients send it and brokers keep it.

    `tags_set` and `code_set` (the Java hashes of the tags) are empty for all messages and for SQL92. `sub_version` is
    the time at which the client built it: a broker replaces what it has only by something newer.
    """

    topic: str = ""
    sub_string: str = "*"
    tags_set: frozenset[str] = frozenset()
    code_set: frozenset[Int32] = frozenset()
    sub_version: Int64 = 0
    expression_type: str | None = TAG_EXPRESSION  # None and "" count as TAG
    class_filter_mode: bool = False  # of a family feature that is gone; always false
