"""What a consumer subscribes to, by topic as it is called on the wire, each with its handler.

The version of a subscription is the time it was made; it rises when the consumer's share of the topic's queues changes,
so that brokers see a new one. A broker refuses pulls that name a newer version than it has heard of, lest it filter by
an expression that no longer holds. Pulls name the version of the expression, not of the share: that one has been heard
of for long, and a change of members refuses nobody.
"""

from __future__ import annotations

from msgspec.structs import replace

from skyrocketmq.client.handlers import MessageHandler
from skyrocketmq.client.message_selector import MessageSelector, as_selector
from skyrocketmq.client.subscription import subscription_of
from skyrocketmq.model import SubscriptionData
from skyrocketmq.model.names import check_topic, with_namespace

__all__ = ["Subscriptions"]


class Subscriptions:
    """The table. Topics come in as users call them, unless a name says `wire_topic`."""

    def __init__(self, *, namespace: str) -> None:
        self._namespace = namespace
        self._table: dict[str, SubscriptionData] = {}
        self._expression_versions: dict[str, int] = {}
        self._handlers: dict[str, MessageHandler] = {}

    def add(
        self,
        topic: str,
        expression: str | MessageSelector = "*",
        *,
        sql: str | None = None,
        handler: MessageHandler | None = None,
        now_ms: int,
    ) -> str:
        """Subscribe; a second subscription to a topic replaces the first. Returns the topic's name on the wire."""
        check_topic(topic)
        selector = as_selector(expression, sql)
        wire_topic = with_namespace(topic, namespace=self._namespace)
        self._table[wire_topic] = subscription_of(
            wire_topic,
            selector.expression,
            sub_version=now_ms,
            expression_type=selector.expression_type,
        )
        self._expression_versions[wire_topic] = now_ms
        if handler is not None:
            self._handlers[topic] = handler
        return wire_topic

    def remove(self, topic: str) -> bool:
        """Whether the topic was subscribed."""
        self._handlers.pop(topic, None)
        return self._table.pop(with_namespace(topic, namespace=self._namespace), None) is not None

    def touch(self, wire_topic: str, *, now_ms: int) -> None:
        """Give a subscription a new version."""
        data = self._table.get(wire_topic)
        if data is not None:
            self._table[wire_topic] = replace(data, sub_version=max(now_ms, data.sub_version + 1))

    def expression_version(self, wire_topic: str) -> int:
        """The version that the subscription to a topic had when it was made."""
        return self._expression_versions.get(wire_topic, 0)

    def find(self, wire_topic: str) -> SubscriptionData | None:
        return self._table.get(wire_topic)

    def find_handler(self, topic: str) -> MessageHandler | None:
        return self._handlers.get(topic)

    @property
    def wire_topics(self) -> tuple[str, ...]:
        return tuple(self._table)

    def all(self) -> tuple[SubscriptionData, ...]:
        return tuple(self._table.values())
