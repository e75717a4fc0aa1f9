"""What our broker does not do yet. The checks are ready, shown right on Apache's cluster."""

from __future__ import annotations

from collections import Counter

from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, Producer, message
from tests.interop.java_client.support import fresh_group, java_client_test, only_apache_has_it, texts

pytestmark = java_client_test


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
