"""Reading a request and refusing it: what every handler needs.

A refusal is an exception with the family's code and a remark that says what was wrong and what to do about it; the
dispatcher turns it into the answer.
"""

from __future__ import annotations

from typing import Any, TypeVar

from skyrocketmq.broker.saving import Saver
from skyrocketmq.config import BrokerConfig, BrokerRole
from skyrocketmq.errors import BrokerError, IllegalArgument, ProtocolError, broker_error
from skyrocketmq.model import QUEUE_COUNT_MAX
from skyrocketmq.model.names import DLQ_PREFIX, RETRY_PREFIX, TRANSACTION_GROUP, check_group, check_topic
from skyrocketmq.wire.codes import ResponseCode, request_name
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import Header, decode_header

__all__ = [
    "change_saved",
    "check_names",
    "master_only",
    "no_consumers",
    "no_such_group",
    "no_such_topic",
    "not_the_brokers",
    "read_header",
    "refusal",
    "required",
]

T = TypeVar("T")
H = TypeVar("H", bound=Header)


def refusal(code: int, remark: str) -> BrokerError:
    return broker_error(code, remark)


def read_header(cls: type[H], frame: Frame) -> H:
    """The header of a request that refuses what it cannot read: sends and pulls."""
    try:
        return decode_header(cls, frame.ext)
    except ProtocolError as error:
        remark = f"the header of request {request_name(frame.code)} cannot be read: {error}"
        raise refusal(ResponseCode.SYSTEM_ERROR, remark) from error


def required(value: T | None, field: str, frame: Frame) -> T:
    """A field of the header that has to be there, and has to be readable: one that is neither is None by now."""
    if value is None or value == "":
        raise refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the field {field} of request {request_name(frame.code)} is missing, or is no value of its type: send it",
        )
    return value


def check_names(*, topic: str, group: str, queue_id: int) -> None:
    """Refuse what no topic and no group can be called, before anything is kept under that name.

    A group may be longer than a topic, and then its retry topic, which it may ask about, is too.
    """
    of_group = topic.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
    try:
        check_group(group)
        if of_group == topic:
            check_topic(topic)
        else:
            check_group(of_group)
    except IllegalArgument as error:
        raise refusal(ResponseCode.SYSTEM_ERROR, str(error)) from error
    if not 0 <= queue_id < QUEUE_COUNT_MAX:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"queue {queue_id}: a topic has at most {QUEUE_COUNT_MAX} queues")


def no_such_topic(topic: str, broker_name: str) -> BrokerError:
    return refusal(
        ResponseCode.TOPIC_NOT_EXIST,
        f"topic {topic} does not exist on {broker_name}: create it with `skyrocketmq admin updateTopic`, "
        "or allow autoCreateTopicEnable and send to it",
    )


def no_such_group(group: str, config: BrokerConfig) -> BrokerError:
    """A consumer group that is not known, and was not made on the spot: that is switched off, or its name is bad."""
    todo = "its name is not legal" if config.auto_create_group else "autoCreateSubscriptionGroup is false"
    return refusal(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"consumer group {group!r} does not exist on broker {config.broker_name}, and {todo}: create it with "
        "`skyrocketmq admin updateSubGroup`",
    )


def no_consumers(group: str, broker_name: str) -> str:
    """What to tell who asks for the members of a consumer group that has none."""
    return (
        f"no consumer of group {group} is connected to {broker_name}: "
        "check the group's name, and whether its consumers are running"
    )


def master_only(config: BrokerConfig, what: str) -> None:
    """Refuse on a slave what only the master decides: the slave copies it from there."""
    if config.store.broker_role is BrokerRole.SLAVE:
        raise refusal(
            ResponseCode.SYSTEM_ERROR, f"{config.broker_name} is a slave here and cannot {what}: ask its master"
        )


def not_the_brokers(group: str) -> None:
    """Refuse to change how far the broker itself is: by a foreign offset it would forget pending transactions."""
    if group == TRANSACTION_GROUP:
        raise refusal(
            ResponseCode.SYSTEM_ERROR, f"the offsets of {group} are the broker's own: use another consumer group"
        )


async def change_saved(file: Saver[Any], what: str) -> None:
    """Wait until a change that is in effect is in its file too."""
    try:
        await file.save()
    except OSError as error:
        raise refusal(
            ResponseCode.SYSTEM_ERROR,
            f"{what} is in effect, but could not be written to its file and would be lost by a restart: {error}; "
            "writing is tried again every second",
        ) from error
