"""The clients for code that blocks: the same classes, arguments and results, without `await`.

    from skyrocketmq.blocking import Producer

    with Producer("orders", namesrv="localhost:9876") as producer:
        result = producer.send(Message("TopicTest", b"hello"))

Each is a thin face: the asyncio client runs on a loop in a background thread (`loop_thread`). They may be used from any
thread. In a process made by fork (gunicorn, multiprocessing) a client that the parent has started is started anew with
its first use. Handlers of a push consumer are best plain functions: they run in threads, and may block.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload
from weakref import WeakSet

from skyrocketmq import blocking_admin
from skyrocketmq.admin.admin import Admin as AsyncAdmin
from skyrocketmq.blocking_window import BlockingWindow
from skyrocketmq.client.consumer_health import ConsumerHealth
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer as AsyncLitePullConsumer
from skyrocketmq.client.message_selector import MessageSelector
from skyrocketmq.client.producer import Producer as AsyncProducer
from skyrocketmq.client.pull_consumer import PullConsumer as AsyncPullConsumer
from skyrocketmq.client.pulls import PullResult
from skyrocketmq.client.push_consumer import PushConsumer as AsyncPushConsumer
from skyrocketmq.client.selectors import QueueSelector
from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.send_window import IN_FLIGHT_MAX
from skyrocketmq.client.transaction_producer import TransactionProducer as AsyncTransactionProducer
from skyrocketmq.client.transactions import Execute, TransactionResult
from skyrocketmq.errors import ClientError
from skyrocketmq.loop_thread import LoopThread, acquire_loop, release_loop
from skyrocketmq.model import Message, MessageQueue, MessageView, QueueOffset

__all__ = ["Admin", "LitePullConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]

P = ParamSpec("P")
T = TypeVar("T")
Client = TypeVar("Client", bound="_AsyncClient")
Function = TypeVar("Function", bound=Callable[[Any], object | Awaitable[object]])


def _same_arguments(cls: Callable[P, Any]) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """For type checkers: a constructor that takes what the asyncio client's takes."""
    return lambda constructor: constructor


class _AsyncClient(Protocol):
    """What all asyncio clients have in common."""

    group: str

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    @property
    def client_id(self) -> str: ...


class _Face(Generic[Client]):
    """A client on the loop of a background thread.

    `_lock` guards starting and the change of process: of the threads that first use a client after a fork one starts it
    anew, and the others wait for that. A use that finds it running takes no lock.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._setup: list[Callable[[Client], object]] = []  # done to each client that is made
        self._client = make()
        self._thread: LoopThread | None = None
        self._process_id = os.getpid()
        self._is_due = False  # the parent had started it, and this process has not yet
        self._lock = threading.RLock()
        _faces.add(self)
        self.group = self._client.group

    def start(self) -> None:
        """What `with` does at its beginning."""
        with self._lock:
            self._follow_fork()
            if self._thread is not None:
                raise ClientError(f"{self.group} is started already")
            thread = acquire_loop()
            try:
                thread.run(self._client.start())
            except BaseException:
                release_loop(thread)
                raise
            self._is_due = False
            self._thread = thread

    def close(self) -> None:
        """What `with` does at its end. Closing twice is harmless; what a parent process has started stays open."""
        with self._lock:
            self._follow_fork()
            self._is_due = False
            thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.run(self._client.close())
        finally:
            release_loop(thread)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """Who this client is to the brokers; known once it is started."""
        self._running()
        return self._client.client_id

    def _follow_fork(self) -> None:
        """In a new process: have a new client, as the old one belongs to the parent."""
        if os.getpid() == self._process_id:
            return
        self._is_due, self._thread = self._thread is not None or self._is_due, None
        _of_parents.append(self._client)
        self._client = self._make()
        for step in self._setup:
            step(self._client)
        self._forked()
        self._process_id = os.getpid()

    def _forked(self) -> None:
        """Called in a new process before its first use."""

    def _running(self) -> LoopThread:
        # First the process, then the thread: a new process has lost its parent's before it has its own number here.
        thread = self._thread if os.getpid() == self._process_id else None
        if thread is None:
            with self._lock:
                self._follow_fork()
                if self._is_due:
                    self.start()
                thread = self._thread
        if thread is None:
            raise ClientError(f"{self.group} is not started: use it inside 'with', or call start() first")
        return thread

    def _wait(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        return self._running().run(work(self._client))

    def _call(self, function: Callable[[Client], T]) -> T:
        return self._running().call(lambda: function(self._client))

    def _configure(self, step: Callable[[Client], object]) -> None:
        """Do something to the client, now and whenever it is made anew."""
        with self._lock:
            self._follow_fork()
            thread = self._thread
        if thread is None:
            step(self._client)
        else:
            thread.call(lambda: step(self._client))
        self._setup.append(step)


_of_parents: list[object] = []  # clients of parent processes: kept, for deleting them would close what parents use


_faces: WeakSet[_Face[Any]] = WeakSet()


def _renew_locks() -> None:
    for face in list(_faces):
        face._lock = threading.RLock()  # a thread that the fork did not take along may have had it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Producer(_Face[AsyncProducer]):
    """Sends messages for a group; see `client.producer.Producer` for the arguments."""

    _kind: type[AsyncProducer] = AsyncProducer

    @_same_arguments(AsyncProducer)
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
        """Reply to a request that a consumer got; whoever asked has the reply when this returns."""
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

    @_same_arguments(AsyncTransactionProducer)
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


class PushConsumer(_Face[AsyncPushConsumer]):
    """Consumes messages as they come; see `client.push_consumer.PushConsumer` for the arguments."""

    @_same_arguments(AsyncPushConsumer)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncPushConsumer(*args, **options))

    @overload
    def subscribe(
        self,
        topic: str,
        expression: str | MessageSelector = "*",
        *,
        sql: str | None = None,
        batch: int | None = None,
    ) -> Callable[[Function], Function]: ...

    @overload
    def subscribe(
        self,
        topic: str,
        expression: str | MessageSelector,
        handler: Function,
        *,
        sql: str | None = None,
        batch: int | None = None,
    ) -> Function: ...

    def subscribe(
        self,
        topic: str,
        expression: str | MessageSelector = "*",
        handler: Function | None = None,
        *,
        sql: str | None = None,
        batch: int | None = None,
    ) -> Function | Callable[[Function], Function]:
        """Have messages of a topic handled; as a decorator, or with the handler as third argument."""
        if handler is None:
            return lambda function: self.subscribe(topic, expression, function, sql=sql, batch=batch)
        given = handler
        self._configure(lambda client: client.subscribe(topic, expression, given, sql=sql, batch=batch))
        return handler

    def unsubscribe(self, topic: str) -> None:
        """Let a topic be."""
        self._configure(lambda client: client.unsubscribe(topic))

    def run(self) -> None:
        """Wait until the consumer is closed by another thread, by a handler, or by an interrupt."""
        self._wait(lambda client: client.run())
        self.close()  # what a handler has begun

    def stop(self) -> None:
        """Ask for the end, and return at once: `run` returns when it has come. For handlers of any kind."""
        self._running().post(lambda: self._client.stop())

    def close(self) -> None:
        """What `with` does at its end. A handler that calls it does not wait: it is `stop` then."""
        if not self._client.is_in_handler:
            super().close()
        elif self._thread is not None:
            self._thread.post(lambda: self._client.stop())

    def pause(self) -> None:
        """Fetch no more until `resume`."""
        self._call(lambda client: client.pause())

    def resume(self) -> None:
        self._call(lambda client: client.resume())

    def health(self) -> ConsumerHealth:
        """How the consumer is doing: connections, queues, what is left to consume, and what holds it up."""
        return self._call(lambda client: client.health())

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this consumer's now."""
        return self._call(lambda client: client.queues)


class PullConsumer(_Face[AsyncPullConsumer]):
    """Reads queues by hand; see `client.pull_consumer.PullConsumer` for the arguments."""

    @_same_arguments(AsyncPullConsumer)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncPullConsumer(*args, **options))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        return self._wait(lambda client: client.queues(topic))

    def assigned(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic (one of those given at the start) that are this member's now."""
        return self._call(lambda client: client.assigned(topic))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: str | MessageSelector = "*",
        sql: str | None = None,
        count_max: int = 32,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> PullResult:
        """Messages of a queue from an offset on; with `wait` an empty answer is held until a message comes."""
        return self._wait(
            lambda client: client.pull(
                queue, offset, expression=expression, sql=sql, count_max=count_max, wait=wait, timeout_s=timeout_s
            )
        )

    def send_back(self, message: MessageView, *, delay_level: int = 0) -> None:
        """Hand a message back: the group's push consumers get it again, after a delay."""
        self._wait(lambda client: client.send_back(message, delay_level=delay_level))

    def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """How far the group is in a queue, as the broker has it."""
        return self._wait(lambda client: client.committed(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store how far the group is in a queue."""
        self._wait(lambda client: client.commit(queue, offset))

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Where the queue begins."""
        return self._wait(lambda client: client.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Where the queue ends."""
        return self._wait(lambda client: client.max_offset(queue))

    def offset_at(self, queue: MessageQueue, moment: datetime) -> QueueOffset:
        """The message of a queue that was stored nearest to a moment."""
        return self._wait(lambda client: client.offset_at(queue, moment))


class LitePullConsumer(_Face[AsyncLitePullConsumer]):
    """Consumes at one's own pace; see `client.lite_pull_consumer.LitePullConsumer` for the arguments."""

    @_same_arguments(AsyncLitePullConsumer)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncLitePullConsumer(*args, **options))

    def subscribe(self, topic: str, expression: str | MessageSelector = "*", *, sql: str | None = None) -> None:
        """Share the queues of a topic with the other members of the group."""
        self._configure(lambda client: client.subscribe(topic, expression, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Let a topic be."""
        self._configure(lambda client: client.unsubscribe(topic))

    def assign(self, queues: Iterable[MessageQueue], expression: str | MessageSelector = "*") -> None:
        """Read these queues and no others."""
        chosen = list(queues)
        self._configure(lambda client: client.assign(chosen, expression))

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that are read now."""
        return self._call(lambda client: client.assigned)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        return self._wait(lambda client: client.queues(topic))

    def poll(self, timeout_s: float | None = None) -> list[MessageView]:
        """The next messages, of one queue; an empty list if none came in time."""
        return self._wait(lambda client: client.poll(timeout_s))

    def __iter__(self) -> Iterator[MessageView]:
        """Messages one by one, for as long as the consumer is open."""
        while self._thread is not None:
            yield from self.poll()

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out nothing of these queues until `resume`."""
        chosen = list(queues)
        self._call(lambda client: client.pause(chosen))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out messages of these queues again."""
        chosen = list(queues)
        self._call(lambda client: client.resume(chosen))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset of a queue that is read now."""
        self._wait(lambda client: client.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is still stored."""
        self._wait(lambda client: client.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with what comes from now on."""
        self._wait(lambda client: client.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, moment: datetime) -> None:
        """Go on at what was stored about then."""
        self._wait(lambda client: client.seek_to_time(queue, moment))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store what was handed out so far, or these offsets."""
        self._wait(lambda client: client.commit(offsets))

    def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """How far the group is in a queue, as it is stored."""
        return self._wait(lambda client: client.committed(queue))

    def offset_at(self, queue: MessageQueue, moment: datetime) -> QueueOffset:
        """The message of a queue that was stored nearest to a moment."""
        return self._wait(lambda client: client.offset_at(queue, moment))


class Admin(_Face[AsyncAdmin]):
    """Administers a cluster; see `admin.Admin` for the arguments, and for what its members can do."""

    @_same_arguments(AsyncAdmin)
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(lambda: AsyncAdmin(*args, **options))
        self.cluster = blocking_admin.Cluster(self._started, lambda admin: admin.cluster)
        self.brokers = blocking_admin.Brokers(self._started, lambda admin: admin.brokers)
        self.name_servers = blocking_admin.NameServers(self._started, lambda admin: admin.name_servers)
        self.key_values = blocking_admin.KeyValues(self._started, lambda admin: admin.key_values)
        self.topics = blocking_admin.Topics(self._started, lambda admin: admin.topics)
        self.groups = blocking_admin.Groups(self._started, lambda admin: admin.groups)
        self.offsets = blocking_admin.Offsets(self._started, lambda admin: admin.offsets)
        self.messages = blocking_admin.Messages(self._started, lambda admin: admin.messages)
        self.dead_letters = blocking_admin.DeadLetters(self._started, lambda admin: admin.dead_letters)
        self.accounts = blocking_admin.Accounts(self._started, lambda admin: admin.accounts)
        self.traffic = blocking_admin.Traffic(self._started, lambda admin: admin.traffic)

    def _started(self) -> tuple[LoopThread, AsyncAdmin]:
        return self._running(), self._client
