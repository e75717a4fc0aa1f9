"""From messages as they lie in a queue to messages as handlers get them.

A message that comes back from the group's retry topic is shown under the topic it was first consumed from, and names
lose their namespace. A call of a handler has messages of one topic only: what came back from the retry topic is cut
where its topic changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from msgspec.structs import replace

from skyrocketmq.client.handlers import MessageHandler
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import is_retry_topic, without_namespace

__all__ = ["Deliveries", "Delivery"]

Delivery = tuple[MessageHandler | None, list[MessageView]]
"""A handler, and the messages for one call of it; None where the topic is no longer subscribed."""


class Deliveries:
    """Cuts pulled messages into calls. `find_handler` takes a topic as users call it."""

    def __init__(self, find_handler: Callable[[str], MessageHandler | None], *, namespace: str) -> None:
        self._find_handler = find_handler
        self._namespace = namespace

    def restore(self, messages: Sequence[MessageView]) -> list[MessageView]:
        """The messages under the topics that their handler knows."""
        if not messages:
            return []
        if not self._namespace and not is_retry_topic(messages[0].topic):
            return list(messages)
        return [self._restored(message) for message in messages]

    def _restored(self, message: MessageView) -> MessageView:
        topic = message.topic
        if is_retry_topic(topic):
            topic = message.properties.get(names.RETRY_TOPIC, topic)
        return replace(message, topic=without_namespace(topic, namespace=self._namespace))

    def count_max(self, queue: MessageQueue) -> int:
        """How many messages of a queue one call may have; of the retry topic one, for topics change in it."""
        if is_retry_topic(queue.topic):
            return 1
        handler = self._find_handler(without_namespace(queue.topic, namespace=self._namespace))
        return 1 if handler is None else handler.count_max

    def cut(self, messages: Sequence[MessageView]) -> list[Delivery]:
        """Restored messages of one queue, in their order, as calls of handlers."""
        if not messages:
            return []
        if not is_retry_topic(messages[0].queue.topic):
            return self._cut_run(messages[0].topic, messages)
        return [call for topic, run in groupby(messages, key=_topic) for call in self._cut_run(topic, list(run))]

    def _cut_run(self, topic: str, messages: Sequence[MessageView]) -> list[Delivery]:
        """Messages of one topic."""
        handler = self._find_handler(topic)
        count_max = handler.count_max if handler is not None else 1
        if count_max == 1:
            return [(handler, [message]) for message in messages]
        return [(handler, list(messages[at : at + count_max])) for at in range(0, len(messages), count_max)]


def _topic(message: MessageView) -> str:
    return message.topic
