"""Hooks: what wants to be there when a message is sent, and when one is handled. Tracing is made of them.

    class Timing:
        @contextmanager
        def sending(self, call: SendCall) -> Iterator[None]:
            yield                                   # the messages travel here; they may be replaced before
            print(call.result)

        def handling(self, call: HandlerCall) -> AbstractContextManager[object]:
            return nullcontext()

    producer = Producer("orders", hooks=[Timing()])

Rule 1: a hook is a context manager around the call, entered and left in the task or thread that makes it, so that what
        it puts into context variables is seen by the handler. The first hook is the outermost. Where a plain function
        returns an awaitable, it is left on the loop after that, in the same context.
Rule 2: an error of the call passes through it and cannot be swallowed, for a message that was not sent must not look
        sent, nor a failed one consumed; what a hook raises itself is an error of the call.
Rule 3: without hooks there is nothing between the user and the message: who has none does not pass here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any, Protocol, TypeVar

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.handlers import MessageHandler, result_of
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.model import Message, MessageView

__all__ = ["ClientHook", "HandlerCall", "SendCall", "default_hooks", "hooked_handler", "hooked_send"]

Sent = TypeVar("Sent", bound=SendResult | None)

default_hooks: list[ClientHook] = []  # those of every client that is made from now on


@dataclass(slots=True)
class SendCall:
    """A call of `send`, `send_batch` or `send_oneway`. A hook may put other messages in place before they travel."""

    group: str
    messages: list[Message]
    is_batch: bool = False
    is_oneway: bool = False
    result: SendResult | None = None  # there once it is sent; never for one without an answer


@dataclass(slots=True)
class HandlerCall:
    """A call of a handler."""

    group: str
    messages: Sequence[MessageView]
    is_batch: bool = False
    result: ConsumeResult | None = None  # there once the handler has returned


class ClientHook(Protocol):
    """Hears of every message that a client sends or has handled."""

    def sending(self, call: SendCall) -> AbstractContextManager[object]: ...

    def handling(self, call: HandlerCall) -> AbstractContextManager[object]: ...


@contextmanager
def _inside(contexts: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    """Inside all of them. What is raised there is raised, whatever they make of it."""
    failure: BaseException | None = None
    with ExitStack() as entered:
        try:
            for context in contexts:
                entered.enter_context(context)
            yield
        except BaseException as error:
            failure = error
            raise
    if failure is not None:
        raise failure


async def hooked_send(
    hooks: Iterable[ClientHook], call: SendCall, send: Callable[[list[Message]], Coroutine[Any, Any, Sent]]
) -> Sent:
    """Send what the hooks make of the messages."""
    with _inside(hook.sending(call) for hook in hooks):
        sent = await send(call.messages)
        call.result = sent
    return sent


def hooked_handler(handler: MessageHandler, hooks: Sequence[ClientHook], *, group: str) -> MessageHandler:
    """The handler with hooks around each of its calls; itself if there are none."""
    if not hooks:
        return handler
    function, is_batch = handler.function, handler.batch_count is not None

    def call_of(argument: Any) -> HandlerCall:
        return HandlerCall(group, argument if is_batch else [argument], is_batch)

    def around(call: HandlerCall) -> AbstractContextManager[None]:
        return _inside(hook.handling(call) for hook in hooks)

    async def called_on_loop(argument: Any) -> object:
        call = call_of(argument)
        with around(call):
            outcome = function(argument)
            outcome = await outcome if isawaitable(outcome) else outcome
            call.result = result_of(outcome)
        return outcome

    def called_in_thread(argument: Any) -> object | Awaitable[object]:
        context = copy_context()
        return context.run(begun_in_thread, argument, context)

    def begun_in_thread(argument: Any, context: Context) -> object | Awaitable[object]:
        call = call_of(argument)
        with ExitStack() as entered:
            entered.enter_context(around(call))
            outcome = function(argument)
            if isawaitable(outcome):
                return _in_context(context, _ended_on_loop(outcome, call, entered.pop_all()))
            call.result = result_of(outcome)
        return outcome

    return replace(handler, function=called_on_loop if handler.is_async else called_in_thread)


async def _ended_on_loop(outcome: Awaitable[object], call: HandlerCall, entered: ExitStack) -> object:
    """The rest of a call that was begun in a thread, with its hooks around it."""
    with entered:
        result = await outcome
        call.result = result_of(result)
    return result


async def _in_context(context: Context, work: Coroutine[Any, Any, object]) -> object:
    """Hooks may set context variables back only in the context in which they have set them."""
    return await asyncio.get_running_loop().create_task(work, context=context)
