"""Ways to talk to a broker that a program chooses by a switch: the first form of send headers, the other port,
traces, name spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.interop.apache import Apache
from tests.interop.clusters import ON_APACHES, Cluster
from tests.interop.driver import Driver, Producer, Received, large_message, message
from tests.interop.java_client.support import (
    COMPRESSED,
    fresh_group,
    java_client_test,
    numbers,
    texts,
    wait_until_retries_are_read,
)
from tests.interop.processes import wait_until

pytestmark = [*java_client_test, pytest.mark.parametrize("setting", ["ours", ON_APACHES], indirect=True)]


@pytest.fixture(scope="module")
def old_fashioned(apache: Apache) -> Iterator[Driver]:
    """A client that writes the first form of send headers and takes the port for all but pulls."""
    switches = {
        "org.apache.rocketmq.client.sendSmartMsg": "false",
        "com.rocketmq.sendMessageWithVIPChannel": "true",
    }
    with apache.driver(properties=switches) as driver:
        yield driver


def test_the_first_form_of_send_headers_on_the_other_port(old_fashioned: Driver, cluster: Cluster, topic: str) -> None:
    group, body_bytes = fresh_group(), 100_000
    behaviour = {"fail_times": 1, "delay_level": 1}
    with (
        old_fashioned.producer(fresh_group(), namesrv=cluster.namesrv) as producer,
        old_fashioned.push_consumer(
            group, namesrv=cluster.namesrv, topic=topic, from_="first", behaviour=behaviour
        ) as consumer,
    ):
        wait_until_retries_are_read(consumer, group)
        producer.send(message(topic, "{i}", tags="T", properties={"a": "b"}, count=8))
        producer.send_batch(message(topic, "{i}", count=2))
        producer.send(large_message(topic, fill="large", body_bytes=body_bytes))

        def retried() -> list[Received]:  # each once: any of them may come more than once
            found = [one for one in consumer.received() if one.reconsume_times == 1]
            return list({(one.tags, one.body): one for one in found}.values())

        wait_until(lambda: len(retried()) == 11, what="all are retried")
        received = retried()

    small = [found for found in received if found.tags == "T"]
    [large] = [found for found in received if len(found.body) == body_bytes]
    assert texts(small) == numbers(8)
    assert {found.properties["a"] for found in small} == {"b"}
    assert large.sys_flag & COMPRESSED


def test_traces_are_kept_in_a_topic_of_their_own(java: Driver, cluster: Cluster, topic: str) -> None:
    with (
        java.producer(fresh_group(), namesrv=cluster.namesrv, trace=True) as producer,
        java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first", trace=True) as consumer,
    ):
        [sent] = producer.send(message(topic, "traced", keys="traced-key"))
        consumer.received(at_least=1)

        def traces() -> str:
            return java.mqadmin("queryMsgTraceById", "-i", str(sent.msg_id), namesrv=cluster.namesrv)

        wait_until(
            lambda: re.findall(r"^(Pub|Sub) ", traces(), re.MULTILINE) == ["Pub", "Sub"],
            timeout_s=30,
            what="the traces of the producer and the consumer are stored",
        )


def test_a_name_space_keeps_topics_and_groups_apart(
    java: Driver, cluster: Cluster, producer: Producer, topic: str
) -> None:
    group = fresh_group()
    inside = {"namesrv": cluster.namesrv, "namespace": "inside"}
    with (
        java.producer(group, **inside) as insider,
        java.push_consumer(group, topic=topic, from_="first", **inside) as consumer,
    ):
        producer.send(message(topic, "outside"))
        insider.send(message(topic, "inside"))
        [found] = consumer.received(at_least=1)
        assert len(consumer.received(at_least=2, timeout_s=1)) == 1

    assert (found.text, found.topic) == ("inside", topic)
