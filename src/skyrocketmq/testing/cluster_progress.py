"""What brokers have stored, and how far a group is with it: asked of the brokers in this process.

A consumer tells its offsets to the broker every few seconds only, and a test should not wait for that: the members of
the group are asked directly (221), as an administrator can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skyrocketmq.broker import Broker
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageModel, MessageQueue, MessageView
from skyrocketmq.net import Connection
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_clients import ConsumerStatus
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import ConsumerStatusHeader
from skyrocketmq.wire.headers_codec import encode_header
from skyrocketmq.wire.records import decode_records

__all__ = ["is_consumed", "is_known", "stored_messages"]

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


def is_known(broker: Broker, topic: str) -> bool:
    """Whether a broker has the topic, or something that is stored of it."""
    return broker.tables.topics.find(topic) is not None or bool(broker.store.queues.of_topic(topic))


async def is_consumed(brokers: Iterable[Broker], *, group: str, topic: str) -> bool:
    """Whether the group has consumed everything that is stored of the topic now."""
    for broker in brokers:
        known = broker.tables.consumers.find(group)
        is_broadcast = known is not None and known.message_model is MessageModel.BROADCASTING
        members: list[dict[MessageQueue, int]] | None = None
        for queue in broker.store.queues.of_topic(topic):
            end = int(broker.store.max_offset(topic, queue.queue_id))
            committed = broker.tables.offsets.find(group=group, topic=topic, queue_id=queue.queue_id) or 0
            if end == 0 or (committed >= end and not is_broadcast):  # who broadcasts keeps its offsets to itself
                continue
            if members is None:
                members = await _offsets_of_members(broker, group=group, topic=topic)
            place = MessageQueue(topic, broker.identity.broker_name, queue.queue_id)
            reached = [member.get(place, 0) for member in members] or [0]
            if (min(reached) if is_broadcast else max(reached)) < end:
                return False
    return True


async def _offsets_of_members(broker: Broker, *, group: str, topic: str) -> list[dict[MessageQueue, int]]:
    """How far each member is, by its own account; one that does not answer has nothing to say."""
    return [
        await _offsets_of_member(member.connection, group=group, topic=topic)
        for member in broker.tables.consumers.members_of(group)
    ]


async def _offsets_of_member(connection: Connection, *, group: str, topic: str) -> dict[MessageQueue, int]:
    header = encode_header(ConsumerStatusHeader(topic=topic, group=group))
    try:
        answer = await connection.request(Frame(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext=header), ASK_TIMEOUT_S)
    except MQError:
        return {}
    if answer.code or not answer.body:
        return {}
    return decode_body(ConsumerStatus, answer.body).message_queue_table
