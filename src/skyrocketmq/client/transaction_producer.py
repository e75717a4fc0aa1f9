"""Sending messages that consumers get only if a local transaction succeeds.

    async def pay(transaction: Transaction, order: Order) -> TransactionState:
        await database.pay(order, transaction.id)
        return TransactionState.COMMIT

    async def was_paid(message: MessageView) -> TransactionState:
        return TransactionState.COMMIT if await database.knows(message.transaction_id) else TransactionState.ROLLBACK

    async with TransactionProducer("payments", check=was_paid, namesrv="localhost:9876") as producer:
        result = await producer.send_in_transaction(Message("Paid", b"order 1"), pay, order)

The broker stores the message first and shows it to nobody. Then the local code runs. Then the broker hears how it
ended, delivers the message or forgets it. If it does not hear (the producer died, a connection broke, the local code
did not know), it asks any member of the group, and `check` answers.

Rule 1: local code that raises does not know how it ended: its error may have come after the change. `check` decides.
Rule 2: a plain function runs in a thread, an async one on the loop.
Rule 3: answers to checks are bounded in number; above, a question is dropped, and the broker asks again in a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final

import msgspec

from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.trace_sending import transaction_ended
from skyrocketmq.client.transactions import (
    Check,
    Execute,
    Transaction,
    TransactionResult,
    TransactionState,
    end_of_checked,
    end_of_sent,
    half_message,
    state_of,
)
from skyrocketmq.errors import ClientError, IllegalArgument, MQError, broker_error
from skyrocketmq.model import Message, MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.net import Connection, Handler
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import CheckTransactionStateHeader
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.records import decode_record

__all__ = ["TransactionProducer"]

logger = logging.getLogger(__name__)

END_TIMEOUT_S: Final = 3.0
CHECKS_WAITING_MAX: Final = 2000  # as Java's
TRACED_STATES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",  # spelt so by Apache RocketMQ
}


class TransactionProducer(Producer):
    """A producer that also sends in transactions. Its arguments are those of `Producer`, and

    | argument | default | meaning |
    |---|---|---|
    | check | none | is asked, with a `MessageView`, how a transaction of the group ended; without it nobody answers |
    | check_count_max | 16 | checks that run at a time; up to 2,000 more wait |
    | thread_count | 16 | threads for local transactions and checks that are plain functions |
    """

    def __init__(
        self,
        group: str,
        *,
        check: Check | None = None,
        check_count_max: int = 16,
        thread_count: int = 16,
        **options: Any,
    ) -> None:
        if check_count_max < 1 or thread_count < 1:
            raise IllegalArgument("check_count_max and thread_count must be at least 1")
        super().__init__(group, **options)
        self._check = check
        self._check_count_max = check_count_max
        self._thread_count = thread_count
        self._threads: Executor | None = None
        self._checks: dict[asyncio.Task[None], None] = {}
        self._checking = asyncio.Semaphore(check_count_max)

    async def _open(self, opened: AsyncExitStack) -> None:
        await super()._open(opened)
        instance, _ = self._started()
        instance.requests.register(RequestCode.CHECK_TRANSACTION_STATE, _check_handler(instance))
        opened.push_async_callback(self._stop_checks)

    async def _stop_checks(self) -> None:
        for task in self._checks:
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)

    def _closed(self) -> None:
        super()._closed()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    # --------------------------------------------------------------------------------------------------------- sending

    async def send_in_transaction(
        self, message: Message, execute: Execute, arg: Any = None, *, timeout_s: float | None = None
    ) -> TransactionResult:
        """Send the first half, run `execute(transaction, arg)`, and tell the broker how it ended.

        Raises what `send` raises: then nothing was run. If the producer is closed meanwhile, the result is unconfirmed.
        What `execute` raises is in the result, whose state is UNKNOWN.
        A half that was stored less safely than the broker is set up for is rolled back, and nothing is run.
        """
        sent = await self.send(half_message(message, self.wire_group), timeout_s=timeout_s)
        state, error = TransactionState.ROLLBACK, None
        if sent.is_ok:
            try:
                state = state_of(await self._call(execute, Transaction(message, sent), arg))
            except Exception as raised:
                logger.warning(
                    "local transaction raised, it will be checked",
                    extra={"transaction": sent.msg_id},
                    exc_info=raised,
                )
                state, error = TransactionState.UNKNOWN, raised
        return await self._end(message, TransactionResult(state, sent, error=error))

    async def _end(self, message: Message, result: TransactionResult) -> TransactionResult:
        """Tell the broker. Whatever goes wrong with that is not the caller's trouble: the broker asks."""
        sent, state = result.sent, result.state
        remark = None if result.error is None else f"the local transaction raised {result.error!r}"
        frame = end_of_sent(sent, state, self.wire_group, remark=remark)
        try:
            instance, _ = self._started()  # it may have been closed while the local transaction ran
            address = await instance.calls.master(self._names.wrap_queue(sent.queue))
            self._trace_end(message, sent.msg_id, address, state, is_from_check=False)
            if state is TransactionState.UNKNOWN:
                await instance.net.oneway(address, frame, END_TIMEOUT_S)
                return result
            answer = await instance.net.request(address, frame, END_TIMEOUT_S)
            if answer.code:
                raise broker_error(answer.code, answer.remark, address=address)
        except MQError as error:
            logger.warning(
                "end of a transaction not confirmed, the broker will ask",
                extra={"transaction": sent.msg_id, "state": state.name, "reason": str(error)},
            )
            return result
        return TransactionResult(state, sent, is_confirmed=True, error=result.error)

    def _trace_end(
        self, message: Message | MessageView, msg_id: str, address: str, state: TransactionState, *, is_from_check: bool
    ) -> None:
        if self.tracer is not None:
            transaction_ended(
                self.tracer,
                message,
                msg_id=msg_id,
                store_host=address,
                state=TRACED_STATES[state],
                is_from_check=is_from_check,
            )

    async def _call(self, function: Callable[..., Any], *args: Any) -> object:
        """Run the user's code where it belongs."""
        if iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
            outcome = function(*args)
        else:
            self._started()  # a closed producer would not end the threads
            if self._threads is None:
                self._threads = self._started()[0].machine.executor(self._thread_count, name="transaction")
            running = asyncio.get_running_loop().run_in_executor(self._threads, function, *args)
            try:
                outcome = await running
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if running.cancelled() and task is not None and not task.cancelling():
                    raise ClientError("the producer was closed before a thread was free for this") from None
                raise
        return await outcome if isawaitable(outcome) else outcome

    # -------------------------------------------------------------------------------------------------------- checking

    def check_soon(self, asked: CheckTransactionStateHeader, message: MessageView, connection: Connection) -> None:
        """39: a broker wants to know how a transaction of this group ended."""
        if self._check is None:
            logger.warning("transaction not checked: the producer has no check", extra={"group": self.group})
        elif len(self._checks) >= CHECKS_WAITING_MAX:
            logger.warning("too many transactions to check, the broker asks again", extra={"group": self.group})
        else:
            task = asyncio.get_running_loop().create_task(self._answer(self._check, asked, message, connection))
            self._checks[task] = None
            task.add_done_callback(self._checks.pop)

    async def _answer(
        self, check: Check, asked: CheckTransactionStateHeader, message: MessageView, connection: Connection
    ) -> None:
        remark = None
        shown = msgspec.structs.replace(message, topic=self._names.unwrap(message.topic))
        async with self._checking:
            try:
                state = state_of(await self._call(check, shown))
            except Exception as error:
                logger.warning("check of a transaction raised", extra={"group": self.group}, exc_info=error)
                state, remark = TransactionState.UNKNOWN, f"the check raised {error!r}"
        frame = end_of_checked(asked, message, state, self.wire_group, remark=remark)
        try:
            instance, _ = self._started()
            self._trace_end(shown, shown.msg_id, connection.peer, state, is_from_check=True)
            await instance.net.oneway(connection.peer, frame, END_TIMEOUT_S)
        except MQError as error:
            logger.warning("answer to a check not sent, the broker asks again", extra={"reason": str(error)})


def _check_handler(instance: ClientInstance) -> Handler:
    """Gives a broker's question to the producer of the group that it is about."""

    def check(frame: Frame, connection: Connection) -> None:
        asked = decode_header(CheckTransactionStateHeader, frame.ext)
        message = decode_record(frame.body, broker_name=asked.broker_name or "")
        producer = instance.producers.get(message.properties.get(names.PGROUP, ""))
        if isinstance(producer, TransactionProducer):
            producer.check_soon(asked, message, connection)
        else:
            logger.warning("no producer here to check a transaction", extra={"broker": connection.peer})

    return check
