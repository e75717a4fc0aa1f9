"""From messages as they lie in a queue to messages as handlers get them.

A message that comes back from the group's retry topic is shown under the topic it was first consumed from, and names
lose their namespace. A call of a handler has messages of one topic only: what came back from the retry topic is cut
where its topic changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from skyrocketmq.client.handlers import MessageHandler
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import is_retry_topic, without_namespace

__all__ = ["Deliveries", "Run", "calls_of"]

Run = tuple[MessageHandler | None, Sequence[MessageView]]
"""Messages of one topic, and their handler; None where the topic is no longer subscribed."""


class Deliveries:
    """Finds the handlers of pulled messages. `find_handler` takes a topic as users call it."""

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

    def runs(self, messages: Sequence[MessageView]) -> list[Run]:
        """Restored messages of one queue, in their order, by handler."""
        if not messages:
            return []
        if not is_retry_topic(messages[0].queue.topic):
            topic = messages[0].topic
            return [(self._find_handler(topic), messages)]
        return [(self._find_handler(topic), list(run)) for topic, run in groupby(messages, key=_topic)]


def calls_of(run: Run) -> Iterator[list[MessageView]]:
    """The messages of each call. They are cut off one call after the other: a consumer may hold thousands."""
    handler, messages = run
    count_max = 1 if handler is None else handler.count_max
    if count_max == 1:
        return ([message] for message in messages)
    return (list(messages[at : at + count_max]) for at in range(0, len(messages), count_max))


def _topic(message: MessageView) -> str:
    return message.topic
