"""Who may pull what: the checks of a pull in their order, and what its outcome is called.

Pure decisions: each refusal is a `BrokerError` with Apache RocketMQ's code and a remark that says what to do. A group
that is made on its first pull is part of the plan; whoever carries out the plan makes it.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeVar

from skyrocketmq.broker.answers import no_such_group
from skyrocketmq.broker.clients import ConsumerTable
from skyrocketmq.broker.consumer_filters import ConsumerFilters, is_tag_type
from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.pull_filters import PullFilter, RetryFilter, SqlPullFilter
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerConfig
from skyrocketmq.errors import BrokerError, IllegalArgument, broker_error
from skyrocketmq.filters import ALL_TAGS, SqlError, compile_sql, parse_tags
from skyrocketmq.filters.sql_parser import CHARACTERS_MAX
from skyrocketmq.filters.tags import SEPARATOR
from skyrocketmq.hot import TagCodes
from skyrocketmq.model import SQL92_EXPRESSION, MessageModel, SubscriptionData, SubscriptionGroupConfig
from skyrocketmq.model.flags import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from skyrocketmq.model.names import PERM_READ, is_retry_topic
from skyrocketmq.store.statuses import GetStatus
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.headers_pull import PullMessageHeader

__all__ = ["PullPlan", "check_needed", "check_pull", "no_sql_filters", "plan_key", "pull_code"]

C = TypeVar("C", bound=Hashable)

_NEEDED: Final = (
    "consumerGroup",
    "topic",
    "queueId",
    "queueOffset",
    "maxMsgNums",
    "sysFlag",
    "commitOffset",
    "suspendTimeoutMillis",
    "subVersion",
)
_CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What a pull that passed its checks may read: messages with these tags, None for all, that the filter accepts.

    It holds for every pull with the same `plan_key`, until a table changes.
    """

    group: SubscriptionGroupConfig
    topic: str
    queue_id: int
    tag_codes: AbstractSet[int] | None = None
    filter: PullFilter | None = None
    is_new_group: bool = False  # the group is to be made
    tags: TagCodes | None = field(init=False)  # the same as `tag_codes`, for the store

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", None if self.tag_codes is None else TagCodes(self.tag_codes))


def plan_key(header: PullMessageHeader) -> Hashable:
    """All that decides what a pull may read, if nothing is missing in its header."""
    return (
        header.consumer_group,
        header.topic,
        header.queue_id,
        header.sys_flag,
        header.sub_version,
        header.subscription,
        header.expression_type,
    )


def pull_code(status: GetStatus, offset: int) -> ResponseCode:
    """How a read is answered. An empty queue: "nothing found" for a pull at offset 0, "offset moved" for any other."""
    if status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
    return _CODES[status]


def check_pull(
    header: PullMessageHeader,
    *,
    config: BrokerConfig,
    topics: TopicTable,
    groups: GroupTable,
    consumers: ConsumerTable[C],
    filters: ConsumerFilters,
) -> PullPlan:
    """What the pull may read. Raises the `BrokerError` that is its answer."""
    broker = config.broker_name
    if not config.permission & PERM_READ:
        raise _no_permission(f"broker {broker} may not be read from now (brokerPermission)")
    check_needed(header)
    group_name, topic_name, queue_id = header.consumer_group or "", header.topic or "", header.queue_id or 0
    known = groups.find(group_name)
    group = groups.new_group(group_name) if known is None else known
    if group is None:
        raise no_such_group(group_name, config)
    if not group.consume_enable:
        raise _no_permission(f"consumer group {group_name} may not consume: consumeEnable is false, see updateSubGroup")
    topic = topics.find(topic_name)
    if topic is None:
        raise broker_error(
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic {topic_name} does not exist on broker {broker}: create it with updateTopic, or send to it first",
        )
    if not topic.perm & PERM_READ:
        raise _no_permission(f"topic {topic_name} may not be read: its perm is {topic.perm}, see updateTopic")
    if not 0 <= queue_id < topic.read_queue_nums:
        raise broker_error(
            ResponseCode.SYSTEM_ERROR,
            f"queue {queue_id} of topic {topic_name} does not exist on broker {broker}: it has the queues 0 to "
            f"{topic.read_queue_nums - 1}; ask for the route again, it has changed",
        )
    tag_codes, filter_ = _wanted(header, group, topic_name, config, consumers, filters)
    if filter_ is None and config.filter_retry_messages and is_retry_topic(topic_name) and filters.has_any(group_name):
        filter_ = RetryFilter(group_name, filters)
    return PullPlan(
        group=group,
        topic=topic_name,
        queue_id=queue_id,
        tag_codes=tag_codes,
        filter=filter_,
        is_new_group=known is None,
    )


def check_needed(header: PullMessageHeader) -> None:
    """Refuse a pull without the fields that it needs; some depend on what it asks for."""
    values = (
        header.consumer_group,
        header.topic,
        header.queue_id,
        header.queue_offset,
        header.max_msg_nums,
        header.sys_flag,
        header.commit_offset,
        header.suspend_timeout_ms,
        header.sub_version,
    )
    if None not in values:
        return
    sys_flag = header.sys_flag or 0
    needless = {
        "commitOffset": not sys_flag & PULL_COMMIT_OFFSET,
        "suspendTimeoutMillis": not sys_flag & PULL_SUSPEND,
        "subVersion": bool(sys_flag & PULL_SUBSCRIPTION),
    }
    missing = [name for name, value in zip(_NEEDED, values, strict=True) if value is None and not needless.get(name)]
    if missing:
        raise broker_error(ResponseCode.SYSTEM_ERROR, f"the header of a pull lacks {', '.join(missing)}: send it")


def _wanted(
    header: PullMessageHeader,
    group: SubscriptionGroupConfig,
    topic: str,
    config: BrokerConfig,
    consumers: ConsumerTable[C],
    filters: ConsumerFilters,
) -> tuple[AbstractSet[int] | None, PullFilter | None]:
    """The tags and the filter of a pull, from its own subscription text or from what the group's heartbeats said."""
    if (header.sys_flag or 0) & PULL_SUBSCRIPTION:
        return _wanted_by_header(header, config)
    subscription = _subscription(header, group, topic, config, consumers)
    if is_tag_type(subscription.expression_type):
        is_for_all = subscription.sub_string == ALL_TAGS or subscription.class_filter_mode
        return None if is_for_all else subscription.code_set, None
    if not config.sql_filter_enable:
        raise broker_error(ResponseCode.SYSTEM_ERROR, no_sql_filters(config, subscription.expression_type))
    registered = filters.find(topic, group.group_name)
    if registered is None:
        raise broker_error(ResponseCode.FILTER_DATA_NOT_EXIST, _why_no_filter(subscription, group.group_name))
    if registered.client_version < (header.sub_version or 0):
        raise broker_error(
            ResponseCode.FILTER_DATA_NOT_LATEST,
            f"the filter of consumer group {group.group_name} on topic {topic} is older here than the pull's: wait for "
            "the next heartbeat",
        )
    return None, SqlPullFilter(registered.sql, registered)


def _wanted_by_header(
    header: PullMessageHeader, config: BrokerConfig
) -> tuple[AbstractSet[int] | None, PullFilter | None]:
    """What a pull that brings its own expression asks for."""
    kind = header.expression_type
    try:
        if is_tag_type(kind):
            text, tags_max = header.subscription or "", config.limits.pull_tags_max
            if len(text) > CHARACTERS_MAX or text.count(SEPARATOR) >= tags_max:
                raise IllegalArgument(f"the pull names more than {tags_max} tags (pullTagsMax), or very long ones")
            tags = parse_tags(text)
            return None if tags.matches_all else tags.codes, None
        if not header.subscription:
            raise IllegalArgument(f"the pull has no {kind} expression: send one, or subscribe to all with '*'")
        if not config.sql_filter_enable:
            raise broker_error(ResponseCode.SYSTEM_ERROR, no_sql_filters(config, kind))
        if kind != SQL92_EXPRESSION:
            raise IllegalArgument(f"broker {config.broker_name} does not know filters of type {kind}")
        return None, SqlPullFilter(compile_sql(header.subscription))
    except IllegalArgument as error:
        raise broker_error(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error


def _subscription(
    header: PullMessageHeader,
    group: SubscriptionGroupConfig,
    topic: str,
    config: BrokerConfig,
    consumers: ConsumerTable[C],
) -> SubscriptionData:
    """What the group's heartbeats said of the topic."""
    name = group.group_name
    online = consumers.find(name)
    if online is None:
        raise broker_error(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"no member of consumer group {name} is known on broker {config.broker_name}: send a heartbeat first",
        )
    if not group.consume_broadcast_enable and online.message_model is MessageModel.BROADCASTING:
        raise _no_permission(f"consumer group {name} may not broadcast: consumeBroadcastEnable is false")
    subscription = online.subscriptions.get(topic)
    if subscription is None:
        raise broker_error(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"consumer group {name} does not subscribe to topic {topic} by its latest heartbeat: all members of a "
            "group have to subscribe to the same topics",
        )
    if subscription.sub_version < (header.sub_version or 0):
        raise broker_error(
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
            f"the subscription of consumer group {name} to topic {topic} is older here than the pull's: wait for the "
            "next heartbeat",
        )
    return subscription


def _why_no_filter(subscription: SubscriptionData, group: str) -> str:
    """What to say to a group without a filter here: that its expression cannot be used, if that is the reason."""
    try:
        compile_sql(subscription.sub_string)
    except SqlError as error:
        return f"the filter of consumer group {group} on topic {subscription.topic} cannot be used: {error}"
    return f"the filter of consumer group {group} on topic {subscription.topic} is not known: send a heartbeat"


def no_sql_filters(config: BrokerConfig, kind: str | None) -> str:
    """The remark for clients that filter by an expression where only tags are allowed."""
    return f"broker {config.broker_name} does not filter by {kind}: subscribe by tags, or set enablePropertyFilter=true"


def _no_permission(remark: str) -> BrokerError:
    return broker_error(ResponseCode.NO_PERMISSION, remark)
