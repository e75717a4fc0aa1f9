"""A transfer between accounts in SQLite, and a message that consumers get exactly if the transfer was committed.

    python examples/transaction.py

Money moves in one database transaction, which also notes the message's transaction id. The broker hides the message
until it hears of the commit; if it does not hear, because the program died right after it, say, it asks, and `look_up`
answers from the database. It prints:

    transfer of 30: commit
    transfer of 500: rollback
    accounts: ann 70, bob 130
    told to the bank's statements: 30 from ann to bob
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from skyrocketmq import Message, MessageView, PushConsumer, Transaction, TransactionProducer, TransactionState

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleTransfers"


class Bank:
    """Accounts in a file, and the transactions that were committed. Plain functions: they run in threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as database:
            database.execute("CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER CHECK (balance >= 0))")
            database.execute("CREATE TABLE done (transaction_id TEXT PRIMARY KEY)")
            database.executemany("INSERT INTO account VALUES (?, ?)", [("ann", 100), ("bob", 100)])

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path)

    def transfer(self, transaction: Transaction, amount: int) -> TransactionState:
        """The local transaction: all of it, or nothing."""
        database = self._open()
        try:
            with database:  # commits at the end, rolls back if something is raised
                database.execute("UPDATE account SET balance = balance - ? WHERE name = 'ann'", (amount,))
                database.execute("UPDATE account SET balance = balance + ? WHERE name = 'bob'", (amount,))
                database.execute("INSERT INTO done VALUES (?)", (transaction.id,))
        except sqlite3.IntegrityError:  # ann has not that much
            return TransactionState.ROLLBACK
        finally:
            database.close()
        return TransactionState.COMMIT

    def look_up(self, message: MessageView) -> TransactionState:
        """What the broker asks if it has not heard: was it committed?"""
        database = self._open()
        known = database.execute("SELECT 1 FROM done WHERE transaction_id = ?", (message.transaction_id,)).fetchone()
        database.close()
        return TransactionState.COMMIT if known else TransactionState.ROLLBACK

    def balances(self) -> str:
        database = self._open()
        rows = database.execute("SELECT name, balance FROM account ORDER BY name").fetchall()
        database.close()
        return ", ".join(f"{name} {balance}" for name, balance in rows)


async def main(bank: Bank) -> None:
    statements: asyncio.Queue[str] = asyncio.Queue()
    consumer = PushConsumer("example-transfer-readers", namesrv=NAMESRV, consume_from="first")

    @consumer.subscribe(TOPIC)
    async def state(message: MessageView) -> None:
        await statements.put(message.body.decode())

    producer = TransactionProducer("example-transfers", namesrv=NAMESRV, check=bank.look_up)
    async with producer, consumer:
        for amount in (30, 500):
            message = Message(TOPIC, f"{amount} from ann to bob".encode())
            result = await producer.send_in_transaction(message, bank.transfer, amount)
            print(f"transfer of {amount}: {result.state.name.lower()}")
        print(f"accounts: {bank.balances()}")
        print(f"told to the bank's statements: {await asyncio.wait_for(statements.get(), 20)}")


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        asyncio.run(main(Bank(Path(directory) / "bank.db")))
