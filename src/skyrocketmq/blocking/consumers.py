"""`PushConsumer`, `PullConsumer` and `LitePullConsumer` for code that blocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, overload

from skyrocketmq.blocking.face import Face, same_arguments
from skyrocketmq.client.consumer_health import ConsumerHealth
from skyrocketmq.client.lite_pull_consumer import LitePullConsumer as AsyncLitePullConsumer
from skyrocketmq.client.message_selector import MessageSelector
from skyrocketmq.client.pull_consumer import PullConsumer as AsyncPullConsumer
from skyrocketmq.client.pulls import PullResult
from skyrocketmq.client.push_consumer import PushConsumer as AsyncPushConsumer
from skyrocketmq.model import MessageQueue, MessageView, QueueOffset

__all__ = ["LitePullConsumer", "PullConsumer", "PushConsumer"]

Function = TypeVar("Function", bound=Callable[[Any], object | Awaitable[object]])


class PushConsumer(Face[AsyncPushConsumer]):
    """Consumes messages as they come; see `client.push_consumer.PushConsumer` for the arguments."""

    @same_arguments(AsyncPushConsumer)
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


class PullConsumer(Face[AsyncPullConsumer]):
    """Reads queues by hand; see `client.pull_consumer.PullConsumer` for the arguments."""

    @same_arguments(AsyncPullConsumer)
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


class LitePullConsumer(Face[AsyncLitePullConsumer]):
    """Consumes at one's own pace; see `client.lite_pull_consumer.LitePullConsumer` for the arguments."""

    @same_arguments(AsyncLitePullConsumer)
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
