"""The stores of ids: who may handle a message, what is remembered and for how long."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocketmq.errors import ClientError, IllegalArgument
from skyrocketmq.idempotence import Claim, IdStore, MemoryIds, SqliteIds, message_key
from skyrocketmq.idempotence.processes import has_died, this_process
from skyrocketmq.testing import ManualClock
from tests.client.messages import view


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IdStore]:
    if request.param == "memory":
        yield MemoryIds()
        return
    made = SqliteIds(tmp_path / "ids.db")
    yield made
    made.close()


def test_an_id_is_new_then_busy_then_done(store: IdStore) -> None:
    assert store.claim("a") is Claim.NEW
    assert store.claim("a") is Claim.BUSY
    store.finish("a")
    assert store.claim("a") is Claim.DONE
    assert store.claim("b") is Claim.NEW


def test_an_id_that_is_released_is_new_again_and_a_finished_one_stays(store: IdStore) -> None:
    store.claim("a")
    store.release("a")
    assert store.claim("a") is Claim.NEW
    store.finish("a")
    store.release("a")
    assert store.claim("a") is Claim.DONE


def test_of_many_threads_one_gets_an_id(store: IdStore) -> None:
    claims: list[Claim] = []
    ready = threading.Barrier(8)

    def ask() -> None:
        ready.wait()
        claims.extend([store.claim(str(number)) for number in range(20)])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(claims) == {Claim.NEW: 20, Claim.BUSY: 140}


async def test_memory_forgets_the_oldest_and_the_old() -> None:
    clock = ManualClock()
    store = MemoryIds(count_max=2, ttl_s=60, clock=clock)
    for key in ("a", "b", "c"):
        store.claim(key)
        store.finish(key)
    assert [store.claim(key) for key in ("a", "c")] == [Claim.NEW, Claim.DONE]
    assert len(store) == 2
    await clock.advance(61)
    assert store.claim("c") is Claim.NEW
    assert len(store) == 0


async def test_a_claim_of_someone_who_died_runs_out(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SqliteIds(tmp_path / "ids.db", claim_s=10, clock=clock)
    assert store.claim("a") is Claim.NEW
    await clock.advance(9)
    assert store.claim("a") is Claim.BUSY
    await clock.advance(2)
    assert store.claim("a") is Claim.NEW
    store.close()


async def test_sqlite_forgets_ids_that_are_too_old(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SqliteIds(tmp_path / "ids.db", ttl_s=60, clock=clock)
    store.finish("old")
    await clock.advance(61)
    with store.transaction("new") as connection:
        assert connection is not None
    for number in range(1_000):  # it looks once in so many
        if store.claim("old") is Claim.NEW:
            break
        with store.transaction(str(number)):
            pass
    else:
        pytest.fail("the old id is still there")
    assert store.claim("new") is Claim.DONE
    store.close()


def test_what_was_finished_is_known_to_other_processes_and_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "ids.db"
    code = (
        "import os, sys\n"
        "from skyrocketmq.idempotence import SqliteIds\n"
        "store = SqliteIds(sys.argv[1])\n"
        "store.claim('done'); store.finish('done'); store.claim('begun')\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], timeout=30, check=False)
    store = SqliteIds(path)
    assert [store.claim(key) for key in ("done", "begun", "other")] == [
        Claim.DONE,
        Claim.NEW if sys.platform == "linux" else Claim.BUSY,
        Claim.NEW,
    ]
    assert store.claim("begun") is Claim.BUSY, "the one who took it over lives"
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="whether a process runs can be seen on Linux only")
def test_who_has_died_is_known_by_boot_id_and_start() -> None:
    host, boot, namespace, process_id, start = this_process().split(" ")
    assert not has_died(this_process())
    assert has_died(f"{host} {boot} {namespace} {process_id} {int(start) + 1}"), "the number went to another process"
    assert has_died(f"{host} before {namespace} {process_id} {start}"), "the machine was started anew"
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
        assert has_died(f"{host} {boot} {namespace} {ended.pid} 1")
    for elsewhere in (f"other {boot} {namespace}", f"{host} {boot} pid:[1]", f"{host} - -"):
        assert not has_died(f"{elsewhere} {process_id} 1")


async def test_who_is_late_does_not_release_the_claim_of_another(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SqliteIds(tmp_path / "ids.db", claim_s=10, clock=clock)
    assert store.claim("a", "first") is Claim.NEW
    await clock.advance(11)
    assert store.claim("a", "second") is Claim.NEW
    store.release("a", "first")
    assert store.claim("a", "third") is Claim.BUSY
    store.release("a", "second")
    assert store.claim("a", "third") is Claim.NEW
    store.close()


def test_memory_releases_for_the_holder_only() -> None:
    store = MemoryIds()
    store.claim("a", "first")
    store.release("a", "second")
    assert store.claim("a", "second") is Claim.BUSY
    store.release("a", "first")
    assert store.claim("a", "second") is Claim.NEW


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_opens_connections_of_its_own(tmp_path: Path) -> None:
    store = SqliteIds(tmp_path / "ids.db")
    store.claim("parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            is_right = (store.claim("parent"), store.claim("child")) == (Claim.BUSY, Claim.NEW)
            store.finish("child")
            store.close()
            status = 0 if is_right else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert store.claim("child") is Claim.DONE
    store.close()


def change(store: SqliteIds, *statements: str) -> None:
    with store.transaction("a") as connection:
        assert connection is not None
        for statement in statements:
            connection.execute(statement)


def test_a_transaction_keeps_work_and_id_together(tmp_path: Path) -> None:
    store = SqliteIds(tmp_path / "ids.db")
    with store.transaction("make") as connection:
        assert connection is not None
        connection.execute("CREATE TABLE work (name TEXT)")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        change(store, "INSERT INTO work VALUES ('lost')", "INSERT INTO nowhere VALUES ('lost')")
    with pytest.raises(IllegalArgument, match="ended the transaction itself"):
        change(store, "ROLLBACK")
    change_none = "SAVEPOINT one", "INSERT INTO work VALUES ('back')", "ROLLBACK TO one", "RELEASE one"
    change(store, *change_none, "INSERT INTO work VALUES ('kept')")  # a failure has left no id
    with store.transaction("a") as connection:
        assert connection is None
    store.close()
    database = sqlite3.connect(tmp_path / "ids.db")
    assert database.execute("SELECT name FROM work").fetchall() == [("kept",)]
    database.close()


@pytest.mark.parametrize("is_passed_over", [False, True])
@pytest.mark.parametrize("end", ["commit", "rollback", "with", "script"])
def test_a_handler_that_ends_its_transaction_has_changed_nothing(
    tmp_path: Path, end: str, is_passed_over: bool
) -> None:
    store = SqliteIds(tmp_path / "ids.db")
    with store.transaction("make") as connection:  # and COMMIT is a statement that SQLite has ready
        assert connection is not None
        connection.execute("CREATE TABLE work (name TEXT)")

    def end_it(connection: sqlite3.Connection) -> None:
        if end == "with":
            with connection:
                pass
        elif end == "script":
            connection.executescript("SELECT 1")
        else:
            getattr(connection, end)()

    def work() -> None:
        with store.transaction("a") as connection:
            assert connection is not None
            connection.execute("INSERT INTO work VALUES ('twice')")
            with contextlib.suppress(*[sqlite3.DatabaseError] * is_passed_over):
                end_it(connection)

    for _ in range(2):
        with pytest.raises(IllegalArgument, match="'with database:'"):
            work()
    with store.transaction("b") as connection:
        assert connection is not None
        assert connection.execute("SELECT * FROM work").fetchall() == []
    store.close()


def test_a_transaction_does_not_take_what_another_has_claimed(tmp_path: Path) -> None:
    store = SqliteIds(tmp_path / "ids.db")
    store.claim("a")
    with pytest.raises(ClientError, match="being handled elsewhere"):
        change(store)
    store.finish("a")
    with store.transaction("a") as connection:
        assert connection is None
    store.close()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: MemoryIds(count_max=0), "count_max = 0"),
        (lambda: MemoryIds(ttl_s=0), "ttl_s = 0"),
        (lambda: SqliteIds("x.db", claim_s=0), "claim_s = 0"),
        (lambda: SqliteIds(":memory:"), "use a file, or MemoryIds"),
    ],
)
def test_what_cannot_work_is_refused(make: type, complaint: str) -> None:
    with pytest.raises(IllegalArgument, match=complaint):
        make()


def test_the_key_of_a_message_is_its_unique_id_else_that_of_its_first_copy() -> None:
    first = view(7)
    assert message_key(view(7, UNIQ_KEY="u")) == "u"
    assert message_key(view(9, UNIQ_KEY="u", ORIGIN_MESSAGE_ID="o")) == "u"
    assert message_key(view(9, ORIGIN_MESSAGE_ID=first.offset_msg_id)) == message_key(first) == first.offset_msg_id
