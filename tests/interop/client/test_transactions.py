"""Our transaction producer on either make of broker; Apache's client reads what was delivered."""

from __future__ import annotations

import asyncio

from skyrocketmq.client.transaction_producer import TransactionProducer
from skyrocketmq.client.transactions import Transaction, TransactionState
from skyrocketmq.model import Message, MessageView
from tests.interop.client.support import client_test, fresh_group, until
from tests.interop.clusters import Cluster
from tests.interop.driver import Driver

pytestmark = client_test

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


async def test_transactions_commit_roll_back_and_are_checked(java: Driver, cluster: Cluster, topic: str) -> None:
    asked: dict[bytes, list[str | None]] = {}

    async def check(message: MessageView) -> TransactionState:
        asked.setdefault(message.body, []).append(message.transaction_id)
        if message.body.startswith(b"rolled back"):
            return ROLLBACK
        return COMMIT if len(asked[message.body]) > 1 else UNKNOWN

    def as_told(transaction: Transaction, state: TransactionState) -> TransactionState:
        return state

    async with TransactionProducer(fresh_group(), check=check, namesrv=cluster.namesrv) as producer:
        bodies = {b"committed": COMMIT, b"rolled back": ROLLBACK, b"asked for": UNKNOWN, b"rolled back late": UNKNOWN}
        results = {
            body: await producer.send_in_transaction(Message(topic, body, tags="T"), as_told, state)
            for body, state in bodies.items()
        }
        large = b"large" * 10_000
        results[large] = await producer.send_in_transaction(Message(topic, large), as_told, COMMIT)
        await until(lambda: len(asked.get(b"asked for", ())) > 1 and b"rolled back late" in asked)

        def read() -> list[bytes]:
            with java.push_consumer(fresh_group(), namesrv=cluster.namesrv, topic=topic, from_="first") as consumer:
                consumer.received(at_least=3)
                return sorted(found.body for found in consumer.received())

        assert await asyncio.to_thread(read) == sorted([b"committed", b"asked for", large])

    assert {body: result.is_confirmed for body, result in results.items()} == {
        b"committed": True,
        b"rolled back": True,
        b"asked for": False,
        b"rolled back late": False,
        large: True,
    }
    assert set(asked) == {b"asked for", b"rolled back late"}
    assert set(asked[b"asked for"]) == {results[b"asked for"].transaction_id}
