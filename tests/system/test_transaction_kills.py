"""A broker that is killed in the middle of transactions, and a producer that is killed between the two halves of one.

Everything is a real process but the producers that survive. What was confirmed as committed is delivered once, what was
rolled back never, and what nobody could tell is decided by a check, in the end, by whoever is there.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.transaction_producer import TransactionProducer
from skyrocketmq.client.transactions import Transaction, TransactionState
from skyrocketmq.errors import MQError
from skyrocketmq.model import Message, MessageView
from tests.interop.ours import Broker, NameServer, running

KILLS = int(os.environ.get("TRANSACTION_KILLS", "2"))

pytestmark = [pytest.mark.system, pytest.mark.timeout(150 + 15 * KILLS)]

TOPIC, GROUP = "Paid", "payers"
SOON_CHECKED = {"transactionCheckInterval": "500", "transactionTimeOut": "500"}
COMMIT, ROLLBACK = TransactionState.COMMIT, TransactionState.ROLLBACK
DOOMED = f"""
import asyncio
from skyrocketmq import Message, TransactionProducer
async def hang(transaction, arg):
    print("half", flush=True)
    await asyncio.sleep(1000)
async def main():
    async with TransactionProducer({GROUP!r}, namesrv={{namesrv!r}}) as producer:
        await producer.send_in_transaction(Message({TOPIC!r}, b"commit doomed"), hang)
asyncio.run(main())
"""


class Shop:
    """Sends transactions whose end is written in their bodies, and keeps what it was told."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()  # halves that were acknowledged
        self.confirmed: dict[str, TransactionState] = {}
        self.count = 0

    def check(self, message: MessageView) -> TransactionState:
        return COMMIT if message.body.startswith(b"commit") else ROLLBACK

    async def work(self, producer: TransactionProducer, stop: asyncio.Event, chance: random.Random) -> None:
        while not stop.is_set():
            self.count += 1
            state = COMMIT if chance.random() < 0.7 else ROLLBACK
            body = f"{state.name.lower()} {self.count}".encode()

            async def decide(transaction: Transaction, state: TransactionState) -> TransactionState:
                self.sent.add(transaction.message.body)
                return state

            try:
                result = await producer.send_in_transaction(Message(TOPIC, body), decide, state, timeout_s=1)
            except MQError:
                await asyncio.sleep(0.02)
                continue
            if result.is_confirmed:
                self.confirmed[result.transaction_id] = result.state


async def delivered(namesrv: str) -> Counter[bytes]:
    """How often each message was delivered."""
    found: Counter[bytes] = Counter()
    async with PullConsumer("readers", namesrv=namesrv) as consumer:
        for queue in await consumer.queues(TOPIC):
            offset, end = 0, await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset)
                found.update(message.body for message in result.messages)
                offset = int(result.next_offset)
    return found


async def test_transactions_end_once_however_often_their_broker_is_killed(tmp_path: Path) -> None:
    chance = random.Random(7)
    shop = Shop()
    with (
        running(NameServer(tmp_path / "namesrv")) as namesrv,
        running(Broker(tmp_path / "broker", namesrv=namesrv.address, config=SOON_CHECKED)) as broker,
    ):
        async with TransactionProducer(GROUP, check=shop.check, namesrv=namesrv.address) as producer:
            await producer.send(Message(TOPIC, b"makes the topic"))
            stop = asyncio.Event()
            workers = [asyncio.create_task(shop.work(producer, stop, chance)) for _ in range(32)]
            for _ in range(KILLS):
                before = len(shop.confirmed)
                while len(shop.confirmed) < before + 50:  # noqa: ASYNC110 - they go on after each start
                    await asyncio.sleep(0.02)
                await asyncio.sleep(chance.random() / 2)
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
            await asyncio.sleep(0.5)
            stop.set()
            await asyncio.gather(*workers)

        await asyncio.to_thread(die_between_the_halves, namesrv.address)

        # Another member of the group decides what was left open.
        async with TransactionProducer(GROUP, check=shop.check, namesrv=namesrv.address) as other:
            await other.send(Message(TOPIC, b"is known to the broker then"))
            wanted = {body for body in shop.sent if body.startswith(b"commit")} | {b"commit doomed"}
            deadline = time.monotonic() + 60
            while not wanted <= (found := await delivered(namesrv.address)).keys() and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.5)

    assert len(shop.confirmed) > 100
    assert wanted <= found.keys(), "committed, or answered so when asked: delivered"
    assert not any(body.startswith(b"rollback") for body in found), "a rolled-back message is never seen"
    assert {body: count for body, count in found.items() if count > 1} == {}, "each once"


def die_between_the_halves(namesrv: str) -> None:
    """A process sends a half message, and is killed before it can say more."""
    command = [sys.executable, "-c", DOOMED.format(namesrv=namesrv)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed:
        try:
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == "half\n"
        finally:
            doomed.kill()
