"""Consuming messages as they come.

    consumer = PushConsumer("billing", namesrv="localhost:9876")

    @consumer.subscribe("TopicTest", "TagA || TagB")
    async def bill(message):            # plain functions too: they run in a thread pool
        ...                             # returning = consumed; raising or ConsumeResult.RETRY = again later

    async with consumer:
        await consumer.run()

The members of a group share its topics' queues; with `broadcasting=True` each member gets everything. A message may
come more than once (after a crash, or when members come and go): handlers have to bear that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from skyrocketmq.client.allocation import AllocationStrategy, average
from skyrocketmq.client.consumer_health import ConsumerHealth, consumer_health
from skyrocketmq.client.consumer_reports import consume_directly, running_info
from skyrocketmq.client.handlers import handler_of
from skyrocketmq.client.hooks import default_hooks, hooked_handler
from skyrocketmq.client.life import ClientLife
from skyrocketmq.client.local_offsets import LocalOffsets, local_offsets_root
from skyrocketmq.client.message_selector import MessageSelector
from skyrocketmq.client.push_member import PushMember
from skyrocketmq.client.push_options import PushOptions
from skyrocketmq.client.settings import Doors, SharedOptions, settings_from
from skyrocketmq.client.sharing import join_consumer, leave_consumer
from skyrocketmq.client.start_offsets import ConsumeFrom, start_point_of
from skyrocketmq.client.subscriptions import Subscriptions
from skyrocketmq.client.trace_consuming import TraceHandling
from skyrocketmq.client.tracing import Tracer, trace_topic_of
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import (
    ConsumerData,
    ConsumeType,
    MessageModel,
    MessageQueue,
    MessageView,
)
from skyrocketmq.model.names import check_client_group, check_topic, retry_topic, with_namespace
from skyrocketmq.ports import Disk, LocalDisk, SystemClock
from skyrocketmq.wire.bodies_clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["PushConsumer"]

Function = TypeVar("Function", bound=Callable[[Any], object | Awaitable[object]])


class PushConsumer(ClientLife):
    """Consumes for a group. Use it as `async with`, or call `start` and `close`; `run` waits for its end.

    | argument | default | meaning |
    |---|---|---|
    | namesrv | `NAMESRV_ADDR`, else an address server | `host:port`, several with `;` between or as a list |
    | consume_from | "last" | where a group without offsets begins: "last", "first", or a datetime |
    | orderly | False | each queue's messages one after the other |
    | broadcasting | False | every member gets every message; offsets in a local file |
    | concurrency | 20 | handlers that run at a time |
    | allocation | `average` | how queues are divided among members, the same in all of them |
    | retry_count_max | 16, in order endless | attempts after the first, then the message goes to the dead letters |
    | pause_s | 1 | in order: the pause before a message is tried again |
    | consume_timeout_s | 900 | a message that a handler has for so long is sent back |
    | cache_count_max, cache_mib_max, cache_span_max | 1000, 100, 2000 | what is fetched of a queue and not finished |
    | stop_grace_s | 30 | closing waits so long for handlers, then cancels them |
    | trace | False | True, or the name of a topic: tell there what became of each message |

    and the others of `PushOptions`, and those of `SharedOptions`. All may be used from one event loop only.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        consume_from: ConsumeFrom = "last",
        orderly: bool = False,
        broadcasting: bool = False,
        concurrency: int = 20,
        allocation: AllocationStrategy = average,
        pull_batch_size: int = 32,
        pull_interval_s: float = 0.0,
        cache_count_max: int = 1_000,
        cache_mib_max: int = 100,
        cache_span_max: int = 2_000,
        topic_cache_count_max: int | None = None,
        topic_cache_mib_max: int | None = None,
        consume_timeout_s: float = 900.0,
        retry_count_max: int | None = None,
        pause_s: float = 1.0,
        auto_commit: bool = True,
        post_subscription: bool = False,
        stop_grace_s: float = 30.0,
        trace: bool | str = False,
        offsets_directory: Path | None = None,
        disk: Disk | None = None,
        **shared: Unpack[SharedOptions],
    ) -> None:
        check_client_group(group)
        super().__init__(group, kind="consumer")
        self._settings = settings_from(namesrv, shared, environ=os.environ)
        self._doors = Doors.of(shared)
        self._hooks = (*default_hooks, *shared.get("hooks", ()))
        self._on_connection_change = shared.get("on_connection_change")
        self._disk = disk
        self._offsets_directory = offsets_directory
        self._start_point = start_point_of(consume_from)
        self._options = PushOptions(
            orderly=orderly,
            broadcasting=broadcasting,
            allocation=allocation,
            concurrency=concurrency,
            pull_batch_size=pull_batch_size,
            pull_interval_s=pull_interval_s,
            cache_count_max=cache_count_max,
            cache_mib_max=cache_mib_max,
            cache_span_max=cache_span_max,
            topic_cache_count_max=topic_cache_count_max,
            topic_cache_mib_max=topic_cache_mib_max,
            consume_timeout_s=consume_timeout_s,
            retry_count_max=retry_count_max,
            pause_s=pause_s,
            auto_commit=auto_commit,
            post_subscription=post_subscription,
            stop_grace_s=stop_grace_s,
        )
        self._trace_topic = trace_topic_of(trace)
        self._tracing = TraceHandling(timeout_s=consume_timeout_s)
        if self._trace_topic is not None:
            self._hooks = (*self._hooks, self._tracing)
        self._subscriptions = Subscriptions(namespace=self._settings.namespace)
        if not broadcasting:
            check_topic(retry_topic(self.wire_group))
        self._member: PushMember | None = None

    # ---------------------------------------------------------------------------------------------------- subscribing

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
        """Have messages of a topic handled; as a decorator, or with the handler as third argument.

        `expression` names tags (`TagA || TagB`), `*` is all, or is a `MessageSelector`; `sql` is an SQL92 expression
        over properties instead. With `batch=N` the handler gets lists of up to N messages, else one message at a time.
        """
        if handler is None:
            return lambda function: self.subscribe(topic, expression, function, sql=sql, batch=batch)
        clock = self._doors.clock or SystemClock()
        made = hooked_handler(handler_of(handler, batch=batch), self._hooks, group=self.group)
        self._subscriptions.add(topic, expression, sql=sql, handler=made, now_ms=clock.now_ms())
        self._subscriptions_changed()
        return handler

    def unsubscribe(self, topic: str) -> None:
        """Let a topic be; messages of it that wait for another attempt wait on."""
        if self._subscriptions.remove(topic):
            if self._member is not None:
                self._member.let_topic_go(with_namespace(topic, namespace=self._settings.namespace))
            self._subscriptions_changed()

    def _subscriptions_changed(self) -> None:
        if self._member is not None:
            self._member.tell_brokers()

    # ------------------------------------------------------------------------------------------------------------ life

    async def _open(self, opened: AsyncExitStack) -> None:
        """What cannot be reached now is tried again for ever; wrong arguments are errors here."""
        if not self._subscriptions.wire_topics:
            raise IllegalArgument(f"the consumer {self.group} subscribes to nothing: call subscribe first")
        if not self._options.broadcasting:
            clock = self._doors.clock or SystemClock()
            self._subscriptions.add(retry_topic(self.group), now_ms=clock.now_ms())
        instance = await join_consumer(
            self,
            self._settings,
            keeps_name=self._options.broadcasting,
            is_stream=False,
            doors=self._doors,
        )
        opened.push_async_callback(leave_consumer, self, instance)
        opened.callback(instance.watch_connections(self._on_connection_change))
        local: LocalOffsets | None = None
        if self._options.broadcasting:
            disk = self._disk
            if disk is None:
                disk = LocalDisk(threads=1)
                opened.callback(disk.close)
            root = self._offsets_directory or local_offsets_root(os.environ)
            local = LocalOffsets(disk, root=root, client_id=instance.client_id, group=self.wire_group)
        if self._trace_topic is not None:
            tracer = Tracer(instance, self.wire_group, kind="CONSUME", topic=self._trace_topic)
            opened.push_async_callback(tracer.close)
            self._tracing.tracer = tracer
        member = PushMember(
            instance,
            self.wire_group,
            self._options,
            subscriptions=self._subscriptions,
            start_point=self._start_point,
            local_offsets=local,
        )
        opened.push_async_callback(member.stop)
        self._member = member
        await member.start()

    def _closing_begins(self) -> None:
        if self._member is not None:
            self._member.halt()

    def _closed(self) -> None:
        self._member = self._tracing.tracer = None

    async def run(self) -> None:
        """Wait until the consumer is closed; raises if it has failed by a fault of its own."""
        await asyncio.shield(self._started().ended)
        if self._closing is not None:
            await asyncio.wait([self._closing])

    def stop(self) -> None:
        """Ask for the end, and return at once: `run` returns when it has come. For handlers, and for signals.

        Handlers that run may finish, as with `close`; the one that asks, too, and its result counts.
        """
        self._started()
        self._begin_closing()

    @property
    def is_in_handler(self) -> bool:
        return self._member is not None and self._member.threads.scope.is_entered

    def pause(self) -> None:
        """Fetch no more until `resume`; what is fetched already is handled."""
        self._started().pause(True)

    def resume(self) -> None:
        self._started().pause(False)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this consumer's now."""
        return sorted(self._started().held)

    def health(self) -> ConsumerHealth:
        """How the consumer is doing: connections, queues, what is left to consume, and what holds it up."""
        return consumer_health(self._started(), group=self.group)

    @property
    def client_id(self) -> str:
        """Who this consumer is to the brokers; known once it is started."""
        return self._started().client_id

    @property
    def tracer(self) -> Tracer | None:
        """Who sends its traces, while it is open and if it makes any; says how many were dropped."""
        return self._tracing.tracer

    def _started(self) -> PushMember:
        if self._member is None:
            raise self._not_started()
        return self._member

    # --------------------------------------------------------------------------------------- for the client instance

    @property
    def wire_group(self) -> str:
        return with_namespace(self.group, namespace=self._settings.namespace)

    def topics(self) -> Iterable[str]:
        topics = self._subscriptions.wire_topics
        return topics if self.tracer is None else (*topics, *self.tracer.topics)

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.wire_group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.BROADCASTING if self._options.broadcasting else MessageModel.CLUSTERING,
            consume_from_where=self._start_point.where,
            subscription_data_set=self._subscriptions.all(),
            unit_mode=self._settings.unit_mode,
        )

    def route_changed(self, topic: str) -> None:
        if self._member is not None:
            self._member.wake()

    def members_changed(self) -> None:
        if self._member is not None:
            self._member.wake()

    async def persist_offsets(self) -> None:
        if self._member is not None:
            await self._member.persist_offsets()

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        if self._member is not None:
            await self._member.reset_offsets(offsets)

    def consumed_offsets(self, topic: str) -> dict[MessageQueue, int]:
        return dict(self._member.offsets.of_topic(topic)) if self._member is not None else {}

    def running_info(self) -> ConsumerRunningInfo:
        return running_info(self._started(), self._options, self._subscriptions)

    async def consume_directly(self, message: MessageView) -> ConsumeMessageDirectlyResult:
        return await consume_directly(self._started(), self._options, message)
