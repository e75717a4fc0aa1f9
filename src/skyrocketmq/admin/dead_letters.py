"""Dead letters: messages that a group has failed to consume as often as it may, and how to give it another chance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from skyrocketmq.admin.messages import MessageAdmin
from skyrocketmq.admin.topics import TopicAdmin
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.errors import IllegalArgument, NoRoute, NotFound
from skyrocketmq.model import Message, MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import DLQ_PREFIX, dlq_topic, is_dlq_topic, retry_topic

__all__ = ["DeadLetterAdmin"]


class DeadLetterAdmin:
    """`admin.dead_letters`."""

    def __init__(self, topics: TopicAdmin, messages: MessageAdmin) -> None:
        self._topics = topics
        self._messages = messages

    async def groups(self) -> list[str]:
        """The groups that have had dead letters."""
        names = await self._topics.names(internal=True)
        return [name.removeprefix(DLQ_PREFIX) for name in names if is_dlq_topic(name)]

    async def scan(
        self, group: str, *, begin: datetime | None = None, end: datetime | None = None
    ) -> AsyncIterator[MessageView]:
        """The dead letters of a group that were stored between two times. Raises `NotFound` if it never had any."""
        try:
            async for message in self._messages.scan(dlq_topic(group), begin=begin, end=end):
                yield message
        except NoRoute as error:
            raise NotFound(f"group {group} has no dead letters: {error}") from error

    async def resend(self, group: str, message: MessageView) -> SendResult:
        """Give a dead letter to its group once more, and to no other: as a first attempt, through its retry topic.

        The dead letter stays where it is until it expires with its log file.
        """
        origin = message.properties.get(names.RETRY_TOPIC)
        if message.queue.topic != dlq_topic(group) or origin is None:
            raise IllegalArgument(
                f"the message {message.msg_id} of topic {message.queue.topic} is no dead letter of group {group}"
            )
        again = Message(
            retry_topic(group),
            message.body,
            tags=message.tags,
            keys=message.keys,
            properties=message.user_properties,
            flag=message.flag,
            system_properties={names.RETRY_TOPIC: origin, names.ORIGIN_MESSAGE_ID: message.msg_id},
        )
        return await self._messages.send(again)
