"""Where a consumer begins in a queue.

A stored offset always wins. Without one it depends on what the consumer asked for:

| consume from | an ordinary topic | the group's retry topic |
|---|---|---|
| last | the end | the beginning |
| first | the beginning | the beginning |
| a time | what was stored about then | the end |

A broker answers 0 for a new group on a queue whose first message it still holds in memory, as if that were stored: a
young topic is read from its beginning, whatever was asked for. Apache's brokers do the same.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from skyrocketmq.client.broker_calls import BrokerCalls
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import ConsumeFromWhere, MessageQueue, QueueOffset
from skyrocketmq.model.names import is_retry_topic

__all__ = ["ConsumeFrom", "StartPoint", "start_point_of"]

ConsumeFrom = Literal["last", "first"] | datetime


class StartPoint:
    """Where to begin without a stored offset."""

    def __init__(self, where: ConsumeFromWhere, timestamp_ms: int = 0) -> None:
        self.where = where
        self.timestamp_ms = timestamp_ms

    async def find(self, queue: MessageQueue, calls: BrokerCalls) -> QueueOffset:
        """The offset to begin at; raises an `MQError` if the broker cannot be asked."""
        is_retry = is_retry_topic(queue.topic)
        if self.where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
            return QueueOffset(0) if is_retry else await calls.max_offset(queue)
        if self.where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            if is_retry:
                return await calls.max_offset(queue)
            return await calls.search_offset(queue, self.timestamp_ms)
        return QueueOffset(0)


def start_point_of(consume_from: ConsumeFrom) -> StartPoint:
    """What the user's word means; a time without a zone is the machine's."""
    if isinstance(consume_from, datetime):
        return StartPoint(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, round(consume_from.timestamp() * 1000))
    if consume_from == "last":
        return StartPoint(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
    if consume_from == "first":
        return StartPoint(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    raise IllegalArgument(f"consume_from = {consume_from!r}: say 'last', 'first' or give a datetime")
