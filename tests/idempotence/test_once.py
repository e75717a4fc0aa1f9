"""`once`: with messages that really come again: handed back, from dead letters, after a kill, twice at a time."""

from __future__ import annotations

import asyncio
import functools
import os
import sqlite3
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq import ConsumeResult, Message, MessageView, PushConsumer
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.idempotence import Claim, IdStore, MemoryIds, SqliteIds, message_key, once
from skyrocketmq.model import MessageQueue
from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.client.messages import view
from tests.docs_code import ROOT, python_blocks
from tests.net.support import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster(settings={"messageDelayLevel": "1s 1s 1s 1s 1s"}) as opened:
        yield opened


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IdStore]:
    if request.param == "memory":
        yield MemoryIds()
        return
    made = SqliteIds(tmp_path / "ids.db")
    yield made
    made.close()


def made_handler(work: Callable[[MessageView], object], *, is_async: bool) -> Callable[[MessageView], Any]:
    async def handle_async(message: MessageView) -> object:
        return work(message)

    def handle(message: MessageView) -> object:
        return work(message)

    return handle_async if is_async else handle


async def called(handler: Callable[[MessageView], Any], message: MessageView) -> object:
    outcome = handler(message)
    return await outcome if asyncio.iscoroutine(outcome) else outcome


# ------------------------------------------------------------------------------------------------------ called by hand


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_message_that_comes_again_is_passed_over(store: IdStore, is_async: bool) -> None:
    seen: list[int] = []
    handler = once(store, scope="s")(made_handler(lambda message: seen.append(message.queue_offset), is_async=is_async))
    for message in (view(1, UNIQ_KEY="a"), view(2, UNIQ_KEY="b"), view(3, UNIQ_KEY="a")):
        await called(handler, message)
    assert seen == [1, 2]
    assert await called(handler, view(4, UNIQ_KEY="a")) == ConsumeResult.SUCCESS


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_that_fails_leaves_no_id(store: IdStore, is_async: bool) -> None:
    attempts: list[int] = []

    def fail_twice(message: MessageView) -> ConsumeResult:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("as the test wants it")
        return ConsumeResult.RETRY if len(attempts) == 2 else ConsumeResult.SUCCESS

    handler = once(store, scope="s")(made_handler(fail_twice, is_async=is_async))
    with pytest.raises(ValueError, match="as the test wants it"):
        await called(handler, view(1, UNIQ_KEY="a"))
    results = [await called(handler, view(1, UNIQ_KEY="a")) for _ in range(3)]
    assert results == [ConsumeResult.RETRY, ConsumeResult.SUCCESS, ConsumeResult.SUCCESS]
    assert len(attempts) == 3


async def test_a_plain_function_around_an_async_handler_is_finished_when_it_was_awaited(store: IdStore) -> None:
    attempts: list[int] = []

    async def fail_twice(message: MessageView) -> ConsumeResult:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("as the test wants it")
        return ConsumeResult.RETRY if len(attempts) == 2 else ConsumeResult.SUCCESS

    handler = once(store, scope="s")(lambda message: fail_twice(message))
    with pytest.raises(ValueError, match="as the test wants it"):
        await handler(view(1, UNIQ_KEY="a"))
    assert await handler(view(1, UNIQ_KEY="a")) == ConsumeResult.RETRY
    assert await handler(view(1, UNIQ_KEY="a")) == ConsumeResult.SUCCESS
    assert handler(view(1, UNIQ_KEY="a")) == ConsumeResult.SUCCESS
    assert len(attempts) == 3


def test_a_transaction_refuses_work_that_is_yet_to_be_awaited(tmp_path: Path) -> None:
    store = SqliteIds(tmp_path / "ids.db")

    async def work() -> None: ...

    def handle(message: MessageView, database: sqlite3.Connection) -> object:
        database.execute("CREATE TABLE work (name TEXT)")
        return work()

    handler = once(store, scope="s", transaction=True)(handle)
    for _ in range(2):  # rolled back: otherwise the second would be passed over
        with pytest.raises(IllegalArgument, match="a plain function"):
            handler(view(1, UNIQ_KEY="a"))
    store.close()


async def test_a_duplicate_is_put_off_or_waits_while_the_first_is_handled(store: IdStore) -> None:
    gate = asyncio.Event()
    seen: list[str] = []

    async def slow(message: MessageView) -> None:
        await gate.wait()
        seen.append("done")

    first = asyncio.create_task(once(store, scope="s")(slow)(view(1, UNIQ_KEY="a")))
    await asyncio.sleep(0.05)
    assert await once(store, scope="s")(slow)(view(1, UNIQ_KEY="a")) == ConsumeResult.RETRY
    short = once(store, scope="s", busy="wait", wait_s=0.05)(slow)(view(1, UNIQ_KEY="a"))
    assert await short == ConsumeResult.RETRY
    waiting = asyncio.create_task(once(store, scope="s", busy="wait")(slow)(view(1, UNIQ_KEY="a")))
    await asyncio.sleep(0.02)
    gate.set()
    await first
    assert await waiting == ConsumeResult.SUCCESS
    assert seen == ["done"]


def test_a_duplicate_in_another_thread_waits_too(store: IdStore) -> None:
    entered, gate = threading.Event(), threading.Event()
    results: list[object] = []

    def slow(message: MessageView) -> str:
        entered.set()
        gate.wait(10)
        return "first"

    handler = once(store, scope="s", busy="wait")(slow)
    threads = [threading.Thread(target=lambda: results.append(handler(view(1, UNIQ_KEY="a")))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert entered.wait(10)
    gate.set()
    for thread in threads:
        thread.join(10)
    assert sorted(map(str, results)) == sorted(["first", str(ConsumeResult.SUCCESS)])


async def test_handlers_with_scopes_of_their_own_both_get_a_message(store: IdStore) -> None:
    seen: list[str] = []
    for scope in ("one", "two", "one"):
        once(store, scope=scope)(lambda message: seen.append("scoped"))(view(1, UNIQ_KEY="a"))
    by_key = once(store, scope="three", key=lambda message: message.keys[0])(lambda message: seen.append("key"))
    by_key(view(1, UNIQ_KEY="x", KEYS="k"))
    by_key(view(2, UNIQ_KEY="y", KEYS="k"))
    assert seen == ["scoped", "scoped", "key"]


def test_what_once_cannot_do_is_refused(tmp_path: Path) -> None:
    async def handle_async(message: MessageView, database: sqlite3.Connection) -> None: ...

    def handle(message: MessageView, database: sqlite3.Connection) -> None: ...

    with pytest.raises(IllegalArgument, match="MemoryIds has none"):
        once(MemoryIds(), scope="s", transaction=True)(handle)  # type: ignore[call-overload]  # a checker refuses it as well
    store = SqliteIds(tmp_path / "ids.db")
    with pytest.raises(IllegalArgument, match="a plain function"):
        once(store, scope="s", transaction=True)(handle_async)
    with pytest.raises(IllegalArgument, match="one message at a time"):
        once(store, scope="s")(lambda message: None)([view(1)])  # type: ignore[arg-type]  # what a consumer with batch= would do
    store.close()


def of_the_module(message: MessageView) -> None: ...


class Objects:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def handle(self, message: MessageView) -> None:
        self.seen.append(message.queue_offset)

    async def __call__(self, message: MessageView) -> None:
        self.seen.append(message.queue_offset)


def test_a_default_scope_that_another_handler_may_have_is_refused() -> None:
    store = MemoryIds()

    def inner(message: MessageView) -> None: ...

    in_script = types.FunctionType(of_the_module.__code__, {"__name__": "__main__"})
    partial = functools.partial(of_the_module)
    for function in (inner, lambda message: None, in_script, partial, Objects()):
        with pytest.raises(IllegalArgument, match="give scope="):
            once(store)(function)
    once(store)(of_the_module)
    with pytest.raises(IllegalArgument, match="a handler of this store already: give scope="):
        once(store)(of_the_module)
    once(MemoryIds())(of_the_module)


async def test_partial_functions_methods_and_objects_are_handlers_too(store: IdStore) -> None:
    made = Objects()
    handlers: list[Callable[[MessageView], Any]] = [functools.partial(made.handle), made.handle, made]
    for number, function in enumerate(handlers):
        handler = once(store, scope=str(number))(function)
        for _ in range(2):
            await called(handler, view(number, UNIQ_KEY="a"))
    assert made.seen == [0, 1, 2]
    with pytest.raises(IllegalArgument, match="a method is decorated when it is bound"):
        once(store)(Objects.handle)  # type: ignore[arg-type]  # as in the body of the class


def test_the_same_key_in_two_topics_is_two_messages_and_a_retry_is_of_its_first_topic(store: IdStore) -> None:
    seen: list[int] = []
    handler = once(store, scope="s", key=lambda message: message.keys[0])(lambda m: seen.append(m.queue_offset))
    handler(view(1, KEYS="k"))
    handler(view(2, KEYS="k", queue=MessageQueue("other", "broker-a", 0)))
    handler(view(3, KEYS="k", RETRY_TOPIC="other", queue=MessageQueue("%RETRY%readers", "broker-a", 0)))
    assert seen == [1, 2]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_result_that_is_none_leaves_no_claim(store: IdStore, is_async: bool) -> None:
    handler = once(store, scope="s")(made_handler(lambda message: ConsumeResult.retry, is_async=is_async))
    for _ in range(2):  # not put off as if somebody were at it
        with pytest.raises(IllegalArgument, match="the handler returned"):
            await called(handler, view(1, UNIQ_KEY="a"))


class SlowIds(MemoryIds):
    """Asked in a thread, as one that waits for a disk."""

    is_blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.gate, self.answered = threading.Event(), threading.Event(), threading.Event()

    def claim(self, *values: str) -> Claim:
        self.asked.set()
        self.gate.wait(10)
        claim = super().claim(*values)
        self.answered.set()
        return claim


async def test_a_call_that_is_cancelled_while_it_claims_leaves_no_claim() -> None:
    store = SlowIds()
    seen: list[int] = []

    async def handle(message: MessageView) -> None:
        seen.append(message.queue_offset)

    handler = once(store, scope="s")(handle)
    call = asyncio.create_task(handler(view(1, UNIQ_KEY="a")))
    await asyncio.to_thread(store.asked.wait, 10)
    call.cancel()
    await asyncio.sleep(0.02)
    store.gate.set()
    await asyncio.to_thread(store.answered.wait, 10)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert seen == []
    await handler(view(2, UNIQ_KEY="a"))
    assert seen == [2]


def test_a_transaction_that_the_handler_calls_a_failure_is_rolled_back(tmp_path: Path) -> None:
    store = SqliteIds(tmp_path / "ids.db")
    results = [ConsumeResult.RETRY, ConsumeResult.SUCCESS]

    @once(store, transaction=True, scope="s")
    def note(message: MessageView, database: sqlite3.Connection) -> ConsumeResult:
        database.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
        database.execute("INSERT INTO notes VALUES (?)", (message.body.decode(),))
        return results.pop(0)

    outcomes = [note(view(1, b"x", UNIQ_KEY="a")) for _ in range(3)]
    assert outcomes == [ConsumeResult.RETRY, ConsumeResult.SUCCESS, ConsumeResult.SUCCESS]
    store.close()
    database = sqlite3.connect(tmp_path / "ids.db")
    assert database.execute("SELECT text FROM notes").fetchall() == [("x",)]
    database.close()


# --------------------------------------------------------------------------------------------------- with a real broker


async def test_a_message_that_is_handed_back_and_dies_keeps_its_key(cluster: BlockingCluster) -> None:
    """Attempts come through a retry topic, the last one lies with the dead letters: one key for all of them."""
    await cluster.awaitable.create_topic("back", queues=1)
    keys: list[str] = []
    attempts: list[int] = []

    def key(message: MessageView) -> str:
        keys.append(message_key(message))
        return keys[-1]

    @once(MemoryIds(), key=key, scope="s")
    def fail(message: MessageView) -> None:
        attempts.append(message.reconsume_times)
        raise ValueError("as the test wants it")

    consumer = PushConsumer("backers", namesrv=cluster.namesrv, consume_from="first", retry_count_max=2)
    consumer.subscribe("back", "*", fail)
    async with consumer:
        with Producer("senders", namesrv=cluster.namesrv) as producer:
            sent = await asyncio.to_thread(producer.send, Message("back", b"x"))
        (dead,) = await cluster.awaitable.messages("%DLQ%backers", count=1)
    assert attempts == [0, 1, 2], "a failure leaves the id unmarked: each attempt is made"
    assert {*keys, key(dead)} == {sent.msg_id}


async def test_a_message_that_is_redelivered_after_it_was_handled_is_passed_over(cluster: BlockingCluster) -> None:
    """A consumer that dies before it commits its offset: the next one gets the messages again."""
    await cluster.awaitable.create_topic("again", queues=1)
    handled: list[bytes] = []
    delivered: list[bytes] = []
    store = MemoryIds()

    @once(store, scope="s")
    async def handle(message: MessageView) -> None:
        handled.append(message.body)

    async def count(message: MessageView) -> object:
        delivered.append(message.body)
        return await handle(message)

    with Producer("senders", namesrv=cluster.namesrv) as producer:
        for number in range(5):
            await asyncio.to_thread(producer.send, Message("again", b"%d" % number))
    for group in ("first-life", "second-life"):  # a group without offsets begins at the beginning, as after a kill
        consumer = PushConsumer(group, namesrv=cluster.namesrv, consume_from="first")
        consumer.subscribe("again", "*", count)
        before = len(delivered)
        async with consumer:
            await until(lambda: len(delivered) == before + 5)  # noqa: B023
    assert len(delivered) == 10
    assert sorted(handled) == [b"0", b"1", b"2", b"3", b"4"]


KILLED = """
import os, sqlite3, sys, threading
from skyrocketmq.blocking import PushConsumer
from skyrocketmq.idempotence import SqliteIds, once

namesrv, path, dies = sys.argv[1], sys.argv[2], sys.argv[3] == "dies"
consumer = PushConsumer("transfers", namesrv=namesrv, consume_from="first", concurrency=1)
done = threading.Event()

@consumer.subscribe("transfer")
@once(SqliteIds(path), transaction=True, scope="transfer")
def transfer(message, database):
    database.execute("UPDATE account SET balance = balance - 1 WHERE name = 'a'")
    if dies and message.body == b"3":
        os.kill(os.getpid(), 9)                 # in the middle of a transfer
    database.execute("UPDATE account SET balance = balance + 1 WHERE name = 'b'")

with consumer:
    done.wait(60)
"""


@pytest.mark.system
def test_a_consumer_killed_in_the_middle_of_a_transfer_makes_each_transfer_once(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    path = tmp_path / "accounts.db"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER)")
    database.execute("INSERT INTO account VALUES ('a', 10), ('b', 0)")
    cluster.create_topic("transfer", queues=1)
    with Producer("senders", namesrv=cluster.namesrv) as producer:
        for number in range(6):
            producer.send(Message("transfer", b"%d" % number))
    command = [sys.executable, "-c", KILLED, cluster.namesrv, str(path)]
    killed = subprocess.run([*command, "dies"], timeout=40, check=False)
    assert killed.returncode == -9
    assert database.execute("SELECT balance FROM account ORDER BY name").fetchall() == [(7,), (3,)]
    with subprocess.Popen([*command, "lives"]) as living:
        try:
            cluster.wait_consumed("transfers", "transfer", timeout_s=40)
        finally:
            living.kill()
    assert database.execute("SELECT balance FROM account ORDER BY name").fetchall() == [(4,), (6,)]
    database.close()


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spaces: list[dict[str, Any]] = []
    for block in python_blocks(ROOT / "docs" / "idempotent-consumption.md"):
        spaces.append({"__name__": "page"})
        exec(compile(block, "idempotent-consumption.md", "exec"), spaces[-1])
    plain, by_key, together = spaces
    plain["bill"](view(1, UNIQ_KEY="a"))
    assert asyncio.run(by_key["bill"](view(1, KEYS="order-1"))) == ConsumeResult.SUCCESS
    accounts = sqlite3.connect("accounts.db", isolation_level=None)
    accounts.execute("CREATE TABLE account (name TEXT, balance INTEGER)")
    accounts.execute("INSERT INTO account VALUES ('ann', 10), ('bob', 0)")
    for _ in range(2):
        together["transfer"](view(1, b"4 ann bob", UNIQ_KEY="t"))
    assert accounts.execute("SELECT balance FROM account").fetchall() == [(6,), (4,)]
    accounts.close()
    plain["handled"].close()
    together["accounts"].close()
    assert os.path.exists("handled.db")
