"""Clients that ask: pull and lite pull consumers, queries by key, id and time."""

from __future__ import annotations

import time

from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, Producer, message
from tests.interop.java_client.support import (
    QUEUES_A_BROKER,
    count_of,
    fresh_group,
    java_client_test,
    numbers,
    texts,
)
from tests.interop.processes import wait_until

pytestmark = java_client_test


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
    assert time.monotonic() - started < 10, "a pull is held for 15 s or more"


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
        time.sleep(0.5)  # until the next pull is held
        assigned.pause(queue)
        producer.send(message(topic, "answers the pull that was already held"), queue=queue)
        assert len(assigned.poll()) == 1
        producer.send(message(topic, "paused"), queue=queue)
        assert assigned.poll(timeout_s=1) == []
        assigned.resume(queue)
        assert texts(assigned.poll()) == ["paused"]
    assert len(sent) == 10


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
