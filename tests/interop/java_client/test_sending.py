"""Sending, and what is stored."""

from __future__ import annotations

import pytest

from tests.interop import remoting
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, JavaError, Producer, Queue, large_message, message
from tests.interop.java_client.support import (
    COMPRESSED,
    QUEUES_A_BROKER,
    fresh_group,
    fresh_name,
    java_client_test,
    numbers,
    texts,
)
from tests.interop.routes import find_route

pytestmark = java_client_test

SYSTEM_ERROR = 1
MESSAGE_ILLEGAL = 13


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_messages_sent_in_any_mode_are_stored_on_every_broker_and_received(
    java: Driver, cluster: Cluster, producer: Producer, topic: str, mode: str
) -> None:
    sent = producer.send(message(topic, "{i}", tags="T", keys="k{i}", properties={"a": "b"}, count=24), mode=mode)
    with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
        received = consumer.received(at_least=24)

    assert {result.status for result in sent} == {"SEND_OK"}
    assert {result.queue.broker for result in sent if result.queue} == set(cluster.brokers)
    assert texts(received) == numbers(24)
    assert {result.msg_id for result in sent} == {found.msg_id for found in received}
    assert {result.offset_msg_id for result in sent} == {found.offset_msg_id for found in received}
    assert {(found.tags, found.properties["a"]) for found in received} == {("T", "b")}
    assert all(found.keys == f"k{found.text}" for found in received)


def test_oneway_messages_arrive(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    assert producer.send(message(topic, "{i}", count=10), mode="oneway") == []

    with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
        assert texts(consumer.received(at_least=10)) == numbers(10)


def test_a_batch_is_stored_in_one_queue_with_offsets_that_follow_one_another(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    sent = producer.send_batch(message(topic, "{i}", tags="T", keys="batch-{i}", count=10))

    assert (sent.status, sent.queue_offset) == ("SEND_OK", 0)
    assert sent.queue is not None
    with java.pull_consumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
        pulled = consumer.pull(sent.queue, offset=0)
    assert [(found.text, found.queue_offset) for found in pulled.messages] == [(str(i), i) for i in range(10)]
    assert sent.msg_id == ",".join(found.msg_id for found in pulled.messages)
    assert sent.offset_msg_id == ",".join(str(found.offset_msg_id) for found in pulled.messages)


def test_a_large_message_travels_compressed(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    body_bytes = 3 * 1024 * 1024
    [sent] = producer.send(large_message(topic, fill="rocket ", body_bytes=body_bytes))

    with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
        [received] = consumer.received(at_least=1)

    assert sent.status == "SEND_OK"
    assert received.body == (b"rocket " * body_bytes)[:body_bytes]
    assert received.sys_flag & COMPRESSED
    assert received.store_size < body_bytes // 10


def test_too_large_a_message_is_refused_and_the_broker_lives(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    no_limits = {"maxMessageSize": 16 << 20, "compressMsgBodyOverHowmuch": 16 << 20, "retryTimesWhenSendFailed": 0}
    with (
        java.producer("unlimited", namesrv=cluster.namesrv, config=no_limits) as unlimited,
        pytest.raises(JavaError) as refused,
    ):
        unlimited.send(large_message(topic, fill="x", body_bytes=5 << 20))

    assert refused.value.code == MESSAGE_ILLEGAL
    assert [result.status for result in producer.send(message(topic, "small", count=8))] == ["SEND_OK"] * 8


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_batch_goes_to_the_queue_it_is_sent_to(
    java: Driver, cluster: Cluster, producer: Producer, topic: str, mode: str
) -> None:
    queue = producer.publish_queues(topic)[-1]
    sent = [producer.send_batch(message(topic, f"{each}-{{i}}", count=3), queue=queue, mode=mode) for each in range(2)]

    assert [(result.queue, result.queue_offset) for result in sent] == [(queue, 0), (queue, 3)]


def test_a_topic_is_made_by_the_first_message_to_it(java: Driver, cluster: Cluster, producer: Producer) -> None:
    topic = fresh_name("Fresh")
    sent = producer.send(message(topic, "{i}", count=8))

    route = find_route(cluster.namesrv, topic)
    assert route is not None
    assert {queues["writeQueueNums"] for queues in route["queueDatas"]} == {4}  # what a producer asks for
    assert {result.status for result in sent} == {"SEND_OK"}
    with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
        assert texts(consumer.received(at_least=8)) == numbers(8)


def test_texts_of_any_script_come_back_as_they_were(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    producer.send(
        message(topic, "正文 😀", tags="标签", keys="键-é", properties={"城市": "Zürich 😀", "mark": "="}, flag=7)
    )

    with java.push_consumer(
        fresh_group(), namesrv=cluster.namesrv, topic=topic, tags="标签", from_="first"
    ) as consumer:
        [found] = consumer.received(at_least=1)
    assert (found.text, found.tags, found.keys, found.flag) == ("正文 😀", "标签", "键-é", 7)
    assert (found.properties["城市"], found.properties["mark"]) == ("Zürich 😀", "=")
    assert texts(producer.query(topic, "键-é")) == ["正文 😀"]


def test_what_cannot_be_stored_is_refused_with_the_reason(cluster: Cluster, producer: Producer, topic: str) -> None:
    name = next(iter(cluster.brokers))
    with pytest.raises(JavaError) as too_long:
        producer.send(message(topic, "x", properties={"p": "x" * 40_000}))
    with pytest.raises(JavaError) as no_such_queue:
        producer.send(message(topic, "x"), queue=Queue(topic, name, QUEUES_A_BROKER))

    assert (too_long.value.code, no_such_queue.value.code) == (MESSAGE_ILLEGAL, SYSTEM_ERROR)
    assert remoting.answers(cluster.brokers[name].address, remoting.GET_BROKER_CONFIG)


def test_thousands_of_messages_at_once_all_arrive_and_none_twice(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    sent = producer.send(message(topic, "{i}", count=2000), mode="async", timeout_ms=20_000)
    places = {(result.queue, result.queue_offset) for result in sent}
    with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
        received = consumer.received(at_least=2000, timeout_s=30)

    assert {result.status for result in sent} == {"SEND_OK"}
    assert len(places) == 2000
    assert texts(received) == numbers(2000)


def test_a_request_is_replied_to(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    with java.push_consumer(
        fresh_group(),
        namesrv=cluster.namesrv,
        topic=topic,
        from_="first",
        behaviour={"reply_producer": producer.handle, "reply_text": "pong"},
    ):
        assert producer.request(message(topic, "ping"), timeout_s=10).text == "pong"
