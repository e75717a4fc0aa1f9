"""The decorator that has a handler called once for each message.

| the message | the handler | its result |
|---|---|---|
| is new | is called; when it has succeeded, the id is remembered | its own |
| is new, and the handler fails | was called; the id is forgotten again | its own: it comes again |
| has been handled | is not called | consumed |
| is being handled elsewhere, `busy="retry"` | is not called | again later |
| is being handled elsewhere, `busy="wait"` | waits for the other, then one of the rows above | |

With `transaction=True` a `SqliteIds` hands its connection to the handler as second argument: what it changes there is
kept together with the id, or not at all, also when the process dies in between.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, Final, Literal, TypeVar, overload

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.handlers import result_of
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.idempotence.ids import Claim, IdStore, message_key
from skyrocketmq.idempotence.sqlite_ids import SqliteIds
from skyrocketmq.model import MessageView
from skyrocketmq.ports import Clock, SystemClock

__all__ = ["once"]

T = TypeVar("T")

LOOK_AGAIN_S: Final = 0.05
WAIT_S: Final = 30.0

Handler = Callable[[MessageView], Any]
HandlerWithConnection = Callable[[MessageView, sqlite3.Connection], Any]
IS_ASYNC: Final = "a transaction blocks while others write: make the handler a plain function, and await nothing in it"
FAILED: Final = (Verdict.RETRY, Verdict.ROLLBACK)


@overload
def once(
    store: IdStore,
    *,
    key: Callable[[MessageView], str] = ...,
    scope: str | None = ...,
    busy: Literal["retry", "wait"] = ...,
    wait_s: float = ...,
    transaction: Literal[False] = ...,
    clock: Clock | None = ...,
) -> Callable[[Handler], Handler]: ...


@overload
def once(
    store: SqliteIds,
    *,
    key: Callable[[MessageView], str] = ...,
    scope: str | None = ...,
    transaction: Literal[True],
) -> Callable[[HandlerWithConnection], Handler]: ...


def once(
    store: IdStore,
    *,
    key: Callable[[MessageView], str] = message_key,
    scope: str | None = None,
    busy: Literal["retry", "wait"] = "retry",
    wait_s: float = WAIT_S,
    transaction: bool = False,
    clock: Clock | None = None,
) -> Callable[[Callable[..., Any]], Handler]:
    """Have a handler called once for each message, as far as `store` remembers.

    `key` says which messages are the same; `scope` keeps handlers apart that share a store, and is the function's full
    name unless it is given (give it, if the function may be renamed). `wait_s` is how long `busy="wait"` waits before
    it is "retry" after all. For handlers of one message; lists are refused.
    """

    def decorate(function: Callable[..., Any]) -> Handler:
        name = f"{function.__module__}.{function.__qualname__}" if scope is None else scope
        guard = _Guard(store, lambda message: f"{name}:{key(_checked(message))}", busy == "wait", wait_s, clock)
        if transaction:
            return _in_transaction(function, store, guard)
        return guard.around_async(function) if iscoroutinefunction(function) else guard.around(function)

    return decorate


class _Guard:
    """What stands before one handler."""

    def __init__(
        self, store: IdStore, key_of: Callable[[MessageView], str], waits: bool, wait_s: float, clock: Clock | None
    ) -> None:
        self._store = store
        self.key_of = key_of
        self._look_count = max(1, round(wait_s / LOOK_AGAIN_S)) if waits else 1
        self._clock = clock or SystemClock()

    def around(self, function: Handler) -> Handler:
        store = self._store

        @wraps(function)
        def called(message: MessageView) -> object:
            key = self.key_of(message)
            claim = store.claim(key)
            for _ in range(1, self._look_count):
                if claim is not Claim.BUSY:
                    break
                threading.Event().wait(LOOK_AGAIN_S)
                claim = store.claim(key)
            if claim is not Claim.NEW:
                return _passed_over(claim)
            try:
                outcome = function(message)
            except BaseException:
                store.release(key)
                raise
            if isawaitable(outcome):  # a plain function around an async one: nothing has been done yet
                return self._settled(outcome, key)
            (store.release if _has_failed(outcome) else store.finish)(key)
            return outcome

        return called

    def around_async(self, function: Callable[[MessageView], Awaitable[object]]) -> Handler:
        store = self._store

        @wraps(function)
        async def called(message: MessageView) -> object:
            key = self.key_of(message)
            claim = await self._ask(store.claim, key)
            for _ in range(1, self._look_count):
                if claim is not Claim.BUSY:
                    break
                await self._clock.sleep(LOOK_AGAIN_S)
                claim = await self._ask(store.claim, key)
            if claim is not Claim.NEW:
                return _passed_over(claim)
            return await self._settled(function(message), key)

        return called

    async def _settled(self, work: Awaitable[object], key: str) -> object:
        """The outcome of work on a message that is claimed; the id is kept or given back by it."""
        store = self._store
        try:
            outcome = await work
        except BaseException:
            await self._ask(store.release, key)
            raise
        await self._ask(store.release if _has_failed(outcome) else store.finish, key)
        return outcome

    async def _ask(self, function: Callable[[str], T], key: str) -> T:
        return await asyncio.to_thread(function, key) if self._store.is_blocking else function(key)


def _in_transaction(function: HandlerWithConnection, store: IdStore, guard: _Guard) -> Handler:
    if not isinstance(store, SqliteIds):
        raise IllegalArgument(f"only SqliteIds has transactions, {type(store).__name__} has none")
    if iscoroutinefunction(function):
        raise IllegalArgument(IS_ASYNC)

    @wraps(function)
    def called(message: MessageView) -> object:
        try:
            with store.transaction(guard.key_of(message)) as connection:
                if connection is None:
                    return ConsumeResult.SUCCESS
                outcome = function(message, connection)
                if isawaitable(outcome):
                    if iscoroutine(outcome):
                        outcome.close()
                    raise IllegalArgument(IS_ASYNC)
                if _has_failed(outcome):
                    raise _TakeBack(outcome)
                return outcome
        except _TakeBack as taken:
            return taken.outcome

    return called


class _TakeBack(Exception):
    """The handler has returned that it failed: the transaction is rolled back, and the result is the handler's."""

    def __init__(self, outcome: object) -> None:
        super().__init__()
        self.outcome = outcome


def _has_failed(outcome: object) -> bool:
    return result_of(outcome).verdict in FAILED


def _passed_over(claim: Claim) -> ConsumeResult:
    return ConsumeResult.SUCCESS if claim is Claim.DONE else ConsumeResult.RETRY


def _checked(message: object) -> MessageView:
    if not isinstance(message, MessageView):
        raise IllegalArgument("once() is for handlers of one message at a time: subscribe without batch=")
    return message
