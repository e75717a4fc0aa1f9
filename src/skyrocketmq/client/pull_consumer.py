"""Reading queues by hand: the application says which queue, from which offset, and keeps the offsets itself.

    async with PullConsumer("readers", namesrv="localhost:9876") as consumer:
        for queue in await consumer.queues("TopicTest"):
            offset = await consumer.committed(queue) or 0
            result = await consumer.pull(queue, offset)
            ...
            await consumer.commit(queue, result.next_offset)

Nothing is divided among members here, unless topics are named at the start (`topics`): then `assigned` says which of
their queues are this member's, and a listener hears of changes. For most uses `LitePullConsumer` is the simpler one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Final, Unpack

from msgspec.structs import replace

from skyrocketmq.client.allocation import AllocationStrategy, average
from skyrocketmq.client.consumer_reports import common_properties, no_handler
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.life import ClientLife
from skyrocketmq.client.message_selector import MessageSelector, as_selector
from skyrocketmq.client.namespaces import Namespace
from skyrocketmq.client.pulls import PullRequest, PullResult, Pulls
from skyrocketmq.client.rebalance import Rebalancer
from skyrocketmq.client.send_back import RETRY_COUNT_MAX, SendBack
from skyrocketmq.client.settings import Doors, SharedOptions, settings_from
from skyrocketmq.client.sharing import join_consumer, leave_consumer
from skyrocketmq.client.subscription import subscription_of
from skyrocketmq.errors import ClientError, IllegalArgument
from skyrocketmq.model import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    MessageQueue,
    MessageView,
    QueueOffset,
)
from skyrocketmq.model.flags import PULL_SUBSCRIPTION, PULL_SUSPEND
from skyrocketmq.model.names import check_client_group
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.wire.bodies_clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["PullConsumer"]

PULL_COUNT: Final = 32
SEND_BACK_TIMEOUT_S: Final = 3.0

QueueListener = Callable[[str, Collection[MessageQueue], Collection[MessageQueue]], object]


class PullConsumer(ClientLife):
    """Reads for a group. Use it as `async with`, or call `start` and `close`.

    | argument | default | meaning |
    |---|---|---|
    | namesrv | `NAMESRV_ADDR`, else an address server | `host:port`, several with `;` between or as a list |
    | topics | none | topics whose queues are divided among the group's members; see `assigned` |
    | on_queues_changed | none | called with topic, all its queues and this member's, when they change |
    | broadcasting | False | every member is assigned every queue |
    | allocation | `average` | how queues are divided |
    | pull_timeout_s | 10 | a pull that does not wait |
    | hold_s | 20 | how long the broker waits for a message in a pull that does |
    | hold_timeout_s | 30 | such a pull altogether |
    | retry_count_max | 16 | for messages that are sent back |

    and those of `SharedOptions`. All may be used from one event loop only.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        topics: Iterable[str] = (),
        on_queues_changed: QueueListener | None = None,
        broadcasting: bool = False,
        allocation: AllocationStrategy = average,
        pull_timeout_s: float = 10.0,
        hold_s: float = 20.0,
        hold_timeout_s: float = 30.0,
        retry_count_max: int = RETRY_COUNT_MAX,
        **shared: Unpack[SharedOptions],
    ) -> None:
        check_client_group(group)
        if hold_timeout_s < hold_s:
            raise IllegalArgument(f"hold_timeout_s = {hold_timeout_s:g} is less than hold_s = {hold_s:g}")
        super().__init__(group, kind="consumer")
        self._settings = settings_from(namesrv, shared, environ=os.environ)
        self._names = Namespace(self._settings.namespace)
        self._doors = Doors.of(shared)
        self._on_connection_change = shared.get("on_connection_change")
        self._topics = tuple(self._names.wrap(topic) for topic in topics)
        self._on_queues_changed = on_queues_changed
        self._broadcasting = broadcasting
        self._allocation = allocation
        self._pull_timeout_s = pull_timeout_s
        self._hold_s = hold_s
        self._hold_timeout_s = hold_timeout_s
        self._retry_count_max = retry_count_max
        self._used_topics: set[str] = set()
        self._assigned: set[MessageQueue] = set()
        self._committed: dict[MessageQueue, int] = {}  # by this consumer, for administrators who ask
        self._started_ms = 0
        self._instance: ClientInstance | None = None
        self._rebalancer: Rebalancer | None = None
        self._pulls: Pulls | None = None
        self._send_back: SendBack | None = None

    # ------------------------------------------------------------------------------------------------------------ life

    async def _open(self, opened: AsyncExitStack) -> None:
        instance = await join_consumer(
            self,
            self._settings,
            keeps_name=self._broadcasting,
            is_stream=True,
            doors=self._doors,
        )
        opened.push_async_callback(leave_consumer, self, instance)
        opened.callback(instance.watch_connections(self._on_connection_change))
        self._instance = instance
        self._started_ms = instance.clock.now_ms()
        self._pulls = Pulls(instance, self.wire_group)
        self._send_back = SendBack(
            instance, self.wire_group, retry_count_max=self._retry_count_max, timeout_s=SEND_BACK_TIMEOUT_S
        )
        await instance.routes.refresh_all(self._topics)
        await instance.heartbeats.send()
        if self._topics:
            self._rebalancer = Rebalancer(
                instance, self.wire_group, self, strategy=self._allocation, is_broadcasting=self._broadcasting
            )
            tasks = Tasks()
            tasks.start(self._rebalancer.run(), name=f"rebalance {self.group}")
            opened.push_async_callback(tasks.finish, clock=instance.clock, grace_s=0.0)

    def _closed(self) -> None:
        self._instance = self._pulls = self._send_back = self._rebalancer = None
        self._assigned.clear()

    @property
    def client_id(self) -> str:
        """Who this consumer is to the brokers; known once it is started."""
        return self._started().client_id

    def _started(self) -> ClientInstance:
        if self._instance is None:
            raise self._not_started()
        return self._instance

    # --------------------------------------------------------------------------------------------------------- reading

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        wire_topic = self._names.wrap(topic)
        self._used_topics.add(wire_topic)
        return self._names.unwrap_queues(await self._started().routes.get_readable(wire_topic))

    def assigned(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic (one of those given at the start) that are this member's now."""
        wire_topic = self._names.wrap(topic)
        return sorted(self._names.unwrap_queues(queue for queue in self._assigned if queue.topic == wire_topic))

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        expression: str | MessageSelector = "*",
        sql: str | None = None,
        count_max: int = PULL_COUNT,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> PullResult:
        """Messages of a queue from an offset on. With `wait` the broker holds an empty answer until a message comes.

        Raises the broker's refusal, or a `NetError`; an offset that is not in the queue is a status of the result.
        """
        self._started()
        assert self._pulls is not None, "a consumer that is started can pull"
        wire_queue = self._names.wrap_queue(queue)
        self._used_topics.add(wire_queue.topic)
        selector = as_selector(expression, sql)
        subscription = subscription_of(
            wire_queue.topic, selector.expression, sub_version=0, expression_type=selector.expression_type
        )
        limit_s = self._hold_timeout_s if wait else self._pull_timeout_s
        result = await self._pulls.pull(
            PullRequest(
                queue=wire_queue,
                offset=offset,
                subscription=subscription,
                count_max=count_max,
                sys_flag=PULL_SUBSCRIPTION | (PULL_SUSPEND if wait else 0),
                hold_s=self._hold_s,
                timeout_s=limit_s if timeout_s is None else timeout_s,
            )
        )
        if not self._names.name:
            return result
        messages = [replace(message, topic=queue.topic) for message in result.messages]
        return PullResult(result.status, messages, result.next_offset, result.min_offset, result.max_offset)

    async def send_back(self, message: MessageView, *, delay_level: int = 0) -> None:
        """Hand a message back: the group's push consumers get it again, after a delay. Raises if no broker takes it."""
        self._started()
        assert self._send_back is not None, "a consumer that is started can send back"
        if not await self._send_back.hand_back(message, delay_level=delay_level):
            raise ClientError(f"the message {message.msg_id} could not be sent back to any broker: try again later")

    # --------------------------------------------------------------------------------------------------------- offsets

    async def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """How far the group is in a queue, as the broker has it; None if it has nothing."""
        return await self._started().calls.query_offset(self.wire_group, self._names.wrap_queue(queue))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store how far the group is in a queue; it is stored when this returns."""
        calls, wire_queue = self._started().calls, self._names.wrap_queue(queue)
        await calls.update_offset(self.wire_group, wire_queue, offset, wait_for_answer=True)
        self._committed[wire_queue] = offset

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Where the queue begins."""
        return await self._started().calls.min_offset(self._names.wrap_queue(queue))

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Where the queue ends: the offset that its next message will have."""
        return await self._started().calls.max_offset(self._names.wrap_queue(queue))

    async def offset_at(self, queue: MessageQueue, moment: datetime) -> QueueOffset:
        """The message of a queue that was stored nearest to a moment."""
        calls = self._started().calls
        return await calls.search_offset(self._names.wrap_queue(queue), round(moment.timestamp() * 1000))

    # ---------------------------------------------------------------------------------------------- for the rebalancer

    def shared_topics(self) -> Collection[str]:
        return self._topics

    def held_queues(self) -> Collection[MessageQueue]:
        return self._assigned

    def is_stuck(self, queue: MessageQueue) -> bool:
        return False

    async def give_up(self, queue: MessageQueue) -> bool:
        self._assigned.discard(queue)
        return True

    async def take_over(self, queue: MessageQueue) -> bool:
        self._assigned.add(queue)
        return True

    def division_changed(self, topic: str, *, queues: Collection[MessageQueue], held: Collection[MessageQueue]) -> None:
        if self._on_queues_changed is not None:
            self._on_queues_changed(
                self._names.unwrap(topic), self._names.unwrap_queues(queues), sorted(self._names.unwrap_queues(held))
            )

    # --------------------------------------------------------------------------------------- for the client instance

    @property
    def wire_group(self) -> str:
        return self._names.wrap(self.group)

    def topics(self) -> Collection[str]:
        return {*self._topics, *self._used_topics}

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.wire_group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=MessageModel.BROADCASTING if self._broadcasting else MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            subscription_data_set=tuple(subscription_of(topic, sub_version=0) for topic in self._topics),
            unit_mode=self._settings.unit_mode,
        )

    def route_changed(self, topic: str) -> None:
        self.members_changed()

    def members_changed(self) -> None:
        if self._rebalancer is not None:
            self._rebalancer.wake()

    async def persist_offsets(self) -> None:
        """Nothing: `commit` stores at once."""

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Nothing: the application says where it reads."""

    def consumed_offsets(self, topic: str) -> dict[MessageQueue, int]:
        return {queue: offset for queue, offset in self._committed.items() if queue.topic == topic}

    def running_info(self) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(
            properties=common_properties(self._started(), ConsumeType.CONSUME_ACTIVELY, started_ms=self._started_ms),
            subscription_set=self.heartbeat_data().subscription_data_set,
        )

    async def consume_directly(self, message: MessageView) -> ConsumeMessageDirectlyResult:
        raise no_handler()
