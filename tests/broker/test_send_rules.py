"""What may be sent where: the checks alone, each at its bound."""

from __future__ import annotations

from typing import Any

import pytest

from skyrocketmq.broker.groups import GroupTable
from skyrocketmq.broker.send_rules import check_queue_id, check_required, check_send, get_group, get_topic
from skyrocketmq.broker.topics import TopicTable
from skyrocketmq.config import BrokerRole, StoreConfig
from skyrocketmq.errors import BrokerError
from skyrocketmq.model import TopicConfig
from skyrocketmq.model.names import AUTO_CREATE_TOPIC, CLOSED_TOPICS, PERM_READ, retry_topic
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.headers_send import SendMessageHeader
from tests.broker.support import holder


def check(topic: str, *, now_ms: int = 1000, is_ordered: bool = False, **config: Any) -> ResponseCode | None:
    """The code of the refusal; None if the send passes."""
    held = holder(ManualClock(), **config)
    topics = TopicTable(held, ManualClock())
    topics.put(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4))
    topics.apply_order_topics({"T"} if is_ordered else set())
    try:
        check_send(topic, held.current, topics, now_ms=now_ms)
    except BrokerError as error:
        return ResponseCode(error.code)
    return None


def test_a_broker_takes_messages_from_the_stated_moment_on() -> None:
    assert check("T", now_ms=999, start_accept_send_at_ms=1000) is ResponseCode.SYSTEM_ERROR
    assert check("T", now_ms=1000, start_accept_send_at_ms=1000) is None
    assert check("T", now_ms=1) is None


def test_a_slave_takes_none() -> None:
    assert check("T", store=StoreConfig(broker_role=BrokerRole.SLAVE)) is ResponseCode.SERVICE_NOT_AVAILABLE
    assert check("T", store=StoreConfig(broker_role=BrokerRole.SYNC_MASTER)) is None


def test_a_broker_that_is_not_written_to_refuses_ordered_topics_alone() -> None:
    assert check("T", is_ordered=True, permission=PERM_READ) is ResponseCode.NO_PERMISSION
    assert check("T", is_ordered=True) is None
    assert check("T", permission=PERM_READ) is None, "others are drained: their producers find another broker"
    assert check("New", permission=PERM_READ) is None


def test_topics_with_bad_names_and_the_brokers_own_are_closed() -> None:
    for name in ("", "a b", "x" * 128):
        assert check(name) is ResponseCode.SYSTEM_ERROR
    for name in CLOSED_TOPICS:
        assert check(name) is ResponseCode.NO_PERMISSION
    assert check("x" * 127) is None


@pytest.mark.parametrize(
    ("read", "write", "queue_id", "is_there"),
    [
        (4, 8, 7, True),
        (4, 8, 8, False),
        (8, 4, 7, True),  # queues that are no longer written to take what is on its way
        (8, 4, 8, False),
        (4, 4, 0, True),
        (4, 1, -1, True),
        (4, 0, -1, False),  # nothing to pick from
        (4, 0, 0, True),
        (4, 0, 3, True),
        (0, 0, 0, False),
    ],
)
def test_a_queue_is_one_of_the_topics_or_left_to_the_broker(
    read: int, write: int, queue_id: int, is_there: bool
) -> None:
    config = holder(ManualClock()).current
    topic = TopicConfig(topic_name="T", read_queue_nums=read, write_queue_nums=write)
    if is_there:
        check_queue_id(queue_id, topic, config)
    else:
        with pytest.raises(BrokerError, match="queue"):
            check_queue_id(queue_id, topic, config)


@pytest.mark.parametrize("name", ["topic", "queue_id", "sys_flag", "born_timestamp", "flag"])
def test_a_send_brings_what_cannot_be_guessed(name: str) -> None:
    header = SendMessageHeader(topic="T", queue_id=0, sys_flag=0, born_timestamp=0, flag=0)
    check_required(header)
    setattr(header, name, None)
    with pytest.raises(BrokerError, match="lacks"):
        check_required(header)


def test_a_topic_is_made_from_its_template_with_the_number_of_queues_that_the_sender_wants() -> None:
    held = holder(ManualClock())
    topics = TopicTable(held, ManualClock())
    template = topics.find(AUTO_CREATE_TOPIC)
    assert template is not None
    most = template.write_queue_nums
    # Who wants none gets none, as at Apache's brokers.
    for name, wanted, made in (("A", 3, 3), ("B", most + 1, most), ("N", None, 0)):
        header = SendMessageHeader(topic=name, default_topic=AUTO_CREATE_TOPIC, default_topic_queue_nums=wanted)
        assert get_topic(header, name, held.current, topics).write_queue_nums == made
    for refused in (
        SendMessageHeader(topic="C", default_topic="NoTemplate", default_topic_queue_nums=4),
        SendMessageHeader(topic="C", default_topic_queue_nums=4),
    ):
        with pytest.raises(BrokerError, match="does not exist"):
            get_topic(refused, "C", held.current, topics)
    assert get_topic(SendMessageHeader(topic="A"), "A", held.current, topics).topic_name == "A", "it is there already"


def test_a_retry_topic_belongs_to_its_group() -> None:
    held = holder(ManualClock())
    assert get_group(retry_topic("g"), held.current, GroupTable(held, ManualClock())).group_name == "g"
    closed = holder(ManualClock(), auto_create_group=False)
    with pytest.raises(BrokerError, match="g"):
        get_group(retry_topic("g"), closed.current, GroupTable(closed, ManualClock()))
