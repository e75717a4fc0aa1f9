"""The few rules that the values themselves have."""

from __future__ import annotations

import msgspec
import pytest

from skyrocketmq.model import (
    BrokerData,
    DataVersion,
    MessageQueue,
    QueueData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicFilterType,
)


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    queues = [
        MessageQueue("b", "x", 0),
        MessageQueue("a", "y", 0),
        MessageQueue("a", "x", 10),
        MessageQueue("a", "x", 9),
    ]
    assert [str(queue) for queue in sorted(queues)] == ["a@x:9", "a@x:10", "a@y:0", "b@x:0"]


def test_values_are_frozen_and_can_be_keys() -> None:
    queue = MessageQueue("T", "broker-a", 1)
    with pytest.raises(AttributeError):
        queue.queue_id = 2  # type: ignore[misc]
    assert {queue: 1}[MessageQueue("T", "broker-a", 1)] == 1
    assert len({QueueData(broker_name="a", perm=6), QueueData(broker_name="a", perm=6)}) == 1


def test_a_version_is_raised_by_every_change_and_equal_only_in_both_numbers() -> None:
    version = DataVersion(timestamp=1, counter=7)
    assert version.next(now_ms=5) == DataVersion(timestamp=5, counter=8)
    assert version.next(now_ms=1) != version
    assert DataVersion(2, 7) != version


def test_a_broker_name_may_be_without_its_master() -> None:
    assert BrokerData(broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}).master_address == "10.0.0.1:10911"
    assert BrokerData(broker_addrs={1: "10.0.0.2:10911"}).master_address is None


def test_defaults_are_those_of_the_family() -> None:
    assert TopicConfig("T") == TopicConfig("T", 16, 16, 6, TopicFilterType.SINGLE_TAG, 0, False)
    group = SubscriptionGroupConfig("G")
    assert (group.retry_max_times, group.retry_queue_nums, group.which_broker_when_consume_slowly) == (16, 1, 1)
    assert group.consume_enable
    assert group.consume_broadcast_enable


def test_numbers_outside_javas_range_are_refused_where_they_are_read() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"topic": "T", "queueId": 2**31}, MessageQueue)
