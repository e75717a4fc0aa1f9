"""Consumers that are given messages: sharing, taking over, order, tags, failures."""

from __future__ import annotations

import pytest

from tests.interop.apache import Apache
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, JavaError, Producer, message
from tests.interop.java_client.support import (
    QUEUES_A_BROKER,
    count_of,
    fresh_group,
    java_client_test,
    numbers,
    texts,
    wait_until_retries_are_read,
)
from tests.interop.processes import wait_until

pytestmark = java_client_test

SAME_HASH = ("AaAa", "BBBB", "AaBB")
"""Three tags with one Java hash code: the broker cannot tell them apart, the consumer must."""


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


def test_a_failed_message_comes_again_after_its_delay(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    behaviour = {"fail_times": 1, "delay_level": 1}
    with java.push_consumer(
        group, namesrv=cluster.namesrv, topic=topic, from_="first", behaviour=behaviour
    ) as consumer:
        wait_until_retries_are_read(consumer, group)
        producer.send(message(topic, "again"))
        first, second = consumer.received(at_least=2)

    assert (first.reconsume_times, second.reconsume_times) == (0, 1)
    assert (first.msg_id, first.topic) == (second.msg_id, second.topic)
    assert first.received_ms is not None
    assert second.received_ms is not None
    assert second.received_ms - first.received_ms >= 900  # level 1 is a second


def test_a_message_that_keeps_failing_ends_among_the_dead_letters(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    with java.push_consumer(
        group,
        namesrv=cluster.namesrv,
        topic=topic,
        from_="first",
        config={"maxReconsumeTimes": 1},
        behaviour={"fail_times": 9, "delay_level": 1},
    ) as consumer:
        wait_until_retries_are_read(consumer, group)
        producer.send(message(topic, "poison", keys="k"))
        assert [found.reconsume_times for found in consumer.received(at_least=2)] == [0, 1]
        # Nobody may read dead letters until an operator allows it, so they are looked for by key.
        wait_until(lambda: len(dead_letters(producer, group)) == 1, timeout_s=10, what="the message is given up")

    assert dead_letters(producer, group) == ["poison"]


def dead_letters(producer: Producer, group: str) -> list[str]:
    try:
        return texts(producer.query(f"%DLQ%{group}", "k"))
    except JavaError:
        return []  # there is no such topic yet


def test_a_delayed_message_arrives_when_its_time_has_come(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
        producer.send(message(topic, "later", delay_level=1, tags="T"), message(topic, "now"))
        received = {found.text: found for found in consumer.received(at_least=2)}

    assert received.keys() == {"now", "later"}
    later = received["later"]
    assert (later.tags, later.topic) == ("T", topic)
    assert later.received_ms is not None
    assert 1000 <= later.received_ms - later.born_ms < 4000


def test_a_consumer_that_dies_is_replaced(
    apache: Apache, java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    queues = QUEUES_A_BROKER * len(cluster.brokers)
    options = {"namesrv": cluster.namesrv, "topic": topic, "from_": "first"}
    with apache.driver() as mortal, java.push_consumer(group, **options) as stays:
        mortal.push_consumer(group, **options)
        wait_until(lambda: count_of(stays.assignment(), topic) == queues // 2, timeout_s=20, what="each reads half")
        mortal.kill()
        wait_until(lambda: count_of(stays.assignment(), topic) == queues, timeout_s=20, what="one reads all")
        producer.send(message(topic, "{i}", count=16))
        assert texts(stays.received(at_least=16)) == numbers(16)


def test_an_orderly_consumer_goes_on_where_the_one_before_has_stopped(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    """The one before gives its locks back: they would hold the other up for a minute."""
    group = fresh_group()
    options = {"namesrv": cluster.namesrv, "topic": topic, "from_": "first"}
    for number in range(20):
        producer.send(message(topic, str(number)), shard_key="one")

    with java.push_consumer(group, orderly=True, behaviour={"delay_ms": 50}, **options) as first:
        first.received(at_least=8)
        before = [int(found.text) for found in first.received()]
    with java.push_consumer(group, orderly=True, **options) as second:
        wait_until(lambda: "19" in texts(second.received()), timeout_s=20, what="the rest is read")
        after = [int(found.text) for found in second.received()]

    assert before == list(range(len(before)))
    assert after == list(range(after[0], 20))
    assert len(before) - 1 <= after[0] <= len(before) + 1  # one may be consumed and not committed, or not seen by us


def test_orderly_consumers_share_the_queues_and_keep_the_order(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group, keys = fresh_group(), ["red", "green", "blue", "black", "white"]
    options = {"namesrv": cluster.namesrv, "topic": topic, "from_": "first"}
    half = QUEUES_A_BROKER * len(cluster.brokers) // 2
    with (
        java.push_consumer(group, orderly=True, **options) as one,
        java.push_consumer(group, orderly=True, **options) as other,
    ):

        def each_has_locked_half() -> bool:
            other.rebalance()  # a lock that is still the other's is asked for again after 20 seconds only
            return [count_of(consumer.assignment(), topic) for consumer in (one, other)] == [half, half]

        wait_until(each_has_locked_half, timeout_s=20, what="each has locked half of the queues")
        for number in range(10):
            for key in keys:
                producer.send(message(topic, f"{key} {number}"), shard_key=key)
        wait_until(lambda: len(one.received() + other.received()) >= 50, timeout_s=20, what="all are read")
        received = [found.text for found in one.received() + other.received()]

    for key in keys:
        assert [text for text in received if text.startswith(key)] == [f"{key} {number}" for number in range(10)]


@pytest.mark.parametrize("from_", ["first", "last", "20200101000000"])
def test_a_new_group_reads_a_young_topic_from_its_beginning_wherever_it_wants_to_start(
    java: Driver, cluster: Cluster, producer: Producer, topic: str, from_: str
) -> None:
    """Else what was sent before the consumer came to know a new queue would be lost to it."""
    producer.send(message(topic, "{i}", count=4))
    with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_=from_) as consumer:
        assert texts(consumer.received(at_least=4)) == numbers(4)
