"""Sending in transactions: the local code, its outcomes, questions from brokers, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq import blocking
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.pull_consumer import PullConsumer
from skyrocketmq.client.settings import Credentials
from skyrocketmq.client.transaction_producer import TransactionProducer
from skyrocketmq.client.transactions import Transaction, TransactionState
from skyrocketmq.errors import BrokerError, IllegalArgument
from skyrocketmq.model import Message, MessageView
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.signing import is_signed_by
from tests.client.cluster import Cluster, until
from tests.client.scripted import open_scripted, refuse, stored

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
END = RequestCode.END_TRANSACTION


async def delivered(cluster: Cluster, topic: str = "Paid") -> list[bytes]:
    """All bodies that consumers can get now."""
    async with PullConsumer("readers", namesrv=cluster.namesrv) as consumer:
        results = [await consumer.pull(queue, 0) for queue in await consumer.queues(topic)]
    return sorted(message.body for result in results for message in result.messages)


def waiting_jobs(producer: TransactionProducer) -> int:
    """Local transactions that wait for a thread."""
    threads = producer._threads
    return threads._work_queue.qsize() if isinstance(threads, ThreadPoolExecutor) else 0


async def hasten(cluster: Cluster) -> None:
    """Let brokers ask after a moment instead of a minute."""
    for broker in cluster.brokers.values():
        await broker.config.update({"transactionCheckInterval": "50", "transactionTimeOut": "0"})


# ------------------------------------------------------------------------------------------------------ on a cluster


async def test_consumers_get_what_was_committed_and_nothing_else(cluster: Cluster) -> None:
    cluster.create_topic("Paid")
    seen: list[tuple[str, object]] = []

    async def awaited(transaction: Transaction, arg: TransactionState) -> TransactionState:
        seen.append((transaction.id, arg))
        assert await delivered(cluster) == []
        return arg

    def plain(transaction: Transaction, arg: TransactionState) -> TransactionState:
        assert threading.current_thread() is not threading.main_thread()
        seen.append((transaction.id, arg))
        return arg

    async with TransactionProducer("payments", namesrv=cluster.namesrv) as producer:
        results = [
            await producer.send_in_transaction(Message("Paid", b"one", tags="a", keys=["k"]), awaited, ROLLBACK),
            await producer.send_in_transaction(Message("Paid", b"two"), awaited, COMMIT),
            await producer.send_in_transaction(Message("Paid", b"three"), plain, COMMIT),
            await producer.send_in_transaction(Message("Paid", b"four"), plain, UNKNOWN),
            await producer.send_in_transaction(Message("Paid", b"five"), lambda *_: None),
        ]
    assert [result.state for result in results] == [ROLLBACK, COMMIT, COMMIT, UNKNOWN, UNKNOWN]
    assert [result.is_confirmed for result in results] == [True, True, True, False, False]
    assert [transaction for transaction, _ in seen] == [result.transaction_id for result in results[:4]]
    assert await delivered(cluster) == [b"three", b"two"]
    assert len(cluster.brokers["broker-a"].transactions.log.pending) == 2


async def test_a_local_transaction_that_raises_is_left_to_the_check(cluster: Cluster) -> None:
    cluster.create_topic("Paid")
    asked: list[MessageView] = []

    async def breaks(transaction: Transaction, arg: object) -> TransactionState:
        raise OSError("the database is gone")

    async def check(message: MessageView) -> TransactionState:
        asked.append(message)
        return COMMIT

    async with TransactionProducer("payments", check=check, namesrv=cluster.namesrv) as producer:
        message = Message("Paid", b"x" * 5000, keys=["k"], properties={"colour": "red"})
        result = await producer.send_in_transaction(message, breaks)
        assert (result.state, result.is_confirmed) == (UNKNOWN, False)
        assert isinstance(result.error, OSError)
        await hasten(cluster)
        await until(lambda: len(cluster.brokers["broker-a"].transactions.log.pending) == 0)
    assert await delivered(cluster) == [b"x" * 5000]
    assert asked[0].transaction_id == result.transaction_id
    assert (asked[0].topic, asked[0].body, asked[0].properties["colour"]) == ("Paid", b"x" * 5000, "red")


async def test_another_member_of_the_group_answers_for_one_that_is_gone(cluster: Cluster) -> None:
    cluster.create_topic("Paid")

    def check(message: MessageView) -> TransactionState:
        return COMMIT if message.body == b"paid" else ROLLBACK

    async with TransactionProducer("payments", namesrv=cluster.namesrv) as first:
        for body in (b"paid", b"unpaid"):
            await first.send_in_transaction(Message("Paid", body), lambda *_: UNKNOWN)
    await hasten(cluster)
    async with TransactionProducer("payments", check=check, namesrv=cluster.namesrv) as second:
        await second.send(Message("Other", b"connects to the broker"))
        await until(lambda: len(cluster.brokers["broker-a"].transactions.log.pending) == 0)
    assert await delivered(cluster) == [b"paid"]


async def test_a_check_that_raises_or_does_not_know_is_asked_again(cluster: Cluster) -> None:
    cluster.create_topic("Paid")
    outcomes: list[object] = [ValueError("not now"), None, "nonsense", UNKNOWN, COMMIT]

    def check(message: MessageView) -> TransactionState | None:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[return-value]

    async with TransactionProducer("payments", check=check, namesrv=cluster.namesrv) as producer:
        await producer.send_in_transaction(Message("Paid", b"x"), lambda *_: UNKNOWN)
        await hasten(cluster)
        await until(lambda: not outcomes)
        await until(lambda: len(cluster.brokers["broker-a"].transactions.log.pending) == 0)
    assert await delivered(cluster) == [b"x"]


async def test_checks_run_at_the_same_time_but_not_too_many(cluster: Cluster) -> None:
    cluster.create_topic("Paid")
    running, most = 0, 0

    async def check(message: MessageView) -> TransactionState:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return COMMIT

    async with TransactionProducer("payments", check=check, check_count_max=3, namesrv=cluster.namesrv) as producer:
        messages = [Message("Paid", b"%d" % number) for number in range(20)]
        await asyncio.gather(*[producer.send_in_transaction(each, lambda *_: UNKNOWN) for each in messages])
        await hasten(cluster)
        await until(lambda: len(cluster.brokers["broker-a"].transactions.log.pending) == 0)
    assert most == 3
    assert len(await delivered(cluster)) == 20


async def test_two_groups_in_one_process_are_asked_about_their_own(cluster: Cluster) -> None:
    cluster.create_topic("Paid")
    asked: list[str] = []

    def check_of(group: str) -> object:
        def check(message: MessageView) -> TransactionState:
            asked.append(f"{group} {message.body.decode()}")
            return COMMIT

        return check

    async with (
        TransactionProducer("red", check=check_of("red"), namesrv=cluster.namesrv) as red,  # type: ignore[arg-type]
        TransactionProducer("blue", check=check_of("blue"), namesrv=cluster.namesrv) as blue,  # type: ignore[arg-type]
        Producer("plain", namesrv=cluster.namesrv),
    ):
        assert red.client_id == blue.client_id
        await red.send_in_transaction(Message("Paid", b"1"), lambda *_: UNKNOWN)
        await blue.send_in_transaction(Message("Paid", b"2"), lambda *_: UNKNOWN)
        await hasten(cluster)
        await until(lambda: len(cluster.brokers["broker-a"].transactions.log.pending) == 0)
    assert sorted(set(asked)) == ["blue 2", "red 1"]


async def test_names_of_a_namespace_are_put_on_and_taken_off(cluster: Cluster) -> None:
    cluster.create_topic("ns%Paid")
    asked: list[str] = []

    def check(message: MessageView) -> TransactionState:
        asked.append(message.topic)
        return COMMIT

    async with TransactionProducer("payments", check=check, namesrv=cluster.namesrv, namespace="ns") as producer:
        committed = await producer.send_in_transaction(Message("Paid", b"1"), lambda *_: COMMIT)
        assert committed.is_confirmed
        await producer.send_in_transaction(Message("Paid", b"2"), lambda *_: UNKNOWN)
        await hasten(cluster)
        await until(lambda: len(cluster.brokers["broker-a"].transactions.log.pending) == 0)
    assert await delivered(cluster, "ns%Paid") == [b"1", b"2"]
    assert set(asked) == {"Paid"}


async def test_code_that_blocks_has_the_same(cluster: Cluster) -> None:
    cluster.create_topic("Paid")

    def work() -> None:
        with blocking.TransactionProducer("payments", namesrv=cluster.namesrv) as producer:
            result = producer.send_in_transaction(Message("Paid", b"1"), lambda transaction, arg: arg, COMMIT)
            assert (result.state, result.is_confirmed) == (COMMIT, True)
            producer.send(Message("Paid", b"2"))

    await asyncio.to_thread(work)
    assert await delivered(cluster) == [b"1", b"2"]


async def test_the_program_of_the_guide_runs(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.create_topic("Paid")
    guide = (Path(__file__).parents[2] / "docs" / "transactions.md").read_text()
    program = guide.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(program, "docs/transactions.md", "exec"), names)
    await names["main"](cluster.namesrv)
    assert capsys.readouterr().out == "TransactionState.COMMIT True\n"
    assert await delivered(cluster) == [b"order 1"]


# ------------------------------------------------------------------------------------------------- on scripted brokers


def less_safe(frame: Frame) -> Frame:
    answer = stored(frame)
    answer.code = ResponseCode.FLUSH_DISK_TIMEOUT
    return answer


async def test_a_half_that_is_stored_less_safely_is_rolled_back_and_nothing_runs() -> None:
    async with open_scripted() as scripted:
        scripted.add_topic("T")
        broker = scripted.brokers["broker-a"]
        broker.on(RequestCode.SEND_MESSAGE_V2, less_safe)
        broker.on(END, lambda frame: frame.reply())
        async with TransactionProducer("payments", namesrv=scripted.namesrv) as producer:
            result = await producer.send_in_transaction(Message("T", b"x"), lambda *_: pytest.fail("it ran"))
        assert (result.state, result.is_confirmed) == (ROLLBACK, True)
        (end,) = broker.frames(END)
        assert (end.ext or {})["commitOrRollback"] == "12"


async def test_half_and_end_have_the_fields_of_java_s_client() -> None:
    async with open_scripted() as scripted:
        scripted.add_topic("T")
        broker = scripted.brokers["broker-a"]
        broker.on(END, lambda frame: frame.reply())
        me = Credentials("me", "secret")
        async with TransactionProducer("payments", namesrv=scripted.namesrv, credentials=me) as producer:
            result = await producer.send_in_transaction(Message("T", b"x", tags="a"), lambda *_: COMMIT)
        (half,) = broker.frames(RequestCode.SEND_MESSAGE_V2)
        ext = half.ext or {}
        assert ext["f"] == "4"
        pairs = dict(pair.split("\x01") for pair in (ext["i"] or "").split("\x02"))
        assert (pairs["TRAN_MSG"], pairs["PGROUP"], pairs["UNIQ_KEY"]) == ("true", "payments", result.transaction_id)
        (end,) = broker.frames(END)
        assert is_signed_by(end.ext, end.body, secret_key="secret")
        fields = {name: text for name, text in (end.ext or {}).items() if name not in ("AccessKey", "Signature")}
        assert fields == {
            "producerGroup": "payments",
            "tranStateTableOffset": "5",
            "commitLogOffset": "0",
            "commitOrRollback": "8",
            "fromTransactionCheck": "false",
            "msgId": result.transaction_id,
            "transactionId": result.transaction_id,
            "bname": "broker-a",
        }


async def test_an_end_that_is_not_confirmed_is_said_in_the_result() -> None:
    async with open_scripted() as scripted:
        scripted.add_topic("T")
        broker = scripted.brokers["broker-a"]
        broker.on(END, refuse(1, "no such half message"))
        async with TransactionProducer("payments", namesrv=scripted.namesrv) as producer:
            result = await producer.send_in_transaction(Message("T", b"x"), lambda *_: COMMIT)
        assert (result.state, result.is_confirmed) == (COMMIT, False)


async def test_who_closes_the_producer_while_local_code_runs_takes_no_result_away() -> None:
    running, may_end = asyncio.Event(), asyncio.Event()

    async def execute(transaction: Transaction, arg: object) -> TransactionState:
        running.set()
        await may_end.wait()
        return COMMIT

    async with open_scripted() as scripted:
        scripted.add_topic("T")
        producer = TransactionProducer("payments", namesrv=scripted.namesrv)
        await producer.start()
        sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x"), execute))
        await running.wait()
        await producer.close()
        may_end.set()
        result = await sending
        assert (result.state, result.is_confirmed, result.error) == (COMMIT, False, None)


async def test_local_code_that_found_no_thread_before_the_producer_was_closed_is_an_error_of_its_result() -> None:
    may_end = threading.Event()
    ran: list[str] = []

    def execute(transaction: Transaction, arg: object) -> TransactionState:
        ran.append(transaction.id)
        may_end.wait()
        return COMMIT

    async with open_scripted() as scripted:
        scripted.add_topic("T")
        producer = TransactionProducer("payments", namesrv=scripted.namesrv, thread_count=1)
        await producer.start()
        sending = [asyncio.create_task(producer.send_in_transaction(Message("T", b"x"), execute)) for _ in range(2)]
        await until(lambda: waiting_jobs(producer) == 1 and bool(ran))
        await producer.close()
        may_end.set()
        results = sorted(await asyncio.gather(*sending), key=lambda result: result.state is UNKNOWN)
        assert [result.state for result in results] == [COMMIT, UNKNOWN]
        assert "closed" in str(results[1].error)
        assert ran == [results[0].transaction_id]


async def test_a_half_that_is_refused_raises_and_nothing_runs() -> None:
    async with open_scripted() as scripted:
        scripted.add_topic("T")
        scripted.brokers["broker-a"].on(RequestCode.SEND_MESSAGE_V2, refuse(13, "too large"))
        async with TransactionProducer("payments", namesrv=scripted.namesrv) as producer:
            with pytest.raises(BrokerError, match="too large"):
                await producer.send_in_transaction(Message("T", b"x"), lambda *_: pytest.fail("it ran"))


async def test_what_cannot_be_a_transaction_is_refused_before_anything_is_sent() -> None:
    async with open_scripted() as scripted:
        scripted.add_topic("T")
        async with TransactionProducer("payments", namesrv=scripted.namesrv) as producer:
            with pytest.raises(IllegalArgument, match="delayed"):
                await producer.send_in_transaction(Message("T", b"x", delay_level=1), lambda *_: COMMIT)
        assert scripted.brokers["broker-a"].count(RequestCode.SEND_MESSAGE_V2) == 0
    with pytest.raises(IllegalArgument, match="at least 1"):
        TransactionProducer("payments", check_count_max=0)
