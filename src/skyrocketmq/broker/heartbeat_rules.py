"""What a heartbeat may say: names that a client of the family could have, and no more of them than it would.

Rule 1: a name is as long as Apache's clients let it be. What they let through unseen (an odd character in a group that
is there already) passes here too.
Rule 2: a heartbeat names all groups of its client, so whatever it was a member of before counts too: a limit that holds
for each heartbeat alone could be gone around by a second one.
Rule 3: a heartbeat is refused whole: half of a client's groups would be worse than an error that says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Final

from skyrocketmq.broker.answers import refusal
from skyrocketmq.config import LimitsConfig
from skyrocketmq.errors import BrokerError
from skyrocketmq.filters.sql_parser import CHARACTERS_MAX
from skyrocketmq.model import SQL92_EXPRESSION, HeartbeatData, SubscriptionData
from skyrocketmq.model.names import GROUP_LENGTH_MAX, TOPIC_LENGTH_MAX
from skyrocketmq.wire.bodies_clients import QueueLockRequest
from skyrocketmq.wire.codes import ResponseCode

__all__ = ["CLIENT_ID_LENGTH_MAX", "HEARTBEAT_BYTES_MAX", "check_heartbeat", "check_heartbeat_bytes", "check_locks"]

CLIENT_ID_LENGTH_MAX: Final = 255
HEARTBEAT_BYTES_MAX: Final = 8 * 1024 * 1024  # all limits together are far less; to read this much takes some 20 ms
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def check_heartbeat_bytes(body: bytes) -> None:
    """Refuse one that is too long to be read."""
    if len(body) > HEARTBEAT_BYTES_MAX:
        raise _refused(
            f"the heartbeat has {len(body)} bytes, at most {HEARTBEAT_BYTES_MAX} may be: use several clients"
        )


def check_heartbeat(
    data: HeartbeatData,
    limits: LimitsConfig,
    *,
    consuming: Mapping[str, int] = NOTHING,
    producing: Set[str] = frozenset(),
) -> None:
    """Raise the `BrokerError` that is the answer, if it asks for too much.

    `consuming` and `producing` are the groups that its connection is a member of already, the former with the number of
    their subscriptions.
    """
    if not data.client_id:
        raise _refused("the heartbeat has no clientID: give every client one of its own")
    _check_length("client id", data.client_id, CLIENT_ID_LENGTH_MAX)
    consumers, producers = data.consumer_data_set, data.producer_data_set
    others = consuming.keys() - {consumer.group_name for consumer in consumers}
    other_producers = producing - {producer.group_name for producer in producers}
    counts = (("consumer", len(consumers) + len(others)), ("producer", len(producers) + len(other_producers)))
    for kind, count in counts:
        if count > limits.heartbeat_groups_max:
            raise _too_many(f"{count} {kind} groups", "heartbeatGroupsMax", limits.heartbeat_groups_max)
    for producer in producers:
        _check_length("producer group", producer.group_name, GROUP_LENGTH_MAX)
    subscription_count = sum(consuming[group] for group in others)
    tags_in_all = 0
    for consumer in consumers:
        _check_length("consumer group", consumer.group_name, GROUP_LENGTH_MAX)
        subscription_count += len(consumer.subscription_data_set)
        for subscription in consumer.subscription_data_set:
            # A retry topic is named after its group, which may be longer than a topic; then it only does not exist.
            _check_length("topic", subscription.topic, GROUP_LENGTH_MAX + TOPIC_LENGTH_MAX)
            _check_length("expression", subscription.sub_string, CHARACTERS_MAX)
            tag_count = _tag_count(subscription)
            if tag_count > limits.pull_tags_max:
                raise _too_many(f"{tag_count} tags of topic {subscription.topic}", "pullTagsMax", limits.pull_tags_max)
            tags_in_all += tag_count
            if tags_in_all > limits.heartbeat_tags_max:
                raise _too_many(f"{tags_in_all} tags or more", "heartbeatTagsMax", limits.heartbeat_tags_max)
    if subscription_count > limits.heartbeat_subscriptions_max:
        what = f"{subscription_count} subscriptions"
        raise _too_many(what, "heartbeatSubscriptionsMax", limits.heartbeat_subscriptions_max)


def _tag_count(subscription: SubscriptionData) -> int:
    """Clients name their tags three times, and those that mean ill need not do it alike."""
    in_text = 0 if subscription.expression_type == SQL92_EXPRESSION else subscription.sub_string.count("||") + 1
    return max(in_text, len(subscription.tags_set), len(subscription.code_set))


def check_locks(request: QueueLockRequest) -> None:
    """The same of a request for queues, which are kept by all of these names."""
    _check_length("client id", request.client_id or "", CLIENT_ID_LENGTH_MAX)
    _check_length("consumer group", request.consumer_group or "", GROUP_LENGTH_MAX)
    for queue in request.mq_set:
        _check_length("topic", queue.topic, GROUP_LENGTH_MAX + TOPIC_LENGTH_MAX)
        _check_length("broker", queue.broker_name, CLIENT_ID_LENGTH_MAX)


def _check_length(kind: str, name: str, length_max: int) -> None:
    if len(name) > length_max:
        raise _refused(f"the {kind} {name[:40]}... has {len(name)} characters, at most {length_max} may be")


def _too_many(what: str, key: str, limit: int) -> BrokerError:
    return _refused(f"the client has {what}, {key} allows {limit}: use several clients, or raise it")


def _refused(remark: str) -> BrokerError:
    return refusal(ResponseCode.SYSTEM_ERROR, remark)
