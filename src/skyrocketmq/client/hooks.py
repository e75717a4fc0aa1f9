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
        it puts into context variables is seen by the handler. The first hook is the outermost.
Rule 2: an error of the call passes through it; what a hook raises itself is an error of the call.
Rule 3: without hooks there is nothing between the user and the message: who has none does not pass here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
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
    """Is told of every message that a client sends or has handled."""

    def sending(self, call: SendCall) -> AbstractContextManager[object]: ...

    def handling(self, call: HandlerCall) -> AbstractContextManager[object]: ...


async def hooked_send(
    hooks: Iterable[ClientHook], call: SendCall, send: Callable[[list[Message]], Coroutine[Any, Any, Sent]]
) -> Sent:
    """Send what the hooks make of the messages."""
    with ExitStack() as entered:
        for hook in hooks:
            entered.enter_context(hook.sending(call))
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

    async def called_on_loop(argument: Any) -> object:
        call = call_of(argument)
        with ExitStack() as entered:
            for hook in hooks:
                entered.enter_context(hook.handling(call))
            outcome = function(argument)
            outcome = await outcome if isawaitable(outcome) else outcome
            call.result = result_of(outcome)
            return outcome

    def called_in_thread(argument: Any) -> object | Awaitable[object]:
        call = call_of(argument)
        with ExitStack() as entered:
            for hook in hooks:
                entered.enter_context(hook.handling(call))
            outcome = function(argument)
            if not isawaitable(outcome):
                call.result = result_of(outcome)
            return outcome

    return replace(handler, function=called_on_loop if handler.is_async else called_in_thread)
