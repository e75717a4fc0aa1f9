"""What brokers have stored, and how far a group is with it: asked of the brokers in this process.

A consumer tells its offsets to the broker every few seconds only, and a test should not wait for that: the members of
the group are asked directly (221), as an administrator can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skyrocketmq.broker import Broker
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_clients import ConsumerStatus
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import ConsumerStatusHeader
from skyrocketmq.wire.headers_codec import encode_header
from skyrocketmq.wire.records import decode_records

__all__ = ["is_consumed", "stored_messages"]

READ_COUNT: Final = 32
ASK_TIMEOUT_S: Final = 1.0


async def stored_messages(brokers: Iterable[Broker], topic: str) -> list[MessageView]:
    """The messages of a topic on all brokers, in the order in which they were stored."""
    found: list[MessageView] = []
    for broker in brokers:
        for queue in broker.store.queues.of_topic(topic):
            found += await _messages_of_queue(broker, topic, queue.queue_id)
    return sorted(found, key=lambda message: (message.store_timestamp, message.broker_name, message.log_offset))


async def _messages_of_queue(broker: Broker, topic: str, queue_id: int) -> list[MessageView]:
    found: list[MessageView] = []
    offset = int(broker.store.min_offset(topic, queue_id))
    while offset < broker.store.max_offset(topic, queue_id):
        result = await broker.store.read_messages(topic, queue_id, offset, READ_COUNT)
        if result is None or result.next_offset <= offset:
            break
        found += decode_records(result.joined(), broker_name=broker.identity.broker_name)
        offset = result.next_offset
    return found


async def is_consumed(brokers: Iterable[Broker], *, group: str, topic: str) -> bool:
    """Whether the group has consumed everything that is stored of the topic now."""
    for broker in brokers:
        reached: dict[MessageQueue, int] | None = None
        for queue in broker.store.queues.of_topic(topic):
            end = int(broker.store.max_offset(topic, queue.queue_id))
            committed = broker.tables.offsets.find(group=group, topic=topic, queue_id=queue.queue_id) or 0
            if committed >= end:
                continue
            if reached is None:
                reached = await _offsets_of_members(broker, group=group, topic=topic)
            if reached.get(MessageQueue(topic, broker.identity.broker_name, queue.queue_id), 0) < end:
                return False
    return True


async def _offsets_of_members(broker: Broker, *, group: str, topic: str) -> dict[MessageQueue, int]:
    """How far the members are, by their own account; one that does not answer has nothing to say."""
    reached: dict[MessageQueue, int] = {}
    header = encode_header(ConsumerStatusHeader(topic=topic, group=group))
    for member in broker.tables.consumers.members_of(group):
        frame = Frame(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext=header)
        try:
            answer = await member.connection.request(frame, ASK_TIMEOUT_S)
        except MQError:
            continue
        if answer.code == 0 and answer.body:
            reached |= decode_body(ConsumerStatus, answer.body).message_queue_table
    return reached
