"""Sending messages.

    async with Producer("orders", namesrv="localhost:9876") as producer:
        result = await producer.send(Message("TopicTest", b"hello", tags="TagA", keys=["order-1"]))

`send` returns once the broker has the message, and raises if none has it; any number of sends may be under way at once
(`asyncio.gather`, a `TaskGroup`, 1,000 tasks). What is tried before an error is raised: see `sending`. `submit` begins
a send and returns, `flush` waits for all that were begun: see `send_window`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from skyrocketmq.client.hooks import SendCall, hooked_send
from skyrocketmq.client.outgoing import Outgoing, pack_batch, pack_message
from skyrocketmq.client.producer_life import ProducerLife
from skyrocketmq.client.replies import reply_message
from skyrocketmq.client.requester import send_reply
from skyrocketmq.client.selectors import QueueSelector
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message, MessageQueue, MessageView
from skyrocketmq.model import properties as names

__all__ = ["Producer"]


class Producer(ProducerLife):
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
        if len(outgoing.body) >= self._compressor.from_bytes:
            await self._compressor.compress(outgoing)
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
        await self._compressor.compress(outgoing)
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
        """Reply to a request that a consumer got; its sender has the reply when this returns.

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
