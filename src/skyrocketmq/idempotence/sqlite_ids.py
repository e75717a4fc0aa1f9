"""Ids in a SQLite file: for all threads and processes of a machine, and still there after a crash.

    | key TEXT, primary | claimed_until_ms INTEGER, null once it is handled | handled_ms INTEGER |

Rule 1: one statement decides who has an id, so SQLite's own lock is the only one there is.
Rule 2: who dies while handling a message leaves a claim that runs out after `claim_s`: until then the message comes and
        is put off, after that it is handled. In a transaction there is no claim, and nothing is left behind.
Rule 3: a connection is used by one thread at a time, and never by a process that was forked after it was made.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from skyrocketmq.errors import ClientError, IllegalArgument
from skyrocketmq.idempotence.ids import Claim
from skyrocketmq.ports import Clock, SystemClock

__all__ = ["SqliteIds"]

TABLE: Final = "skyrocketmq_handled"
WAIT_FOR_LOCK_S: Final = 30.0
FORGET_EVERY: Final = 1_000  # finished ids between two looks for those that are too old

_CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (key TEXT PRIMARY KEY, claimed_until_ms INTEGER, handled_ms INTEGER) WITHOUT ROWID
"""
# A new key, or one whose claim has run out; any other is left alone, and no row is changed.
_CLAIM: Final = f"""
INSERT INTO {TABLE} (key, claimed_until_ms) VALUES (:key, :until)
ON CONFLICT (key) DO UPDATE SET claimed_until_ms = :until WHERE handled_ms IS NULL AND claimed_until_ms <= :now
"""
_FINISH: Final = f"""
INSERT INTO {TABLE} (key, handled_ms) VALUES (:key, :now)
ON CONFLICT (key) DO UPDATE SET claimed_until_ms = NULL, handled_ms = :now
"""


class SqliteIds:
    """Remembers handled ids for `ttl_s` seconds (None: for ever), and claims for `claim_s`."""

    is_blocking = True

    def __init__(
        self,
        path: Path | str,
        *,
        ttl_s: float | None = 7 * 86_400.0,
        claim_s: float = 900.0,
        clock: Clock | None = None,
    ) -> None:
        if claim_s <= 0 or (ttl_s is not None and ttl_s <= 0):
            raise IllegalArgument(f"claim_s = {claim_s:g} and ttl_s = {ttl_s} must be above 0")
        if str(path) == ":memory:":
            raise IllegalArgument("every thread has a connection of its own: use a file, or MemoryIds")
        self._path = str(path)
        self._ttl_s = ttl_s
        self._claim_s = claim_s
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards what follows
        self._idle: list[sqlite3.Connection] = []
        self._process_id = os.getpid()
        self._finished_count = 0
        with self._connection() as connection:
            connection.execute(_CREATE)

    def claim(self, key: str) -> Claim:
        with self._connection() as connection:
            return self._claim(connection, key)

    def _claim(self, connection: sqlite3.Connection, key: str) -> Claim:
        now_ms = self._clock.now_ms()
        values = {"key": key, "now": now_ms, "until": now_ms + round(self._claim_s * 1000)}
        if connection.execute(_CLAIM, values).rowcount:
            return Claim.NEW
        row = connection.execute(f"SELECT handled_ms FROM {TABLE} WHERE key = ?", (key,)).fetchone()
        # No row: it was released, or forgotten, between the two statements. Whoever asks again finds it free.
        return Claim.BUSY if row is None or row[0] is None else Claim.DONE

    def finish(self, key: str) -> None:
        with self._connection() as connection:
            connection.execute(_FINISH, {"key": key, "now": self._clock.now_ms()})
            self._forget_old(connection)

    def release(self, key: str) -> None:
        with self._connection() as connection:
            connection.execute(f"DELETE FROM {TABLE} WHERE key = ? AND handled_ms IS NULL", (key,))

    @contextmanager
    def transaction(self, key: str) -> Iterator[sqlite3.Connection | None]:
        """A transaction that ends with the id: what is done on the connection and the id are kept together, or neither
        is. None if the id is handled already. Others who want to write wait, whatever their ids.

        Raises `ClientError` if somebody handles the id without a transaction now.
        """
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                claim = self._claim(connection, key)
                if claim is Claim.BUSY:
                    raise ClientError(f"{key} is being handled elsewhere, without a transaction: try again later")
                if claim is Claim.DONE:
                    connection.execute("ROLLBACK")
                    yield None
                    return
                yield connection
                if not connection.in_transaction:
                    raise IllegalArgument(
                        "the handler has ended the transaction itself: the id would not be part of it"
                    )
                connection.execute(_FINISH, {"key": key, "now": self._clock.now_ms()})
                self._forget_old(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connections that nobody uses; later calls open new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
            is_ours = os.getpid() == self._process_id
        for connection in idle if is_ours else ():
            connection.close()

    def _forget_old(self, connection: sqlite3.Connection) -> None:
        self._finished_count += 1
        if self._ttl_s is not None and self._finished_count % FORGET_EVERY == 0:
            oldest_kept_ms = self._clock.now_ms() - round(self._ttl_s * 1000)
            connection.execute(f"DELETE FROM {TABLE} WHERE handled_ms < ?", (oldest_kept_ms,))

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = self._take()
        try:
            yield connection
        except BaseException:
            connection.close()  # in whatever state it is
            raise
        with self._lock:
            self._idle.append(connection)

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if os.getpid() != self._process_id:
                _of_parents.extend(self._idle)
                self._idle = []
                self._process_id = os.getpid()
            if self._idle:
                return self._idle.pop()
        connection = sqlite3.connect(self._path, timeout=WAIT_FOR_LOCK_S, isolation_level=None, check_same_thread=False)
        try:
            # With a write-ahead log readers and the writer do not wait for each other; FULL: synced at every commit.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection


_of_parents: list[sqlite3.Connection] = []  # kept: to close a parent's connection would drop the parent's locks
