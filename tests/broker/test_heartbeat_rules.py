"""What a heartbeat may say: every limit at its last good value, and one above."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skyrocketmq.broker.heartbeat_rules import (
    CLIENT_ID_LENGTH_MAX,
    HEARTBEAT_BYTES_MAX,
    check_heartbeat,
    check_heartbeat_bytes,
    check_locks,
)
from skyrocketmq.config import LimitsConfig
from skyrocketmq.errors import BrokerError
from skyrocketmq.filters.sql_parser import CHARACTERS_MAX
from skyrocketmq.model import HeartbeatData, MessageQueue, SubscriptionData
from skyrocketmq.model.heartbeats import ConsumerData, ProducerData
from skyrocketmq.model.names import GROUP_LENGTH_MAX, TOPIC_LENGTH_MAX
from skyrocketmq.wire.bodies_clients import QueueLockRequest

LIMITS = LimitsConfig(heartbeat_groups_max=4, heartbeat_subscriptions_max=6, pull_tags_max=5, heartbeat_tags_max=12)


def consumer(name: str = "g", *subscriptions: SubscriptionData) -> ConsumerData:
    return ConsumerData(group_name=name, subscription_data_set=subscriptions)


def consumers(count: int) -> tuple[ConsumerData, ...]:
    return tuple(consumer(f"g{number}") for number in range(count))


def producers(count: int) -> tuple[ProducerData, ...]:
    return tuple(ProducerData(group_name=f"p{number}") for number in range(count))


def subscriptions(count: int) -> list[SubscriptionData]:
    return [SubscriptionData(topic=f"t{number}") for number in range(count)]


def tagged(count: int) -> SubscriptionData:
    """With tags in its text only."""
    return SubscriptionData(sub_string="||".join(map(str, range(count))))


def of_consumer(*said: SubscriptionData) -> HeartbeatData:
    return HeartbeatData(client_id="c", consumer_data_set=(consumer("g", *said),))


@pytest.mark.parametrize(
    ("made", "most", "named"),
    [
        (lambda count: HeartbeatData(client_id="c" * count), CLIENT_ID_LENGTH_MAX, "client id"),
        (lambda count: HeartbeatData(client_id="c", consumer_data_set=consumers(count)), 4, "heartbeatGroupsMax"),
        (lambda count: HeartbeatData(client_id="c", producer_data_set=producers(count)), 4, "heartbeatGroupsMax"),
        (lambda count: of_consumer(*subscriptions(count)), 6, "heartbeatSubscriptionsMax"),
        (lambda count: of_consumer(SubscriptionData(tags_set=frozenset(map(str, range(count))))), 5, "pullTagsMax"),
        (lambda count: of_consumer(SubscriptionData(code_set=frozenset(range(count)))), 5, "pullTagsMax"),
        (lambda count: of_consumer(tagged(count)), 5, "pullTagsMax"),
        (lambda count: of_consumer(tagged(5), tagged(5), tagged(count - 10)), 12, "heartbeatTagsMax"),
        (lambda count: of_consumer(SubscriptionData(sub_string="x" * count)), CHARACTERS_MAX, "expression"),
        (
            lambda count: of_consumer(SubscriptionData(topic="t" * count)),
            GROUP_LENGTH_MAX + TOPIC_LENGTH_MAX,
            "topic",
        ),
        (
            lambda count: HeartbeatData(client_id="c", consumer_data_set=(consumer("g" * count),)),
            GROUP_LENGTH_MAX,
            "consumer group",
        ),
        (
            lambda count: HeartbeatData(client_id="c", producer_data_set=(ProducerData(group_name="p" * count),)),
            GROUP_LENGTH_MAX,
            "producer group",
        ),
    ],
)
def test_a_limit_is_the_last_number_that_is_taken(made: Callable[[int], HeartbeatData], most: int, named: str) -> None:
    check_heartbeat(made(most), LIMITS)
    with pytest.raises(BrokerError, match=named):
        check_heartbeat(made(most + 1), LIMITS)


def test_what_joins_texts_in_an_expression_makes_no_tags() -> None:
    check_heartbeat(of_consumer(SubscriptionData(sub_string="a = '||||||||||||'", expression_type="SQL92")), LIMITS)


def test_a_heartbeat_may_be_so_long_to_be_read() -> None:
    check_heartbeat_bytes(bytes(HEARTBEAT_BYTES_MAX))
    with pytest.raises(BrokerError, match="at most 8388608 may be"):
        check_heartbeat_bytes(bytes(HEARTBEAT_BYTES_MAX + 1))


def test_a_heartbeat_without_a_client_id_is_refused() -> None:
    with pytest.raises(BrokerError, match="clientID"):
        check_heartbeat(HeartbeatData(), LIMITS)


def test_groups_of_earlier_heartbeats_count_and_those_that_are_named_again_count_once() -> None:
    said = HeartbeatData(client_id="c", consumer_data_set=consumers(2), producer_data_set=producers(2))
    check_heartbeat(said, LIMITS, consuming={"g0": 1, "other": 1, "another": 1}, producing={"p1", "q1", "q2"})
    with pytest.raises(BrokerError, match="5 consumer groups"):
        check_heartbeat(said, LIMITS, consuming={"a": 0, "b": 0, "c": 0})
    with pytest.raises(BrokerError, match="5 producer groups"):
        check_heartbeat(said, LIMITS, producing={"a", "b", "c"})


def test_subscriptions_of_earlier_groups_count_and_those_of_a_group_that_is_named_again_do_not() -> None:
    said = HeartbeatData(
        client_id="c", consumer_data_set=(consumer("g0", *subscriptions(2)), consumer("g1", *subscriptions(1)))
    )
    check_heartbeat(said, LIMITS, consuming={"g0": 6, "other": 3})
    with pytest.raises(BrokerError, match="7 subscriptions"):
        check_heartbeat(said, LIMITS, consuming={"g0": 6, "other": 3, "another": 1})


@pytest.mark.parametrize(
    ("made", "most"),
    [
        (lambda count: QueueLockRequest(client_id="c" * count), CLIENT_ID_LENGTH_MAX),
        (lambda count: QueueLockRequest(consumer_group="g" * count), GROUP_LENGTH_MAX),
        (
            lambda count: QueueLockRequest(mq_set=(MessageQueue("t" * count, "b", 0),)),
            GROUP_LENGTH_MAX + TOPIC_LENGTH_MAX,
        ),
        (lambda count: QueueLockRequest(mq_set=(MessageQueue("t", "b" * count, 0),)), CLIENT_ID_LENGTH_MAX),
    ],
)
def test_a_request_for_locks_has_the_limits_of_a_heartbeat(made: Callable[[int], QueueLockRequest], most: int) -> None:
    check_locks(made(most))
    with pytest.raises(BrokerError, match="at most"):
        check_locks(made(most + 1))
