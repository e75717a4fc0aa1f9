"""Sending messages.

    async with Producer("orders", namesrv="localhost:9876") as producer:
        result = await producer.send(Message("TopicTest", b"hello", tags="TagA", keys=["order-1"]))

`send` returns once the broker has the message, and raises if none has it; any number of sends may be under way at once
(`asyncio.gather`, a `TaskGroup`, 1,000 tasks). What is tried before an error is raised: see `sending`. `submit` begins
a send and returns, `flush` waits for all that were begun: see `send_window`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, Final, Unpack

from skyrocketmq.client.auto_batch import AutoBatch
from skyrocketmq.client.hooks import SendCall, default_hooks, hooked_send
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.life import ClientLife
from skyrocketmq.client.namespaces import Namespace
from skyrocketmq.client.outgoing import (
    MESSAGE_BYTES_MAX,
    Compression,
    Outgoing,
    compressed,
    pack_batch,
    pack_message,
)
from skyrocketmq.client.replies import reply_message
from skyrocketmq.client.requester import Requester, send_reply
from skyrocketmq.client.selectors import QueueSelector
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.send_window import IN_FLIGHT_MAX, SendWindow
from skyrocketmq.client.sending import Sender, SendOptions
from skyrocketmq.client.settings import SharedOptions, settings_from
from skyrocketmq.client.sharing import join_producer, leave_producer
from skyrocketmq.client.trace_sending import TracedSender
from skyrocketmq.client.tracing import Tracer, trace_topic_of
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import CompressionType, Message, MessageQueue, MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.model.names import AUTO_CREATE_TOPIC, check_client_group
from skyrocketmq.wire.compression import COMPRESS_FROM_BYTES, COMPRESS_LEVEL

__all__ = ["Producer"]

COMPRESS_IN_THREAD_FROM_BYTES: Final = 64 * 1024  # about 2 ms of work, which the loop should not do


class Producer(ClientLife):
    """Sends messages for a group. Use it as `async with`, or call `start` and `close`.

    | argument | default | meaning |
    |---|---|---|
    | namesrv | `NAMESRV_ADDR`, else an address server | `host:port`, several with `;` between or as a list |
    | send_timeout_s | 3 | one limit for all attempts of a send |
    | retry_count_max | 2 | attempts on other queues after the first |
    | retry_unsafe | False | try another broker if a message was stored but not flushed or replicated in time |
    | avoid_slow_brokers | False | pass over brokers that answered slowly |
    | auto_batch | False | messages whose sends begin in one turn of the loop go into one queue, by one request |
    | in_flight_max | 1000 | sends that `submit` has under way at a time; the next one waits |
    | message_bytes_max | 4 MiB | a larger body is refused; brokers have the same limit |
    | compress_from_bytes | 4096 | bodies from this size on are compressed |
    | compression, compress_level | zlib, 5 | how: "zlib" (0 to 9), "lz4" (without a level) or "zstd" (1 to 22) |
    | template, template_queue_nums | TBW102, 4 | what topics that are created by the first message look like |
    | trace | False | True, or the name of a topic: tell there what became of each message |

    and those of `SharedOptions`. All may be used from one event loop only.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        send_timeout_s: float = 3.0,
        retry_count_max: int = 2,
        retry_unsafe: bool = False,
        avoid_slow_brokers: bool = False,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        compress_from_bytes: int = COMPRESS_FROM_BYTES,
        compression: CompressionType | str = CompressionType.ZLIB,
        compress_level: int = COMPRESS_LEVEL,
        template: str = AUTO_CREATE_TOPIC,
        template_queue_nums: int = 4,
        in_flight_max: int = IN_FLIGHT_MAX,
        trace: bool | str = False,
        auto_batch: bool = False,
        **shared: Unpack[SharedOptions],
    ) -> None:
        check_client_group(group)
        if retry_count_max < 0:
            raise IllegalArgument(f"retry_count_max = {retry_count_max} is below 0")
        super().__init__(group, kind="producer")
        self._settings = settings_from(namesrv, shared, environ=os.environ)
        self._clock = shared.get("clock")
        self._link = shared.get("link")
        self._hooks = (*default_hooks, *shared.get("hooks", ()))
        self._on_connection_change = shared.get("on_connection_change")
        self._window = SendWindow(in_flight_max)
        self._timeout_s = send_timeout_s
        self._bytes_max = message_bytes_max
        self._compression = Compression.checked(compress_from_bytes, compression, compress_level)
        self._options = SendOptions(
            retry_count_max=retry_count_max,
            retry_unsafe=retry_unsafe,
            avoid_slow_brokers=avoid_slow_brokers,
            template=template,
            template_queue_nums=template_queue_nums,
        )
        self._trace_topic = trace_topic_of(trace)
        self._names = Namespace(self._settings.namespace)
        self._instance: ClientInstance | None = None
        self._sender: Sender | None = None
        self._requester: Requester | None = None
        self._tracer: Tracer | None = None
        self._is_batching = auto_batch
        self._auto_batch: AutoBatch | None = None
        self._compressors: ThreadPoolExecutor | None = None

    # ------------------------------------------------------------------------------------------------------------ life

    async def _open(self, opened: AsyncExitStack) -> None:
        """Brokers are connected to with the first message."""
        instance = await join_producer(self, self._settings, clock=self._clock, link=self._link)
        opened.push_async_callback(leave_producer, self, instance)
        opened.callback(instance.watch_connections(self._on_connection_change))
        self._instance = instance
        if self._trace_topic is None:
            self._sender = Sender(instance, self.wire_group, self._options)
        else:
            self._tracer = Tracer(instance, self.wire_group, kind="PRODUCE", topic=self._trace_topic)
            opened.push_async_callback(self._tracer.close)
            self._sender = TracedSender(self._tracer, self.wire_group, self._options)
        if self._is_batching:
            self._auto_batch = AutoBatch(
                instance,
                self._sender,
                timeout_s=self._timeout_s,
                bytes_max=self._bytes_max,
                compression=self._compression,
                namespace=self._names.name,
            )
        self._requester = Requester(instance, self._sender)
        opened.callback(self._requester.close)
        self._window.open()
        opened.push_async_callback(self._window.finish)
        instance.heartbeats.send_soon()

    def _closed(self) -> None:
        """Sends that are under way have failed by now."""
        self._instance = self._sender = self._requester = self._tracer = self._auto_batch = None
        if self._compressors is not None:
            self._compressors.shutdown(wait=False, cancel_futures=True)
            self._compressors = None

    @property
    def client_id(self) -> str:
        """Who this producer is to the brokers; known once it is started."""
        return self._started()[0].client_id

    @property
    def tracer(self) -> Tracer | None:
        """Who sends its traces, while it is open and if it makes any; says how many were dropped."""
        return self._tracer

    # --------------------------------------------------------------------------------------------------------- sending

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: object = None,
        timeout_s: float | None = None,
    ) -> Coroutine[Any, Any, SendResult]:
        """Send a message; it is stored when this returns.

        `queue` names the queue, `selector` (with `arg`) picks one: `select_by_hash` keeps messages with equal arguments
        in order. Without either, queues take turns, and other brokers are tried if one fails.
        """
        # A plain function that gives back a coroutine to await: a coroutine less for who has no hooks.
        if not self._hooks:
            return self._send(message, queue, selector, arg, timeout_s)
        call = SendCall(self.group, [message])
        return hooked_send(self._hooks, call, lambda made: self._send(made[0], queue, selector, arg, timeout_s))

    async def _send(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        arg: object,
        timeout_s: float | None,
    ) -> SendResult:
        batch = self._auto_batch
        if batch is not None and queue is None and selector is None and timeout_s is None and batch.takes(message):
            return await batch.send(message)
        instance, sender = self._started()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        outgoing = pack_message(
            message,
            ids=instance.ids,
            now_ms=instance.clock.now_ms(),
            bytes_max=self._bytes_max,
            namespace=self._names.name,
        )
        if len(outgoing.body) >= self._compression.from_bytes:
            await self._compress(outgoing)
        if queue is not None or selector is not None:
            queue = await self._pick(message, outgoing, queue, selector, arg, limit_s)
        return await sender.send(outgoing, timeout_s=limit_s, topic=message.topic, queue=queue)

    async def submit(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: object = None,
        timeout_s: float | None = None,
    ) -> asyncio.Task[SendResult]:
        """Begin to send a message; returns as soon as fewer than `in_flight_max` are under way. The task has the
        result, and `flush` tells of the errors that nobody has looked at."""
        self._started()
        return await self._window.begin(
            lambda: self.send(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
        )

    async def flush(self) -> None:
        """Wait until all that `submit` has begun is stored, or has failed: then it raises an `ExceptionGroup`."""
        await self._window.flush()

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: object = None,
        timeout_s: float | None = None,
    ) -> None:
        """Send without an answer: fast, and nobody knows whether it was stored. For figures and logs."""
        if not self._hooks:
            return await self._send_oneway(message, queue, selector, arg, timeout_s)
        call = SendCall(self.group, [message], is_oneway=True)
        await hooked_send(self._hooks, call, lambda made: self._send_oneway(made[0], queue, selector, arg, timeout_s))

    async def _send_oneway(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        arg: object,
        timeout_s: float | None,
    ) -> None:
        instance, sender = self._started()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        outgoing = pack_message(
            message,
            ids=instance.ids,
            now_ms=instance.clock.now_ms(),
            bytes_max=self._bytes_max,
            namespace=self._names.name,
        )
        await self._compress(outgoing)
        if queue is not None or selector is not None:
            queue = await self._pick(message, outgoing, queue, selector, arg, limit_s)
        await sender.send_oneway(outgoing, timeout_s=limit_s, queue=queue)

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send several messages of one topic in one request, into one queue; all are stored, or none.

        They must fit in `message_bytes_max` together, and have no delay.
        """
        listed = list(messages)
        if not self._hooks:
            return await self._send_batch(listed, queue, timeout_s)
        call = SendCall(self.group, listed, is_batch=True)
        return await hooked_send(self._hooks, call, lambda made: self._send_batch(made, queue, timeout_s))

    async def _send_batch(
        self, listed: list[Message], queue: MessageQueue | None, timeout_s: float | None
    ) -> SendResult:
        instance, sender = self._started()
        outgoing = pack_batch(
            listed,
            ids=instance.ids,
            now_ms=instance.clock.now_ms(),
            bytes_max=self._bytes_max,
            namespace=self._names.name,
        )
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        if queue is not None:
            queue = await self._pick(listed[0], outgoing, queue, None, None, limit_s)
        return await sender.send(outgoing, timeout_s=limit_s, topic=listed[0].topic, queue=queue)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of a topic can be sent to now."""
        _, sender = self._started()
        return self._names.unwrap_queues(await sender.queues(self._names.wrap(topic), self._timeout_s))

    # -------------------------------------------------------------------------------------------- requests and replies

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: object = None,
        timeout_s: float | None = None,
    ) -> MessageView:
        """Send a message and wait for the reply that some consumer of its topic sends; any number may wait at once.

        `timeout_s` (`send_timeout_s` if not given) is for all of it. `RequestTimeout` says how far the request came.
        """
        self._started()
        assert self._requester is not None, "started with the rest"
        limit_s = self._timeout_s if timeout_s is None else timeout_s

        def send(request: Message) -> Coroutine[Any, Any, SendResult]:
            return self.send(request, queue=queue, selector=selector, arg=arg, timeout_s=limit_s)

        return await self._requester.ask(message, send, wire_topic=self._names.wrap(message.topic), timeout_s=limit_s)

    async def reply(
        self,
        request: MessageView,
        body: bytes | bytearray | memoryview,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Reply to a request that a consumer got; whoever asked has the reply when this returns.

        Raises `IllegalArgument` for a message that is no request, `SystemFailure` if no broker could pass it on: the
        asker is gone.
        """
        instance, sender = self._started()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        message = reply_message(request, body, tags=tags, keys=keys, properties=properties)
        message = message.with_system_properties({names.UNIQ_KEY: instance.ids.next_id(instance.clock.now_ms())})
        return await send_reply(
            lambda queue, left_s: self.send(message, queue=queue, timeout_s=left_s),
            await sender.queues(message.topic, limit_s),
            broker_name=request.broker_name,
            timeout_s=limit_s,
            clock=instance.clock,
        )

    # --------------------------------------------------------------------------------------------------------- helpers

    async def _pick(
        self,
        message: Message,
        outgoing: Outgoing,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        arg: object,
        timeout_s: float,
    ) -> MessageQueue:
        """The queue that the user names or selects, by its name on the wire."""
        _, sender = self._started()
        if queue is not None and selector is not None:
            raise IllegalArgument("both a queue and a selector are given: one of them is enough")
        # The list is asked for in any case: with it comes the broker's address.
        queues = await sender.queues(outgoing.topic, timeout_s)
        if selector is not None:
            queue = selector(self._names.unwrap_queues(queues), message, arg)
        if not isinstance(queue, MessageQueue):
            raise IllegalArgument(f"the selector returned {queue!r}, it must return one of the queues")
        if queue.topic != message.topic:
            raise IllegalArgument(f"the queue {queue} is not one of the message's topic {message.topic}")
        return MessageQueue(outgoing.topic, queue.broker_name, queue.queue_id)

    async def _compress(self, outgoing: Outgoing) -> None:
        if len(outgoing.body) < COMPRESS_IN_THREAD_FROM_BYTES:
            compressed(outgoing, self._compression)
            return
        if self._compressors is None:
            self._compressors = ThreadPoolExecutor(2, thread_name_prefix="compress")
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._compressors, compressed, outgoing, self._compression)

    def _started(self) -> tuple[ClientInstance, Sender]:
        if self._instance is None or self._sender is None:
            raise self._not_started()
        return self._instance, self._sender

    # -------------------------------------------------------------------------------------- for the client instance

    @property
    def wire_group(self) -> str:
        return self._names.wrap(self.group)

    def topics(self) -> Iterable[str]:
        if self._sender is None or self._requester is None:
            return ()
        traces = self._tracer.topics if self._tracer is not None else ()
        return {*self._sender.topics, *self._requester.topics, *traces}
