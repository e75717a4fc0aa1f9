"""Names of topics and groups."""

from __future__ import annotations

import pytest

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import names
from skyrocketmq.model.names import (
    check_client_group,
    check_group,
    check_send_topic,
    check_topic,
    dlq_topic,
    is_dlq_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
    local_system_topics,
    perm_text,
    reply_topic,
    retry_topic,
    with_namespace,
    without_namespace,
)


@pytest.mark.parametrize("name", ["T", "TopicTest", "a-b_c|d%e9", "%RETRY%group", "x" * 127])
def test_legal_topic_names_pass(name: str) -> None:
    check_topic(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "no name"),
        ("x" * 128, "128 characters, at most 127"),
        ("a b", "contains ' '"),
        ("a/b.c", "contains './'"),
        ("中文", "allowed are letters"),
        ("line\n", "contains"),
        ("٣", "contains"),
    ],
)
def test_illegal_topic_names_are_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(IllegalArgument, match=reason):
        check_topic(name)


def test_group_names_may_be_longer() -> None:
    check_group("x" * 255)
    with pytest.raises(IllegalArgument, match="256 characters, at most 255"):
        check_group("x" * 256)
    with pytest.raises(IllegalArgument, match="group name"):
        check_group("a b")


@pytest.mark.parametrize("name", ["DEFAULT_PRODUCER", "DEFAULT_CONSUMER"])
def test_a_client_may_not_use_the_default_groups(name: str) -> None:
    check_group(name)
    with pytest.raises(IllegalArgument, match="reserved"):
        check_client_group(name)


@pytest.mark.parametrize(
    "name",
    [
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    ],
)
def test_topics_of_the_broker_take_no_messages_from_clients(name: str) -> None:
    assert is_system_topic(name)
    with pytest.raises(IllegalArgument, match="broker only"):
        check_send_topic(name)


@pytest.mark.parametrize("name", ["TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_anything"])
def test_other_system_topics_do(name: str) -> None:
    assert is_system_topic(name)
    check_send_topic(name)


def test_names_of_cluster_and_broker_are_system_topics_too() -> None:
    local = local_system_topics(cluster="DefaultCluster", broker="broker-a")
    assert local == {"DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"}
    assert is_system_topic("broker-a", local)
    assert not is_system_topic("broker-a")
    assert not is_system_topic("TopicTest", local)


def test_names_are_made_from_names() -> None:
    assert retry_topic("g") == "%RETRY%g"
    assert dlq_topic("g") == "%DLQ%g"
    assert reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
    assert is_retry_topic("%RETRY%g")
    assert not is_retry_topic("%DLQ%g")
    assert is_dlq_topic("%DLQ%g")
    assert not is_dlq_topic("g")
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert not is_system_group("g")
    assert is_system_group(names.TRANSACTION_GROUP)


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("TopicTest", "ns%TopicTest"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%g", "%DLQ%ns%g"),
        ("TBW102", "TBW102"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
    ],
)
def test_a_namespace_is_put_on_once_and_taken_off(name: str, wrapped: str) -> None:
    assert with_namespace(name, namespace="ns") == wrapped
    assert with_namespace(wrapped, namespace="ns") == wrapped
    assert without_namespace(wrapped, namespace="ns") == name
    assert without_namespace(name, namespace="ns") == name
    assert with_namespace(name, namespace="") == name
    assert without_namespace(wrapped, namespace="") == wrapped


def test_a_name_of_another_namespace_is_left_alone() -> None:
    assert without_namespace("other%TopicTest", namespace="ns") == "other%TopicTest"
    assert without_namespace("ns%a%b", namespace="ns") == "a%b"


@pytest.mark.parametrize(
    ("perm", "text"), [(0, "---"), (1, "--X"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX"), (14, "RW-")]
)
def test_permissions_have_a_short_text(perm: int, text: str) -> None:
    assert perm_text(perm) == text
