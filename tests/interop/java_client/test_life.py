"""Clients and brokers that stop and start."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, Producer, Sent, message
from tests.interop.java_client.support import consumed, fresh_group, texts
from tests.interop.processes import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150, func_only=True)]


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


def test_clients_live_through_a_restart_of_a_broker(java: Driver, cluster: Cluster, topic: str) -> None:
    """Nobody tells them: what is acknowledged before, meanwhile and after is received."""
    eager = {"pollNameServerInterval": 500, "heartbeatBrokerInterval": 500}  # half a minute each, if one does not ask
    options: dict[str, Any] = {"namesrv": cluster.namesrv, "config": eager}
    sent: list[Sent] = []
    is_over = threading.Event()

    def keep_sending() -> None:
        while not is_over.wait(0.02):
            sent.extend(producer.send(message(topic, f"{len(sent)}"), keep_going=True, timeout_ms=2000))

    sender = threading.Thread(target=keep_sending)
    with (
        java.producer(fresh_group(), **options) as producer,
        java.push_consumer(fresh_group(), topic=topic, from_="first", **options) as consumer,
    ):
        sender.start()
        try:
            consumer.received(at_least=20)
            cluster.last_broker.stop()
            cluster.last_broker.start()
            received = len(consumer.received())
            consumer.received(at_least=received + 20, timeout_s=40)
            wait_until(
                lambda: {each.queue.broker for each in sent[-20:] if each.queue} == set(cluster.brokers),
                timeout_s=30,
                what="the restarted broker is used again",
            )
        finally:
            is_over.set()
            sender.join()
        acknowledged = {each.msg_id for each in sent if each.status == "SEND_OK"}
        wait_until(
            lambda: acknowledged <= {found.msg_id for found in consumer.received()},
            timeout_s=40,  # Apache's client waits half a minute for pulls that Apache's broker left unanswered
            what="all that was acknowledged is received",
        )
    assert len(acknowledged) >= 40
