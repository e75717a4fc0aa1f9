"""Filters by properties with Apache's client, on every cluster."""

from __future__ import annotations

from collections import Counter

from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, Producer, message
from tests.interop.java_client.support import fresh_group, java_client_test, texts

pytestmark = java_client_test


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
