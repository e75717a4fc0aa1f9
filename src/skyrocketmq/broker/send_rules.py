"""What may be sent where: the checks of a send in their order, each with its code and a remark that says what to do.

Rule 1: pure decisions and the texts of refusals; storing is the handler's.
Rule 2: a topic's own write permission is not looked at. It lives in the route, and clients keep to it there: taking it
away drains a broker without failing the sends that are under way.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.broker.answers import no_such_group
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig, BrokerRole
from skyrocketmq.errors import IllegalArgument, broker_error
from skyrocketmq.model import SubscriptionGroupConfig, TopicConfig
from skyrocketmq.model.names import CLOSED_TOPICS, PERM_WRITE, check_topic, is_retry_topic, retry_topic
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_send import SendMessageHeader, SendMessageHeaderV2

__all__ = [
    "SendHeader",
    "check_queue_id",
    "check_required",
    "check_send",
    "get_group",
    "get_topic",
    "put_status_answer",
    "put_status_code",
]

SendHeader = SendMessageHeader | SendMessageHeaderV2

_REQUIRED: Final = {  # attribute -> names on the wire, of version 1 and 2
    "topic": "topic (b)",
    "queue_id": "queueId (e)",
    "sys_flag": "sysFlag (f)",
    "born_timestamp": "bornTimestamp (g)",
    "flag": "flag (h)",
}
_CODES: Final = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
}  # every other status is a failure without a code of its own


def put_status_code(status: PutStatus) -> int:
    """The code that answers what the store says."""
    return int(_CODES.get(status, ResponseCode.SYSTEM_ERROR))


def put_status_answer(frame: Frame, status: PutStatus, remark: str) -> Frame:
    """The answer for what the store says; a remark is given where the message is not stored."""
    return frame.reply(put_status_code(status), remark=f"{status.name}: {remark}" if remark else None)


def check_required(header: SendHeader) -> None:
    """The fields without which nothing can be stored."""
    missing = [name for attribute, name in _REQUIRED.items() if getattr(header, attribute) is None]
    if missing:
        raise broker_error(
            ResponseCode.SYSTEM_ERROR,
            f"the header of a send lacks {', '.join(missing)}, or has something else there than a value: send it",
        )


def check_send(topic: str, config: BrokerConfig, topics: TopicTable, *, now_ms: int) -> None:
    """The checks that come before the topic is looked up. Raises the `BrokerError` that is the answer."""
    if now_ms < config.start_accept_send_at_ms:
        raise broker_error(
            ResponseCode.SYSTEM_ERROR,
            f"broker {config.broker_name} takes messages from {config.start_accept_send_at_ms} on "
            "(startAcceptSendRequestTimeStamp), and it is not that time yet",
        )
    if config.store.broker_role is BrokerRole.SLAVE:
        raise broker_error(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"SERVICE_NOT_AVAILABLE: {config.broker_name} is a slave here and takes no messages: send to its master, "
            "or to another broker",
        )
    known = topics.find(topic)
    if not config.permission & PERM_WRITE and known is not None and known.order:
        raise broker_error(
            ResponseCode.NO_PERMISSION,
            f"broker {config.broker_name} may not be written to now (brokerPermission), and topic {topic} is ordered",
        )
    try:
        check_topic(topic)
    except IllegalArgument as error:
        raise broker_error(ResponseCode.SYSTEM_ERROR, str(error)) from error
    if topic in CLOSED_TOPICS:
        raise broker_error(ResponseCode.NO_PERMISSION, f"topic {topic} is the broker's own: clients may not send to it")


def get_topic(header: SendHeader, topic: str, config: BrokerConfig, topics: TopicTable) -> TopicConfig:
    """The topic, made from its template where that is allowed."""
    found = topics.find(topic) or topics.create_on_send(
        topic,
        template=header.default_topic or "",
        queue_count=header.default_topic_queue_nums or 0,
        unit_mode=header.unit_mode,
    )
    if found is None:
        switch = "" if config.auto_create_topic else " (autoCreateTopicEnable is false)"
        raise broker_error(
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic {topic} does not exist on broker {config.broker_name} and may not be created by sending{switch}: "
            "create it with updateTopic",
        )
    return found


def check_queue_id(queue_id: int, topic: TopicConfig, config: BrokerConfig) -> None:
    """Below 0 the broker picks a queue of those that are written to; else the number has to be one of the topic's."""
    if queue_id < 0 and topic.write_queue_nums <= 0:
        raise broker_error(
            ResponseCode.SYSTEM_ERROR,
            f"topic {topic.topic_name} has no queue to write to on broker {config.broker_name}: see updateTopic",
        )
    count = max(topic.read_queue_nums, topic.write_queue_nums)
    if queue_id >= count:
        raise broker_error(
            ResponseCode.SYSTEM_ERROR,
            f"queue {queue_id} of topic {topic.topic_name} does not exist on broker {config.broker_name}: "
            f"it has the queues 0 to {count - 1}; ask for the route again, it has changed",
        )


def get_group(topic: str, config: BrokerConfig, groups: GroupTable) -> SubscriptionGroupConfig:
    """The consumer group that a retry topic belongs to."""
    assert is_retry_topic(topic), "only retry topics belong to a group"
    name = topic[len(retry_topic("")) :]
    group = groups.find_or_create(name)
    if group is None:
        raise no_such_group(name, config)
    return group
