"""Hooks: around every send and every call of a handler, in the task or thread where it happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import pytest

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.hooks import HandlerCall, SendCall, default_hooks
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.errors import IllegalArgument, MQError
from skyrocketmq.model import Message, MessageView
from tests.client.cluster import Cluster, until

current: ContextVar[str] = ContextVar("current", default="")


class Recorder:
    """Writes down what passes, and puts its name on it."""

    def __init__(self, name: str = "hook") -> None:
        self.name = name
        self.steps: list[str] = []
        self.sends: list[SendCall] = []
        self.calls: list[HandlerCall] = []

    @contextmanager
    def sending(self, call: SendCall) -> Iterator[None]:
        self.sends.append(call)
        call.messages[:] = [message.with_properties({self.name: "was here"}) for message in call.messages]
        try:
            yield
        except Exception as error:
            self.steps.append(f"{self.name} {type(error).__name__}")
            raise
        self.steps.append(f"{self.name} sent")

    @contextmanager
    def handling(self, call: HandlerCall) -> Iterator[None]:
        self.calls.append(call)
        token = current.set(self.name)
        try:
            yield
        except ValueError:
            self.steps.append(f"{self.name} failed")
            raise
        finally:
            current.reset(token)


async def test_a_hook_sees_every_way_of_sending_and_may_add_properties(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    hook = Recorder()
    seen: list[MessageView] = []
    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first")
    consumer.subscribe("T", "*", seen.append)
    async with Producer("senders", namesrv=cluster.namesrv, hooks=[hook]) as producer, consumer:
        await producer.send(Message("T", b"1", tags="A", keys=["k"], properties={"mine": "x"}))
        await producer.send_batch([Message("T", b"2"), Message("T", b"3")])
        await producer.send_oneway(Message("T", b"4"))
        await producer.submit(Message("T", b"5"))
        await producer.flush()
        await until(lambda: len(seen) == 5)
    assert {message.properties["hook"] for message in seen} == {"was here"}
    first = next(message for message in seen if message.body == b"1")
    assert (first.tags, first.keys, first.properties["mine"]) == ("A", ("k",), "x")
    assert [(call.group, call.is_batch, call.is_oneway, call.result is not None) for call in hook.sends] == [
        ("senders", False, False, True),
        ("senders", True, False, True),
        ("senders", False, True, False),
        ("senders", False, False, True),
    ]


async def test_the_first_hook_is_the_outermost_and_sees_errors(cluster: Cluster) -> None:
    outer, inner = Recorder("outer"), Recorder("inner")
    inner.steps = outer.steps
    async with Producer("senders", namesrv=cluster.namesrv, hooks=[outer, inner], message_bytes_max=10) as producer:
        with pytest.raises(IllegalArgument):
            await producer.send(Message("T", b"x" * 11))
        with pytest.raises(MQError):
            await producer.send_batch([])
    assert outer.steps == ["inner IllegalArgument", "outer IllegalArgument"] * 2
    assert list(outer.sends[0].messages[0].properties) == ["outer", "inner"]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("orderly", [True, False])
async def test_what_a_hook_puts_into_the_context_is_seen_by_the_handler(
    cluster: Cluster, is_async: bool, orderly: bool
) -> None:
    cluster.create_topic("T", queues=1)
    hook = Recorder()
    seen: list[tuple[str, bool]] = []

    def note(message: MessageView) -> ConsumeResult:
        seen.append((current.get(), threading.current_thread() is threading.main_thread()))
        return ConsumeResult.SUCCESS

    async def note_async(message: MessageView) -> ConsumeResult:
        return note(message)

    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", orderly=orderly, hooks=[hook])
    consumer.subscribe("T", "*", note_async if is_async else note)
    async with Producer("senders", namesrv=cluster.namesrv) as producer, consumer:
        await producer.send(Message("T", b"x"))
        await until(lambda: hook.calls and hook.calls[0].result is ConsumeResult.SUCCESS)
    assert seen == [("hook", is_async)]
    assert (hook.calls[0].group, hook.calls[0].is_batch) == ("readers", False)


async def test_lists_and_failures_of_handlers_pass_the_hook(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    hook = Recorder()

    def fail(messages: list[MessageView]) -> None:
        raise ValueError("as the test wants it")

    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", hooks=[hook])
    consumer.subscribe("T", "*", fail, batch=8)
    async with Producer("senders", namesrv=cluster.namesrv) as producer, consumer:
        await producer.send_batch([Message("T", b"1"), Message("T", b"2")])
        await until(lambda: hook.steps)
    assert hook.steps[0] == "hook failed"
    assert [message.body for message in hook.calls[0].messages] == [b"1", b"2"]
    assert hook.calls[0].is_batch


async def test_default_hooks_are_those_of_every_client_made_later(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    hook = Recorder()
    default_hooks.append(hook)
    try:
        hooked = Producer("hooked", namesrv=cluster.namesrv)
    finally:
        default_hooks.remove(hook)
    async with hooked, Producer("plain", namesrv=cluster.namesrv) as plain:
        await hooked.send(Message("T", b"1"))
        await plain.send(Message("T", b"2"))
    assert [call.group for call in hook.sends] == ["hooked"]


class Swallowing:
    """A hook that keeps errors to itself, which it must not."""

    @contextmanager
    def sending(self, call: SendCall) -> Iterator[None]:
        with suppress(Exception):
            yield

    @contextmanager
    def handling(self, call: HandlerCall) -> Iterator[None]:
        with suppress(Exception):
            yield


async def test_a_hook_that_swallows_an_error_does_not_make_a_message_look_sent_or_consumed(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    seen: list[int] = []

    def fail_first(message: MessageView) -> None:
        seen.append(message.reconsume_times)
        if len(seen) == 1:
            raise ValueError("as the test wants it")

    hook = Swallowing()
    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", orderly=True, hooks=[hook])
    consumer.subscribe("T", "*", fail_first)
    async with Producer("senders", namesrv=cluster.namesrv, hooks=[hook], message_bytes_max=10) as producer, consumer:
        with pytest.raises(IllegalArgument):
            await producer.send(Message("T", b"x" * 11))
        assert (await producer.send(Message("T", b"x"))).is_ok
        await until(lambda: len(seen) == 2)


async def test_a_hook_is_around_what_a_plain_function_leaves_to_be_awaited(cluster: Cluster) -> None:
    cluster.create_topic("T", queues=1)
    hook = Recorder()
    seen: list[str] = []

    async def later(body: bytes) -> None:
        await asyncio.sleep(0)
        seen.append(current.get())
        if body == b"bad":
            raise ValueError("as the test wants it")

    def handle(message: MessageView) -> Awaitable[None]:
        return later(message.body)

    consumer = PushConsumer("readers", namesrv=cluster.namesrv, consume_from="first", hooks=[hook])
    consumer.subscribe("T", "*", handle)
    async with Producer("senders", namesrv=cluster.namesrv) as producer, consumer:
        await producer.send(Message("T", b"good"))
        await until(lambda: hook.calls and hook.calls[0].result is ConsumeResult.SUCCESS)
        await producer.send(Message("T", b"bad"))
        await until(lambda: hook.steps)
    assert seen == ["hook", "hook"]
    assert hook.steps == ["hook failed"]
