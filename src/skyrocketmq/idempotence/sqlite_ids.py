"""Ids in a SQLite file: for all threads and processes of a machine, and still there after a crash.

    | key TEXT, primary | claimed_until_ms INTEGER, null once it is handled | handled_ms INTEGER | holder TEXT |

Rule 1: one statement decides who has an id, so SQLite's own lock is the only one there is.
Rule 2: who dies while handling a message leaves a claim. Whoever sees that its process runs no more takes it over at
        once; where that cannot be seen (`processes`) it runs out after `claim_s`, and until then the message is put
        off. In a transaction there is no claim, and nothing is left behind.
Rule 3: a handler cannot end its transaction: what it changed would be kept without the id, and done again.
Rule 4: a connection is used by one thread at a time, and never by a process that was forked after it was made.
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
from skyrocketmq.idempotence.processes import has_died, this_process
from skyrocketmq.ports import Clock, SystemClock

__all__ = ["SqliteIds"]

TABLE: Final = "skyrocketmq_handled"
WAIT_FOR_LOCK_S: Final = 30.0
HOLDER_AFTER: Final = "/"  # between the process and what it calls the holder
CLAIM_S: Final = 1200.0  # more than a consumer leaves a message to a handler: `consume_timeout_s`, 900
FORGET_EVERY: Final = 1_000  # finished ids between two looks for those that are too old

_CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    key TEXT PRIMARY KEY, claimed_until_ms INTEGER, handled_ms INTEGER, holder TEXT
) WITHOUT ROWID
"""
# A new key, or one whose claim has run out; any other is left alone, and no row is changed.
_CLAIM: Final = f"""
INSERT INTO {TABLE} (key, claimed_until_ms, holder) VALUES (:key, :until, :holder)
ON CONFLICT (key) DO UPDATE SET claimed_until_ms = :until, holder = :holder
WHERE handled_ms IS NULL AND claimed_until_ms <= :now
"""
# One that somebody held who has died; if another was quicker to see it, no row is changed.
_TAKE_OVER: Final = f"""
UPDATE {TABLE} SET claimed_until_ms = :until, holder = :holder
WHERE key = :key AND handled_ms IS NULL AND holder = :dead
"""
_FINISH: Final = f"""
INSERT INTO {TABLE} (key, handled_ms) VALUES (:key, :now)
ON CONFLICT (key) DO UPDATE SET claimed_until_ms = NULL, handled_ms = :now, holder = NULL
"""
_RELEASE: Final = f"DELETE FROM {TABLE} WHERE key = ? AND handled_ms IS NULL AND holder = ?"
_NOT_ITS_OWN_END: Final = (
    "the handler must not have ended the transaction itself, for the id is to be part of it: leave out commit(), "
    "rollback(), executescript() and 'with database:', and raise to take everything back"
)


class SqliteIds:
    """Remembers handled ids for `ttl_s` seconds (None: for ever), and claims for `claim_s`."""

    is_blocking = True

    def __init__(
        self,
        path: Path | str,
        *,
        ttl_s: float | None = 7 * 86_400.0,
        claim_s: float = CLAIM_S,
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

    def claim(self, key: str, holder: str = "") -> Claim:
        with self._connection() as connection:
            return self._claim(connection, key, holder)

    def _claim(self, connection: sqlite3.Connection, key: str, holder: str) -> Claim:
        now_ms = self._clock.now_ms()
        until_ms = now_ms + round(self._claim_s * 1000)
        values = {"key": key, "now": now_ms, "until": until_ms, "holder": _full(holder)}
        if connection.execute(_CLAIM, values).rowcount:
            return Claim.NEW
        row = connection.execute(f"SELECT handled_ms, holder FROM {TABLE} WHERE key = ?", (key,)).fetchone()
        if row is None:  # released, or forgotten, between the two statements. Whoever asks again finds it free.
            return Claim.BUSY
        handled_ms, other = row
        if handled_ms is not None:
            return Claim.DONE
        if has_died(other.partition(HOLDER_AFTER)[0]):
            return Claim.NEW if connection.execute(_TAKE_OVER, values | {"dead": other}).rowcount else Claim.BUSY
        return Claim.BUSY

    def finish(self, key: str) -> None:
        with self._connection() as connection:
            connection.execute(_FINISH, {"key": key, "now": self._clock.now_ms()})
            self._forget_old(connection)

    def release(self, key: str, holder: str = "") -> None:
        with self._connection() as connection:
            connection.execute(_RELEASE, (key, _full(holder)))

    @contextmanager
    def transaction(self, key: str) -> Iterator[sqlite3.Connection | None]:
        """A transaction that ends with the id: what is done on the connection and the id are kept together, or neither
        is. None if the id is handled already. Others who want to write wait, whatever their ids.

        Raises `ClientError` if somebody handles the id without a transaction now.
        """
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                claim = self._claim(connection, key, "")
                if claim is Claim.BUSY:
                    raise ClientError(f"{key} is being handled elsewhere, without a transaction: try again later")
                if claim is Claim.DONE:
                    connection.execute("ROLLBACK")
                    yield None
                    return
                with _kept_open(connection):
                    yield connection
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


@contextmanager
def _kept_open(connection: sqlite3.Connection) -> Iterator[None]:
    """While somebody else has the connection SQLite refuses BEGIN, COMMIT and ROLLBACK; savepoints are fine."""
    refused: list[str | None] = []

    def authorize(action: int, what: str | None, *_: str | None) -> int:
        if action != sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_OK
        refused.append(what)
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
    try:
        yield
    except sqlite3.DatabaseError as error:
        if refused:
            raise IllegalArgument(_NOT_ITS_OWN_END) from error
        raise
    finally:
        connection.set_authorizer(None)
    # Also if the handler has passed over the error: what it wanted taken back would be kept.
    if refused or not connection.in_transaction:
        raise IllegalArgument(_NOT_ITS_OWN_END)


def _full(holder: str) -> str:
    return f"{this_process()}{HOLDER_AFTER}{holder}"


_of_parents: list[sqlite3.Connection] = []  # kept: to close a parent's connection would drop the parent's locks
