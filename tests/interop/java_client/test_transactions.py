"""Apache's transaction producer: commit, rollback, questions; and who answers for a producer that is gone."""

from __future__ import annotations

from skyrocketmq.blocking import TransactionProducer
from skyrocketmq.client.transactions import TransactionState
from skyrocketmq.model import Message, MessageView
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver, message
from tests.interop.java_client.support import fresh_group, java_client_test, texts

pytestmark = java_client_test


def test_transactions_commit_roll_back_and_are_checked(java: Driver, cluster: Cluster, topic: str) -> None:
    with (
        java.producer(fresh_group(), namesrv=cluster.namesrv, transactional=True) as producer,
        java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer,
    ):
        committed = producer.send_in_transaction(message(topic, "committed"), local="COMMIT_MESSAGE")
        producer.send_in_transaction(message(topic, "rolled back"), local="ROLLBACK_MESSAGE")
        producer.send_in_transaction(message(topic, "asked for"), local="UNKNOW", checks=["UNKNOW", "COMMIT_MESSAGE"])
        producer.send_in_transaction(message(topic, "refused when asked"), local="UNKNOW", checks=["ROLLBACK_MESSAGE"])

        received = consumer.received(at_least=2)
        checks = producer.transaction_checks(at_least=3)

    assert (committed.status, committed.local_state) == ("SEND_OK", "COMMIT_MESSAGE")
    assert texts(received) == ["asked for", "committed"]
    assert [found.sys_flag & 0xC for found in received] == [8, 8]
    answers = [(check.text, check.answered) for check in checks]
    assert [answer for text, answer in answers if text == "asked for"] == ["UNKNOW", "COMMIT_MESSAGE"]
    assert [answer for text, answer in answers if text == "refused when asked"] == ["ROLLBACK_MESSAGE"]
    assert {check.topic for check in checks} == {topic}


def test_a_member_of_another_make_answers_for_a_producer_that_is_gone(
    java: Driver, cluster: Cluster, topic: str
) -> None:
    group = fresh_group()
    with java.producer(group, namesrv=cluster.namesrv, transactional=True) as producer:
        for text in ("paid", "unpaid", "paid too"):
            producer.send_in_transaction(message(topic, text), local="UNKNOW")

    def check(asked: MessageView) -> TransactionState:
        return TransactionState.ROLLBACK if asked.body == b"unpaid" else TransactionState.COMMIT

    with (
        TransactionProducer(group, check=check, namesrv=cluster.namesrv) as ours,
        java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer,
    ):
        for queue in ours.queues(topic):  # it is known to every broker then
            ours.send(Message(topic, b"plain"), queue=queue)
        count = len(ours.queues(topic)) + 2
        received = texts(consumer.received(at_least=count))
    assert [text for text in received if text != "plain"] == ["paid", "paid too"]
