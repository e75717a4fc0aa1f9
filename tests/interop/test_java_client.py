"""Apache's Java client on a cluster, with either encoding of headers: everything a program does with messages.

The checks run on our clusters, of one broker and of two, and on Apache's own, which shows that they are right.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest

from tests.interop.apache import DEFAULT_CLUSTER, Apache
from tests.interop.clusters import CLUSTERS, ON_APACHES, Cluster
from tests.interop.driver import (
    Driver,
    JavaError,
    Producer,
    PushConsumer,
    Queue,
    Received,
    large_message,
    message,
)
from tests.interop.processes import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60, func_only=True)]

MESSAGE_ILLEGAL = 13
COMPRESSED = 0x1
SAME_HASH = ("AaAa", "BBBB", "AaBB")
"""Three tags with one Java hash code: the broker cannot tell them apart, the consumer must."""
QUEUES_A_BROKER = 4
_numbers = count(1)


class Setting(NamedTuple):
    cluster: str
    headers: str


SETTINGS = {
    "ours": Setting("ours", "json"),
    "ours, binary headers": Setting("ours", "binary"),
    "ours, one broker": Setting("ours, one broker", "json"),
    "ours, one broker, binary headers": Setting("ours, one broker", "binary"),
    "apache": Setting("apache", "json"),
}
only_apache_has_it = pytest.mark.parametrize("setting", [ON_APACHES], indirect=True)


@pytest.fixture(scope="module", params=[ON_APACHES if name == "apache" else name for name in SETTINGS])
def setting(request: pytest.FixtureRequest) -> Setting:
    return SETTINGS[request.param]


@pytest.fixture(scope="module")
def cluster(setting: Setting, apache: Apache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = {"enablePropertyFilter": "true", "transactionCheckInterval": "1000", "transactionTimeOut": "1000"}
    with CLUSTERS[setting.cluster](apache, tmp_path_factory.mktemp("cluster"), config) as started:
        yield started


@pytest.fixture(scope="module")
def java(setting: Setting, java: Driver, request: pytest.FixtureRequest) -> Driver:
    """Apache's client, with the headers of the setting."""
    if setting.headers == "json":
        return java
    driver: Driver = request.getfixturevalue("java_with_binary_headers")
    return driver


@pytest.fixture
def topic(java: Driver, cluster: Cluster) -> str:
    """A fresh topic with so many queues on each broker."""
    name = f"Topic{next(_numbers)}"
    queues = ("-r", str(QUEUES_A_BROKER), "-w", str(QUEUES_A_BROKER))
    java.mqadmin("updateTopic", "-c", DEFAULT_CLUSTER, "-t", name, *queues, namesrv=cluster.namesrv)
    return name


@pytest.fixture
def producer(java: Driver, cluster: Cluster) -> Iterator[Producer]:
    with java.producer("interop-producer", namesrv=cluster.namesrv) as running:
        yield running


def fresh_group() -> str:
    return f"group-{next(_numbers)}"


def texts(messages: list[Received]) -> list[str]:
    return sorted(found.text for found in messages)


def numbers(upto: int) -> list[str]:
    return sorted(str(number) for number in range(upto))


# ---------------------------------------------------------------------------------------------------------------- send


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


# ------------------------------------------------------------------------------------------------------------- consume


def test_two_consumers_share_the_queues_and_one_takes_over(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    queues = QUEUES_A_BROKER * len(cluster.brokers)
    options = {"namesrv": cluster.namesrv, "topic": topic, "from_": "first"}
    with java.push_consumer(group, **options) as stays:
        wait_until(lambda: count_of(stays.assignment(), topic) == queues, timeout_s=20, what="one reads all")
        with java.push_consumer(group, **options) as leaves:
            wait_until(
                lambda: [count_of(one.assignment(), topic) for one in (stays, leaves)] == [queues // 2] * 2,
                timeout_s=20,
                what="each reads half",
            )
            producer.send(message(topic, "{i}", count=16))
            wait_until(lambda: len(stays.received() + leaves.received()) >= 16, timeout_s=20, what="all are read")
            assert texts(stays.received() + leaves.received()) == numbers(16)
            assert stays.received()
            assert leaves.received()
        wait_until(
            lambda: count_of(stays.assignment(), topic) == queues, timeout_s=20, what="the other's are taken over"
        )


def count_of(queues: list[Queue], topic: str) -> int:
    return sum(queue.topic == topic for queue in queues)


def test_every_broadcasting_consumer_receives_everything(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    options = {"namesrv": cluster.namesrv, "topic": topic, "from_": "first", "model": "BROADCASTING"}
    producer.send(message(topic, "{i}", count=12))

    with java.push_consumer(group, **options) as one, java.push_consumer(group, **options) as other:
        assert texts(one.received(at_least=12)) == numbers(12)
        assert texts(other.received(at_least=12)) == numbers(12)


def test_tags_are_told_apart_even_if_their_hashes_are_equal(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    for tag in (*SAME_HASH, "Other"):
        producer.send(message(topic, f"{tag}-{{i}}", tags=tag, count=4))
    wanted = [f"{tag}-{number}" for tag in ("AaAa", "Other") for number in range(4)]

    with java.push_consumer(
        fresh_group(), namesrv=cluster.namesrv, topic=topic, tags="AaAa || Other", from_="first"
    ) as consumer:
        consumer.received(at_least=8)
        received = consumer.received(at_least=9, timeout_s=1)  # one too many would come now

    assert texts(received) == sorted(wanted)


def test_messages_of_a_key_are_consumed_in_order_and_a_failed_one_holds_up_those_behind_it(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    for number in range(6):
        for key in ("red", "green", "blue"):
            producer.send(message(topic, f"{key} {number}"), shard_key=key)

    with java.push_consumer(
        fresh_group(),
        namesrv=cluster.namesrv,
        topic=topic,
        from_="first",
        orderly=True,
        behaviour={"fail_times": 1, "fail_text": "green 2", "suspend_ms": 100},
    ) as consumer:
        received = [found.text for found in consumer.received(at_least=19)]

    expected = [f"green {number}" for number in (0, 1, 2, 2, 3, 4, 5)]
    assert [text for text in received if text.startswith("green")] == expected
    assert [text for text in received if text.startswith("red")] == [f"red {number}" for number in range(6)]


def test_a_group_goes_on_where_it_was_after_a_restart_of_consumer_and_broker(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    options = {"namesrv": cluster.namesrv, "topic": topic, "from_": "first"}
    producer.send(message(topic, "before {i}", count=16))
    with java.push_consumer(group, **options) as consumer:
        # Whoever stops between receiving and committing gets a message again.
        wait_until(lambda: consumed(consumer, topic) == 16, timeout_s=20, what="all are consumed")

    broker = cluster.last_broker
    broker.stop()
    broker.start()

    java.mqadmin("topicStatus", "-t", topic, namesrv=cluster.namesrv)
    with java.producer("after-restart", namesrv=cluster.namesrv) as newcomer:
        sent = newcomer.send(message(topic, "after {i}", count=16))
    with java.push_consumer(group, **options) as consumer:
        received = consumer.received(at_least=16)
    assert {result.queue.broker for result in sent if result.queue} == set(cluster.brokers)
    assert texts(received) == sorted(f"after {number}" for number in range(16))


def consumed(consumer: PushConsumer, topic: str) -> int:
    """How many messages of the topic its group has committed, in all queues."""
    return sum(consumer.consumed_offset(queue) for queue in consumer.assignment() if queue.topic == topic)


def test_a_failed_message_comes_again_after_its_delay(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    producer.send(message(topic, "again"))

    with java.push_consumer(
        fresh_group(),
        namesrv=cluster.namesrv,
        topic=topic,
        from_="first",
        behaviour={"fail_times": 1, "delay_level": 1},
    ) as consumer:
        first, second = consumer.received(at_least=2)

    assert (first.reconsume_times, second.reconsume_times) == (0, 1)
    assert (first.msg_id, first.topic) == (second.msg_id, second.topic)
    assert first.received_ms is not None
    assert second.received_ms is not None
    assert second.received_ms - first.received_ms >= 900  # level 1 is a second


def test_a_pull_finds_filters_and_says_where_to_go_on(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    queue = producer.publish_queues(topic)[0]
    for tag in ("x", "y"):
        producer.send(message(topic, f"{tag}{{i}}", tags=tag, count=5), queue=queue)

    with java.pull_consumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
        everything = consumer.pull(queue, offset=0)
        some = consumer.pull(queue, offset=2, max_count=3)
        filtered = consumer.pull(queue, offset=0, tags="y")
        nothing_matches = consumer.pull(queue, offset=0, tags="z")
        beyond = consumer.pull(queue, offset=100)
        consumer.update_offset(queue, 7)
        kept = consumer.fetch_offset(queue)

    assert [found.text for found in everything.messages] == [f"{tag}{i}" for tag in "xy" for i in range(5)]
    assert (everything.status, everything.next_offset, everything.min_offset, everything.max_offset) == (
        "FOUND",
        10,
        0,
        10,
    )
    assert [found.queue_offset for found in some.messages] == [2, 3, 4]
    assert [found.text for found in filtered.messages] == [f"y{i}" for i in range(5)]
    assert (nothing_matches.status, nothing_matches.messages) == ("NO_MATCHED_MSG", [])
    assert (beyond.status, beyond.next_offset) == ("OFFSET_ILLEGAL", 10)
    assert kept == 7


def test_a_held_pull_is_woken_by_a_message(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    queue = producer.publish_queues(topic)[0]
    producer.send(message(topic, "first"), queue=queue)
    with java.pull_consumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
        held = java.submit("pull", handle=consumer.handle, queue=queue, offset=1, block=True)
        time.sleep(0.5)
        assert not held.done()
        started = time.monotonic()
        producer.send(message(topic, "second"), queue=queue)
        pulled = held.result(10)

    assert pulled["status"] == "FOUND"
    assert time.monotonic() - started < 2


def test_a_lite_consumer_polls_seeks_commits_and_pauses(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    queue = producer.publish_queues(topic)[0]
    sent = producer.send(message(topic, "{i}", count=10), queue=queue)
    with java.lite_consumer(
        group, namesrv=cluster.namesrv, topic=topic, from_="first", config={"autoCommit": False}
    ) as subscriber:
        assert texts(subscriber.poll(at_least=10)) == numbers(10)
        assert count_of(subscriber.assignment(), topic) == QUEUES_A_BROKER * len(cluster.brokers)
        subscriber.commit()
        assert subscriber.committed(queue) == 10
        subscriber.seek(queue, 6)
        assert texts(subscriber.poll(at_least=4)) == ["6", "7", "8", "9"]
        assert subscriber.offset_for_time(queue, 0) == 0

    with java.lite_consumer(fresh_group(), namesrv=cluster.namesrv, queues=[queue]) as assigned:
        assigned.seek(queue, "begin")
        assert texts(assigned.poll(at_least=10)) == numbers(10)
        assigned.pause(queue)
        producer.send(message(topic, "answers the pull that was already held"), queue=queue)
        assert len(assigned.poll()) == 1
        producer.send(message(topic, "paused"), queue=queue)
        assert assigned.poll(timeout_s=1) == []
        assigned.resume(queue)
        assert texts(assigned.poll()) == ["paused"]
    assert len(sent) == 10


# --------------------------------------------------------------------------------------------------------------- query


def test_messages_are_found_by_key_and_by_both_ids(cluster: Cluster, producer: Producer, topic: str) -> None:
    sent = producer.send(message(topic, "{i}", keys="key-{i} shared", count=10))

    def found_by(key: str) -> list[str]:
        return texts(producer.query(topic, key))

    wait_until(lambda: len(found_by("shared")) == 10, timeout_s=10, what="the index has them all")
    assert found_by("shared") == numbers(10)
    assert found_by("key-7") == ["7"]
    result = sent[7]
    assert result.msg_id is not None
    assert result.offset_msg_id is not None
    assert producer.view(result.offset_msg_id).text == "7"
    assert producer.view(result.msg_id, topic=topic).text == "7"


def test_offsets_are_found_by_time(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    queue = producer.publish_queues(topic)[0]
    for number in range(5):
        producer.send(message(topic, str(number)), queue=queue)
        time.sleep(0.02)
    with java.pull_consumer(fresh_group(), namesrv=cluster.namesrv) as consumer:
        stored = consumer.pull(queue, offset=0).messages

    offsets = producer.offsets(queue)
    assert (offsets.min_offset, offsets.max_offset, offsets.earliest_ms) == (0, 5, stored[0].store_ms)
    assert [producer.offset_at(queue, found.store_ms) for found in stored] == [0, 1, 2, 3, 4]
    assert producer.offset_at(queue, stored[2].store_ms - 1) in (1, 2)
    assert producer.offset_at(queue, stored[0].store_ms - 60_000) == 0


# --------------------------------------------------------------------------------- what a program does now and then


@only_apache_has_it  # our broker refuses END_TRANSACTION, and keeps no half messages yet
def test_transactions_commit_roll_back_and_are_checked(java: Driver, cluster: Cluster, topic: str) -> None:
    with (
        java.producer(fresh_group(), namesrv=cluster.namesrv, transactional=True) as producer,
        java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer,
    ):
        committed = producer.send_in_transaction(message(topic, "committed"), local="COMMIT_MESSAGE")
        producer.send_in_transaction(message(topic, "rolled back"), local="ROLLBACK_MESSAGE")
        producer.send_in_transaction(message(topic, "asked for"), local="UNKNOW", checks=["UNKNOW", "COMMIT_MESSAGE"])

        received = consumer.received(at_least=2)
        checks = producer.transaction_checks(at_least=2)

    assert (committed.status, committed.local_state) == ("SEND_OK", "COMMIT_MESSAGE")
    assert texts(received) == ["asked for", "committed"]
    assert [(check.text, check.answered) for check in checks] == [
        ("asked for", "UNKNOW"),
        ("asked for", "COMMIT_MESSAGE"),
    ]


@only_apache_has_it  # our broker does not pass replies on to who asked yet
def test_a_request_is_replied_to(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    with java.push_consumer(
        fresh_group(),
        namesrv=cluster.namesrv,
        topic=topic,
        from_="first",
        behaviour={"reply_producer": producer.handle, "reply_text": "pong"},
    ):
        assert producer.request(message(topic, "ping"), timeout_s=10).text == "pong"


@only_apache_has_it  # our broker does not filter by SQL yet
def test_properties_are_filtered_by_sql(java: Driver, cluster: Cluster, producer: Producer, topic: str) -> None:
    for number in range(6):
        producer.send(message(topic, str(number), properties={"size": str(number)}))

    with java.push_consumer(
        fresh_group(),
        namesrv=cluster.namesrv,
        subscriptions=[{"topic": topic, "sql": "size between 2 and 4"}],
        from_="first",
    ) as consumer:
        assert Counter(texts(consumer.received(at_least=3))) == Counter(["2", "3", "4"])
