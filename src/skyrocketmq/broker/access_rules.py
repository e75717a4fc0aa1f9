"""What a request needs of its account: nothing but a signature, permissions on topics and groups, or an administrator.

| request | needs |
|---|---|
| sends, single, batch or reply | PUB on the topic; to a retry topic SUB on its group; to the reply topic nothing |
| pulls, queries, looking at queues and messages | SUB on the topic, and on the group if one is named |
| heartbeats | SUB on every group in it and on every topic that one of them subscribes to |
| offsets and locks of a group, its members and progress | SUB on the group, and on the topic if one is named |
| the bounds of queues, statistics of a topic | PUB or SUB on the topic |
| whole tables, configuration, cleaning, accounts, anything else | an administrator |
| topics where messages of all topics wait, groups of the broker's own | an administrator, and what the request needs |

Apache's brokers check less: there a batch, a message by its id, another group's offsets or the accounts themselves need
no more than any account's signature. Each request that the protocol has is in one of the lists below, and one that is
in none needs an administrator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from skyrocketmq.access.accounts import Account, Permission
from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import HeartbeatData
from skyrocketmq.model.names import (
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TRACE_TOPIC,
    TRANSACTION_GIVEN_UP_TOPIC,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
    is_system_group,
    reply_topic,
)
from skyrocketmq.wire.bodies import decode_request
from skyrocketmq.wire.bodies_clients import CheckClientRequest, QueueLockRequest
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame

__all__ = ["ACCOUNT_REQUESTS", "Need", "missing_permission", "needs_admin", "needs_of"]

PUB, SUB, ANY = Permission.PUB, Permission.SUB, Permission.PUB | Permission.SUB
# Delayed and half messages of every topic: who may read here could read what is denied to him there.
_MIXED_TOPICS: Final = frozenset(
    {SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC, TRANSACTION_GIVEN_UP_TOPIC}
)


class Need(NamedTuple):
    """A permission on a topic or a group. A retry topic is its group."""

    name: str
    permission: Permission
    is_group: bool = False

    @property
    def is_for_admins(self) -> bool:
        return is_system_group(self.name) if self.is_group else self.name in _MIXED_TOPICS

    def __str__(self) -> str:
        return f"{'group' if self.is_group else 'topic'} {self.name}"


Fields = Mapping[str, str | None]

ACCOUNT_REQUESTS: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.DELETE_ACL_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
    }
)
# The fields that name a topic or a group, with the permission that is needed on them.
_BY_TOPIC: Final[dict[int, tuple[str, Permission]]] = {
    RequestCode.SEND_MESSAGE: ("topic", PUB),
    RequestCode.SEND_MESSAGE_V2: ("b", PUB),
    RequestCode.SEND_BATCH_MESSAGE: ("b", PUB),
    RequestCode.SEND_REPLY_MESSAGE: ("topic", PUB),
    RequestCode.SEND_REPLY_MESSAGE_V2: ("b", PUB),
    RequestCode.PULL_MESSAGE: ("topic", SUB),
    RequestCode.QUERY_MESSAGE: ("topic", SUB),
    RequestCode.QUERY_CONSUMER_OFFSET: ("topic", SUB),
    RequestCode.UPDATE_CONSUMER_OFFSET: ("topic", SUB),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: ("topic", ANY),
    RequestCode.GET_MAX_OFFSET: ("topic", ANY),
    RequestCode.GET_MIN_OFFSET: ("topic", ANY),
    RequestCode.GET_EARLIEST_MSG_STORETIME: ("topic", ANY),
    RequestCode.GET_TOPIC_STATS_INFO: ("topic", ANY),
    RequestCode.GET_CONSUME_STATS: ("topic", SUB),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ("topic", SUB),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ("topic", SUB),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: ("topic", ANY),
    RequestCode.QUERY_CONSUME_TIME_SPAN: ("topic", SUB),
    RequestCode.QUERY_CONSUME_QUEUE: ("topic", SUB),
    RequestCode.CLONE_GROUP_OFFSET: ("topic", SUB),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: ("topic", SUB),
    RequestCode.GET_TOPIC_CONFIG: ("topic", ANY),
}
_BY_GROUP: Final[dict[int, tuple[str, ...]]] = {
    RequestCode.PULL_MESSAGE: ("consumerGroup",),
    RequestCode.CONSUMER_SEND_MSG_BACK: ("group",),
    RequestCode.QUERY_CONSUMER_OFFSET: ("consumerGroup",),
    RequestCode.UPDATE_CONSUMER_OFFSET: ("consumerGroup",),
    RequestCode.UNREGISTER_CLIENT: ("consumerGroup",),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ("consumerGroup",),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ("consumerGroup",),
    RequestCode.GET_CONSUME_STATS: ("consumerGroup",),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ("group",),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ("group",),
    RequestCode.QUERY_CONSUME_TIME_SPAN: ("group",),
    RequestCode.GET_CONSUMER_RUNNING_INFO: ("consumerGroup",),
    RequestCode.QUERY_CONSUME_QUEUE: ("consumerGroup",),
    RequestCode.CLONE_GROUP_OFFSET: ("srcGroup", "destGroup"),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: ("group",),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: ("group",),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: ("group",),
}
# These say nothing of others, or are checked where the message they are about has been read.
_SIGNATURE_ALONE: Final = frozenset(
    {
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.END_TRANSACTION,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    }
)


def needs_admin(code: int) -> bool:
    """Whether the request is for administrators only."""
    return not (code in _BY_TOPIC or code in _BY_GROUP or code in _BY_BODY or code in _SIGNATURE_ALONE)


def needs_of(frame: Frame, *, cluster: str) -> Iterator[Need]:
    """The permissions that a request needs. Raises `ProtocolError` for a broken body that would say what is needed."""
    code, ext = frame.code, frame.ext or {}
    by_topic = _BY_TOPIC.get(code)
    if by_topic is not None:
        field, permission = by_topic
        topic = ext.get(field)
        if topic and not (permission is PUB and topic in (TRACE_TOPIC, reply_topic(cluster))):
            yield need_on_topic(topic, permission)
    for field in _BY_GROUP.get(code, ()):
        group = ext.get(field)
        if group:
            yield Need(group, SUB, is_group=True)
    in_body = _BY_BODY.get(code)
    if in_body is not None:
        yield from in_body(frame.body)


def need_on_topic(topic: str, permission: Permission) -> Need:
    """Whoever reads or writes a retry topic does so as a member of its group."""
    if topic.startswith(RETRY_PREFIX):
        return Need(topic.removeprefix(RETRY_PREFIX), SUB, is_group=True)
    return Need(topic, permission)


def missing_permission(account: Account, needs: Iterator[Need]) -> Need | None:
    """The first thing that an account lacks."""
    for need in needs:
        may_use = account.may_use_group if need.is_group else account.may_use_topic
        if not may_use(need.name, need.permission) or (need.is_for_admins and not account.is_admin):
            return need
    return None


# --------------------------------------------------------------------------------------------------------------- bodies


def _in_heartbeat(body: bytes) -> Iterator[Need]:
    for consumer in decode_request(HeartbeatData, body).consumer_data_set:
        yield Need(consumer.group_name, SUB, is_group=True)
        for subscription in consumer.subscription_data_set:
            yield need_on_topic(subscription.topic, SUB)


def _in_lock(body: bytes) -> Iterator[Need]:
    request = decode_request(QueueLockRequest, body)
    yield Need(request.consumer_group or "", SUB, is_group=True)


def _in_check(body: bytes) -> Iterator[Need]:
    request = decode_request(CheckClientRequest, body)
    yield Need(request.group or "", SUB, is_group=True)
    if request.subscription_data is None:
        raise ProtocolError("the check of a subscription has none")
    yield need_on_topic(request.subscription_data.topic, SUB)


_BY_BODY: Final[dict[int, Callable[[bytes], Iterator[Need]]]] = {
    RequestCode.HEART_BEAT: _in_heartbeat,
    RequestCode.LOCK_BATCH_MQ: _in_lock,
    RequestCode.UNLOCK_BATCH_MQ: _in_lock,
    RequestCode.CHECK_CLIENT_CONFIG: _in_check,
}
