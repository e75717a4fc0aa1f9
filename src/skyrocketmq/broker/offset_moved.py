"""The event that a consumer asked for an offset that a queue does not have.

Operators who want to know subscribe to the topic `OFFSET_MOVED_EVENT`: each such pull leaves a message there, with the
group as tag and key, and a JSON body that says who asked for what and was sent where.
"""

from __future__ import annotations

import logging

import msgspec

from skyrocketmq.broker.message_writer import MessageWriter, OutgoingMessage
from skyrocketmq.broker.pull_rules import PullPlan
from skyrocketmq.model import MessageQueue
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import OFFSET_MOVED_TOPIC
from skyrocketmq.ports import Clock

__all__ = ["OffsetMovedEvents"]

logger = logging.getLogger(__name__)

_encode = msgspec.json.Encoder(order="sorted").encode


class OffsetMovedEvents:
    """Stores the events of one broker."""

    def __init__(self, writer: MessageWriter, *, broker_name: str, host: bytes, clock: Clock) -> None:
        self._writer = writer
        self._broker_name = broker_name
        self._host = host
        self._clock = clock

    def store(self, plan: PullPlan, *, asked_offset: int, new_offset: int) -> None:
        """Leave the event. One that cannot be stored is logged: the pull has its answer in any case."""
        group = plan.group.group_name
        queue = MessageQueue(topic=plan.topic, broker_name=self._broker_name, queue_id=plan.queue_id)
        event = {
            "consumerGroup": group,
            "messageQueue": queue,
            "offsetNew": new_offset,
            "offsetRequest": asked_offset,
        }
        stored = self._writer.put(
            OutgoingMessage(
                topic=OFFSET_MOVED_TOPIC,
                queue_id=0,
                body=_encode(event),
                properties={names.TAGS.encode(): group.encode(), names.KEYS.encode(): group.encode()},
                born_ms=self._clock.now_ms(),
                born_host=self._host,
            )
        )
        logger.warning(
            "offset moved",
            extra={"group": group, "queue": str(queue), "asked": asked_offset, "new": new_offset}
            | ({} if stored.status.is_stored else {"event": stored.remark}),
        )
