from __future__ import annotations

from typing import Any

import pytest

from skyrocketmq.broker.topics import TopicsChanged, TopicTable
from skyrocketmq.model import DataVersion, TopicConfig, TopicFilterType
from skyrocketmq.testing import ManualClock
from tests.broker.support import BROKER, CLUSTER, holder


def table(**config: Any) -> TopicTable:
    clock = ManualClock()
    return TopicTable(holder(clock, **config), clock)


def watch(topics: TopicTable) -> list[TopicsChanged]:
    changes: list[TopicsChanged] = []
    topics.listeners.append(changes.append)
    return changes


def send(
    topics: TopicTable, topic: str, *, template: str = "TBW102", queue_count: int = 4, unit_mode: bool = False
) -> TopicConfig | None:
    return topics.create_on_send(topic, template=template, queue_count=queue_count, unit_mode=unit_mode)


def test_a_new_broker_has_the_topics_of_the_family() -> None:
    found = {name: (t.read_queue_nums, t.write_queue_nums, t.perm) for name, t in table().table().items()}
    assert found == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        CLUSTER: (16, 16, 7),
        BROKER: (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        f"{CLUSTER}_REPLY_TOPIC": (1, 1, 6),
    }


def test_keys_of_the_configuration_change_the_topics_at_start() -> None:
    topics = table(
        auto_create_topic=False,
        cluster_topic_enable=False,
        broker_topic_enable=False,
        trace_topic_enable=True,
        trace_topic="traces",
    ).table()
    assert "TBW102" not in topics
    assert topics[CLUSTER].perm == topics[BROKER].perm == 1
    assert topics["traces"].write_queue_nums == 1


@pytest.mark.parametrize(("asked", "queues"), [(4, 4), (8, 8), (9, 8), (0, 0), (-3, 0)])
def test_a_topic_made_by_sending_has_the_queues_asked_for_but_no_more_than_its_template(
    asked: int, queues: int
) -> None:
    topics = table()
    created = send(topics, "orders", queue_count=asked)
    assert created is not None
    assert (created.read_queue_nums, created.write_queue_nums) == (queues, queues)


def test_a_topic_made_by_sending_inherits_permission_and_filter_type_but_not_the_right_to_pass_them_on() -> None:
    topics = table()
    topics.put(TopicConfig("mould", 4, 4, 5, TopicFilterType.MULTI_TAG, order=True))
    created = send(topics, "orders", template="mould")
    assert created == TopicConfig("orders", 4, 4, 4, TopicFilterType.MULTI_TAG)
    assert topics.find("orders") is created


def test_a_topic_that_exists_is_left_as_it_is() -> None:
    topics = table()
    created = send(topics, "orders", queue_count=2)
    changes = watch(topics)
    assert send(topics, "orders", queue_count=8) is created
    assert changes == []


def test_without_automatic_creation_a_send_makes_no_topic_even_where_a_template_is_left_over() -> None:
    topics = table(auto_create_topic=False)
    topics.restore({"TBW102": TopicConfig("TBW102", 8, 8, 7)}, DataVersion(1, 1))
    assert send(topics, "orders") is None
    assert topics.find("orders") is None


@pytest.mark.parametrize("template", ["nowhere", "SELF_TEST_TOPIC"])
def test_a_template_that_does_not_exist_or_does_not_hand_on_makes_no_topic(template: str) -> None:
    assert send(table(), "orders", template=template) is None


def test_another_template_works_even_without_automatic_creation() -> None:
    created = send(table(auto_create_topic=False), "orders", template=CLUSTER, queue_count=20)
    assert created is not None
    assert created.write_queue_nums == 16


def test_a_retry_topic_is_made_even_without_a_template() -> None:
    created = send(table(auto_create_topic=False), "%RETRY%g")
    assert created == TopicConfig("%RETRY%g", 1, 1, 6)


def test_unit_mode_marks_the_topic_that_a_send_makes() -> None:
    topics = table(auto_create_topic=False)
    retry = send(topics, "%RETRY%g", unit_mode=True)
    other = send(topics, "orders", template=CLUSTER, unit_mode=True)
    assert retry is not None
    assert other is not None
    assert (retry.topic_sys_flag, other.topic_sys_flag) == (2, 1)


def test_retry_and_dead_letter_topics_are_made_once() -> None:
    topics = table()
    changes = watch(topics)
    retry = topics.get_retry_topic("g", queue_count=3, unit_mode=True)
    assert retry == TopicConfig("%RETRY%g", 3, 3, 6, topic_sys_flag=2)
    assert topics.get_retry_topic("g", queue_count=5) is retry
    assert topics.get_dlq_topic("g") == TopicConfig("%DLQ%g", 1, 1, 6)
    assert topics.get_dlq_topic("g") is topics.find("%DLQ%g")
    assert [change.names for change in changes] == [{"%RETRY%g"}, {"%DLQ%g"}]


async def test_every_change_raises_the_data_version_and_is_told() -> None:
    clock = ManualClock()
    topics = TopicTable(holder(clock), clock)
    changes = watch(topics)
    await clock.advance(5)
    topics.put(TopicConfig("orders", 4, 4))
    assert topics.data_version == DataVersion(timestamp=clock.now_ms(), counter=1)
    send(topics, "refunds")
    topics.delete("orders")
    assert topics.data_version.counter == 3
    assert changes == [
        TopicsChanged(frozenset({"orders"}), is_announced=True),
        TopicsChanged(frozenset({"refunds"}), is_announced=True),
        TopicsChanged(frozenset({"orders"}), is_announced=False),
    ]


def test_deleting_what_is_not_there_changes_nothing() -> None:
    topics = table()
    changes = watch(topics)
    assert not topics.delete("orders")
    assert changes == []
    assert topics.data_version.counter == 0


def test_order_flags_follow_the_name_servers_list() -> None:
    topics = table()
    topics.put(TopicConfig("orders"))
    topics.put(TopicConfig("refunds"))
    version = topics.data_version.counter
    assert topics.apply_order_topics({"orders", "unknown"}) == {"orders"}
    assert topics.data_version.counter == version + 1
    assert topics.apply_order_topics({"orders"}) == frozenset()
    assert topics.data_version.counter == version + 1
    assert topics.apply_order_topics({"refunds"}) == {"orders", "refunds"}
    ordered = [name for name, topic in topics.table().items() if topic.order]
    assert ordered == ["refunds"]


def test_an_update_keeps_the_order_flag_whatever_it_says_itself() -> None:
    topics = table()
    assert not topics.put(TopicConfig("orders", order=True)).order
    topics.apply_order_topics({"orders"})
    assert topics.put(TopicConfig("orders", 2, 2)).order


def test_a_broker_without_full_permission_announces_its_own_for_every_topic() -> None:
    topics = table(permission=4)
    topics.put(TopicConfig("orders", 4, 2, 6, TopicFilterType.MULTI_TAG, topic_sys_flag=1))
    assert topics.registered(["orders", "unknown"]) == {
        "orders": TopicConfig("orders", 4, 2, 4, TopicFilterType.MULTI_TAG)
    }
    assert {topic.perm for topic in topics.registered().values()} == {4}
    found = topics.find("orders")
    assert found is not None
    assert found.perm == 6


def test_a_broker_with_full_permission_announces_topics_as_they_are() -> None:
    topics = table()
    assert topics.registered() == topics.table()


async def test_a_changed_permission_is_a_new_version_to_be_announced() -> None:
    clock = ManualClock()
    config = holder(clock)
    topics = TopicTable(config, clock)
    config.subscribe(lambda change: topics.apply_config(change.before, change.after))
    changes = watch(topics)
    await config.update({"brokerPermission": "4"})
    assert topics.data_version.counter == 1
    assert changes == [TopicsChanged(frozenset(topics.names()), is_announced=True)]
    await config.update({"traceOn": "false"})
    assert len(changes) == 1


async def test_automatic_creation_can_be_switched_on_and_off_while_the_broker_runs() -> None:
    clock = ManualClock()
    config = holder(clock, auto_create_topic=False)
    topics = TopicTable(config, clock)
    config.subscribe(lambda change: topics.apply_config(change.before, change.after))
    await config.update({"autoCreateTopicEnable": "true"})
    assert send(topics, "orders") is not None
    await config.update({"autoCreateTopicEnable": "false"})
    assert send(topics, "refunds") is None
    await config.update({"autoCreateTopicEnable": "true"})
    assert send(topics, "refunds") is not None


def test_a_restored_table_wins_over_the_topics_of_the_start() -> None:
    topics = table()
    changes = watch(topics)
    topics.restore({"TBW102": TopicConfig("TBW102", 4, 4, 7), "orders": TopicConfig("orders")}, DataVersion(7, 9))
    found = topics.find("TBW102")
    assert found is not None
    assert found.write_queue_nums == 4
    assert topics.find("orders") is not None
    assert topics.find("BenchmarkTest") is not None
    assert topics.data_version == DataVersion(7, 9)
    assert changes == []


def test_a_copy_of_another_table_holds_nothing_else_and_has_its_version() -> None:
    topics = table()
    changes = watch(topics)
    topics.replace_all({"orders": TopicConfig("orders")}, DataVersion(7, 9))
    assert topics.names() == ["orders"]
    assert topics.data_version == DataVersion(7, 9)
    assert "BenchmarkTest" in changes[0].names
    assert not changes[0].is_announced


@pytest.mark.parametrize(
    "topic", ["TBW102", CLUSTER, BROKER, f"{CLUSTER}_REPLY_TOPIC", "rmq_sys_x", "SCHEDULE_TOPIC_XXXX"]
)
def test_system_topics_include_those_named_after_cluster_and_broker(topic: str) -> None:
    topics = table()
    assert topics.is_system_topic(topic)
    assert not topics.is_system_topic("orders")
    assert {CLUSTER, BROKER, "TBW102"} <= set(topics.system_topics())
