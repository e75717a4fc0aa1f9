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
from inspect import isawaitable, iscoroutine, iscoroutinefunction, signature
from typing import Any, Final, Literal, TypeVar, overload
from weakref import WeakKeyDictionary

from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.handlers import result_of
from skyrocketmq.client.uninterrupted import uninterrupted
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.idempotence.ids import Claim, IdStore, message_key
from skyrocketmq.idempotence.sqlite_ids import SqliteIds
from skyrocketmq.model import MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.ports import Chance, Clock, SystemChance, SystemClock

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
    chance: Chance | None = None,
) -> Callable[[Callable[..., Any]], Handler]:
    """Have a handler called once for each message, as far as `store` remembers.

    `key` says which messages of a topic are the same; `scope` keeps handlers apart that share a store, and is the
    function's full name unless it is given. It has to be given where that name may be another's too: for functions in
    functions or in a script that is run, objects that are called, and a second handler of a name. `wait_s` is how
    long `busy="wait"` waits before it is "retry" after all. For handlers of one message; lists are refused.
    """

    def decorate(function: Callable[..., Any]) -> Handler:
        _check_arguments(function, 2 if transaction else 1)
        name = _default_scope(function, store) if scope is None else scope

        def key_of(message: MessageView) -> str:
            own = key(_checked(message))
            if key is message_key:
                return f"{name}:{own}"
            return f"{name}:{message.properties.get(names.RETRY_TOPIC) or message.topic}:{own}"

        guard = _Guard(store, key_of, busy == "wait", wait_s, clock, chance)
        if transaction:
            return _in_transaction(function, store, guard)
        return guard.around_async(function) if _is_async(function) else guard.around(function)

    return decorate


class _Guard:
    """What stands before one handler."""

    def __init__(
        self,
        store: IdStore,
        key_of: Callable[[MessageView], str],
        waits: bool,
        wait_s: float,
        clock: Clock | None,
        chance: Chance | None,
    ) -> None:
        self._store = store
        self.key_of = key_of
        self._look_count = max(1, round(wait_s / LOOK_AGAIN_S)) if waits else 1
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()

    def around(self, function: Handler) -> Handler:
        store = self._store

        @wraps(function)
        def called(message: MessageView) -> object:
            key, holder = self.key_of(message), self._chance.uuid().hex
            claim = store.claim(key, holder)
            for _ in range(1, self._look_count):
                if claim is not Claim.BUSY:
                    break
                threading.Event().wait(LOOK_AGAIN_S)
                claim = store.claim(key, holder)
            if claim is not Claim.NEW:
                return _passed_over(claim)
            try:
                outcome = function(message)
                if isawaitable(outcome):  # a plain function around an async one: nothing has been done yet
                    return self._settled(lambda: outcome, key, holder)
                has_failed = _has_failed(outcome)
            except BaseException:
                store.release(key, holder)
                raise
            if has_failed:
                store.release(key, holder)
            else:
                store.finish(key)
            return outcome

        return called

    def around_async(self, function: Callable[[MessageView], Awaitable[object]]) -> Handler:
        @wraps(function)
        async def called(message: MessageView) -> object:
            key, holder = self.key_of(message), self._chance.uuid().hex
            claim = await self._claim(key, holder)
            for _ in range(1, self._look_count):
                if claim is not Claim.BUSY:
                    break
                await self._clock.sleep(LOOK_AGAIN_S)
                claim = await self._claim(key, holder)
            if claim is not Claim.NEW:
                return _passed_over(claim)
            return await self._settled(lambda: function(message), key, holder)

        return called

    async def _settled(self, work: Callable[[], Awaitable[object]], key: str, holder: str) -> object:
        """The outcome of work on a message that is claimed; the id is kept or given back by it."""
        try:
            outcome = await work()
            has_failed = _has_failed(outcome)
        except BaseException:
            await self._ask(self._store.release, key, holder)
            raise
        if has_failed:
            await self._ask(self._store.release, key, holder)
        else:
            await self._ask(self._store.finish, key)
        return outcome

    async def _claim(self, key: str, holder: str) -> Claim:
        try:
            return await self._ask(self._store.claim, key, holder)
        except asyncio.CancelledError:
            await self._ask(self._store.release, key, holder)  # it may have become ours meanwhile
            raise

    async def _ask(self, function: Callable[..., T], *values: str) -> T:
        """Call the store: to the end, for what its thread has begun goes on also when nobody waits for it."""
        if not self._store.is_blocking:
            return function(*values)
        return await uninterrupted(asyncio.create_task(asyncio.to_thread(function, *values)))


def _in_transaction(function: HandlerWithConnection, store: IdStore, guard: _Guard) -> Handler:
    if not isinstance(store, SqliteIds):
        raise IllegalArgument(f"only SqliteIds has transactions, {type(store).__name__} has none")
    if _is_async(function):
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


def _default_scope(function: Callable[..., Any], store: IdStore) -> str:
    """The full name of a function, if it is the only one of this name. Handlers that shared a scope by chance would
    pass over each other's messages."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module is None or name is None or module == "__main__" or "<" in name:
        shown = repr(function) if name is None else f"{module}.{name}"
        raise IllegalArgument(f"{shown} is a name that other handlers may have too: give scope=, a name that stays")
    scope = f"{module}.{name}"
    scopes = _scopes_taken.setdefault(store, set())
    if scope in scopes:
        raise IllegalArgument(f"{scope} is a handler of this store already: give scope=, to each one of its own")
    scopes.add(scope)
    return scope


_scopes_taken: WeakKeyDictionary[IdStore, set[str]] = WeakKeyDictionary()


def _check_arguments(function: Callable[..., Any], count: int) -> None:
    try:
        made = signature(function)
    except ValueError:  # written in C, and it does not say
        return
    try:
        made.bind(*range(count))
    except TypeError as error:
        taken = "a message" if count == 1 else "a message and a connection"
        raise IllegalArgument(
            f"the handler {function!r} is called with {taken}, and takes {made}; a method is decorated when it is "
            "bound: once(store)(self.method)"
        ) from error


def _is_async(function: Callable[..., Any]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _has_failed(outcome: object) -> bool:
    return result_of(outcome).verdict in FAILED


def _passed_over(claim: Claim) -> ConsumeResult:
    return ConsumeResult.SUCCESS if claim is Claim.DONE else ConsumeResult.RETRY


def _checked(message: object) -> MessageView:
    if not isinstance(message, MessageView):
        raise IllegalArgument("once() is for handlers of one message at a time: subscribe without batch=")
    return message
