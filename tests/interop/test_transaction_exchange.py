"""Pending transactions while one store directory goes from our broker to Apache's and back.

Each goes on where the other stopped: it asks about what is pending, and about nothing else, and what one has ended the
other does not deliver again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skyrocketmq.blocking import PullConsumer, TransactionProducer
from skyrocketmq.client.transactions import TransactionState
from skyrocketmq.model import Message, MessageView
from tests.interop.apache import Apache
from tests.interop.ours import Broker, running
from tests.interop.processes import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

TOPIC = "Paid"
BROKER = "exchange"
SOON_CHECKED = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}


class Shop:
    """A producer group that decides by what a message says."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        self.asked: list[bytes] = []
        self.answers = True

    @contextmanager
    def open(self, *, answers: bool = True) -> Iterator[TransactionProducer]:
        self.asked.clear()
        self.answers = answers
        with TransactionProducer("shop", check=self.check, namesrv=self.namesrv) as producer:
            yield producer

    def check(self, message: MessageView) -> TransactionState:
        self.asked.append(message.body)
        if not self.answers:
            return TransactionState.UNKNOWN
        return TransactionState.ROLLBACK if b"rolled back" in message.body else TransactionState.COMMIT

    def delivered(self) -> list[bytes]:
        with PullConsumer("readers", namesrv=self.namesrv) as consumer:
            queues = consumer.queues(TOPIC)
            results = [consumer.pull(queue, 0) for queue in queues]
        return sorted(message.body for result in results for message in result.messages)


def test_whoever_has_the_store_ends_what_the_other_left(apache: Apache, tmp_path: Path) -> None:
    commit, unknown = TransactionState.COMMIT, TransactionState.UNKNOWN
    rollback = TransactionState.ROLLBACK
    with apache.namesrv() as namesrv:
        shop = Shop(namesrv.address)
        ours = Broker(tmp_path / "ours", namesrv=namesrv.address, name=BROKER, config=SOON_CHECKED)
        with running(ours), shop.open(answers=False) as producer:
            producer.send(Message(TOPIC, b"plain"))
            for body, state in ((b"A", commit), (b"B, rolled back", rollback)):
                assert producer.send_in_transaction(Message(TOPIC, body), lambda _, how: how, state).is_confirmed
            for body in (b"C, left to Apache", b"D, rolled back by Apache"):
                producer.send_in_transaction(Message(TOPIC, body), lambda *_: unknown)
            wait_until(lambda: len(shop.asked) >= 3, timeout_s=20, what="our broker asks")
        assert set(shop.asked) == {b"C, left to Apache", b"D, rolled back by Apache"}

        with apache.broker(namesrv=namesrv.address, name=BROKER, store=ours.directory / "store", config=SOON_CHECKED):
            with shop.open() as producer:
                producer.send(Message(TOPIC, b"plain"))
                wait_until(
                    lambda: b"C, left to Apache" in shop.delivered() and len(set(shop.asked)) == 2,
                    timeout_s=30,
                    what="Apache's broker ends what ours left",
                )
            assert set(shop.asked) == {b"C, left to Apache", b"D, rolled back by Apache"}, "A and B are over"
            with shop.open(answers=False) as producer:
                assert producer.send_in_transaction(Message(TOPIC, b"E"), lambda *_: commit).is_confirmed
                for body in (b"F, left to us", b"G, rolled back by us"):
                    producer.send_in_transaction(Message(TOPIC, body), lambda *_: unknown)
                wait_until(lambda: len(shop.asked) >= 3, timeout_s=30, what="Apache's broker asks")

        with running(ours), shop.open() as producer:
            producer.send(Message(TOPIC, b"plain"))
            wait_until(
                lambda: b"F, left to us" in shop.delivered() and len(set(shop.asked)) >= 2,
                timeout_s=30,
                what="our broker ends what Apache's left",
            )
            assert set(shop.asked) == {b"F, left to us", b"G, rolled back by us"}
            assert shop.delivered() == [b"A", b"C, left to Apache", b"E", b"F, left to us", *[b"plain"] * 3]
