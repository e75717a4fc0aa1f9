"""`Producer` and `TransactionProducer` for code that blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from skyrocketmq.blocking.face import Face, same_arguments
from skyrocketmq.blocking.window import BlockingWindow
from skyrocketmq.client.producer import Producer as AsyncProducer
from skyrocketmq.client.selectors import QueueSelector
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.send_window import IN_FLIGHT_MAX
from skyrocketmq.client.transaction_producer import TransactionProducer as AsyncTransactionProducer
from skyrocketmq.client.transactions import Execute, TransactionResult
from skyrocketmq.model import Message, MessageQueue, MessageView

__all__ = ["Producer", "TransactionProducer"]


class Producer(Face[AsyncProducer]):
    """Sends messages for a group; see `client.producer.Producer` for the arguments."""

    _kind: type[AsyncProducer] = AsyncProducer

    @same_arguments(AsyncProducer)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: self._kind(*args, **options))
        self._window = BlockingWindow(options.get("in_flight_max", IN_FLIGHT_MAX))

    def _forked(self) -> None:
        self._window.begin_anew()  # what was under way at the fork is the parent's

    def start(self) -> None:
        """What `with` does at its beginning."""
        super().start()
        self._window.open()

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: object = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Send a message; it is stored when this returns."""
        return self._wait(
            lambda client: client.send(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
        )

    def submit(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: object = None,
        timeout_s: float | None = None,
    ) -> Future[SendResult]:
        """Begin to send a message; the future has the result. Waits while `in_flight_max` are under way."""
        thread = self._running()
        return self._window.begin(
            lambda: thread.submit(
                self._client.send(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
            )
        )

    def close(self) -> None:
        """What `with` does at its end: waits for what `submit` has begun, then leaves. Closing twice is harmless."""
        self._window.finish()
        super().close()

    def flush(self) -> None:
        """Wait until all that `submit` has begun is stored, or has failed: then it raises an `ExceptionGroup`."""
        self._window.flush()

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: object = None,
        timeout_s: float | None = None,
    ) -> None:
        """Send without an answer: nobody knows whether it was stored."""
        self._wait(
            lambda client: client.send_oneway(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
        )

    def send_batch(
        self, messages: Iterable[Message], *, queue: MessageQueue | None = None, timeout_s: float | None = None
    ) -> SendResult:
        """Send several messages of one topic in one request, into one queue; all are stored, or none."""
        return self._wait(lambda client: client.send_batch(messages, queue=queue, timeout_s=timeout_s))

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: object = None,
        timeout_s: float | None = None,
    ) -> MessageView:
        """Send a message and wait for the reply that some consumer of its topic sends."""
        return self._wait(
            lambda client: client.request(message, queue=queue, selector=selector, arg=arg, timeout_s=timeout_s)
        )

    def reply(
        self,
        request: MessageView,
        body: bytes | bytearray | memoryview,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> SendResult:
        """Reply to a request that a consumer got; its sender has the reply when this returns."""
        return self._wait(
            lambda client: client.reply(request, body, tags=tags, keys=keys, properties=properties, timeout_s=timeout_s)
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of a topic can be sent to now."""
        return self._wait(lambda client: client.queues(topic))


class TransactionProducer(Producer):
    """Sends in transactions; see `client.transaction_producer.TransactionProducer` for the arguments.

    Local transactions and checks are best plain functions: they run in threads, and may block.
    """

    _kind = AsyncTransactionProducer

    @same_arguments(AsyncTransactionProducer)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)

    def send_in_transaction(
        self, message: Message, execute: Execute, arg: Any = None, *, timeout_s: float | None = None
    ) -> TransactionResult:
        """Send the first half, run `execute(transaction, arg)`, and tell the broker how it ended."""
        self._running()  # in a new process it has another client
        client = self._client
        assert isinstance(client, AsyncTransactionProducer), "made so"
        return self._wait(lambda _: client.send_in_transaction(message, execute, arg, timeout_s=timeout_s))
