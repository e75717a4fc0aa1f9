"""A lite pull consumer as its group and the brokers know it: membership, division of queues, offsets.

With subscriptions its queues come from the division among the members. With assigned queues it takes part in nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from skyrocketmq.client.allocation import AllocationStrategy
from skyrocketmq.client.connection_changes import ConnectionListener
from skyrocketmq.client.consumer_reports import common_properties, no_handler
from skyrocketmq.client.deliveries import Deliveries
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.lite_queues import LiteOptions, LiteQueues
from skyrocketmq.client.local_offsets import LocalOffsets, local_offsets_root
from skyrocketmq.client.message_selector import MessageSelector
from skyrocketmq.client.namespaces import Namespace
from skyrocketmq.client.offset_gateway import BrokerOffsets
from skyrocketmq.client.offset_store import OffsetStore, RemoteOffsets
from skyrocketmq.client.rebalance import Rebalancer
from skyrocketmq.client.settings import ClientSettings, Doors
from skyrocketmq.client.sharing import join_consumer, leave_consumer
from skyrocketmq.client.start_offsets import StartPoint
from skyrocketmq.client.subscription import subscription_of
from skyrocketmq.client.subscriptions import Subscriptions
from skyrocketmq.errors import broker_error
from skyrocketmq.model import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    MessageQueue,
    MessageView,
    QueueOffset,
)
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.ports import Disk, LocalDisk
from skyrocketmq.wire.bodies_clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from skyrocketmq.wire.codes import ResponseCode

__all__ = ["LiteMember", "LiteParts", "QueueListener"]

QueueListener = Callable[[str, Collection[MessageQueue], Collection[MessageQueue]], object]


@dataclass(slots=True)
class LiteParts:
    """What a consumer has while it is started."""

    instance: ClientInstance
    queues: LiteQueues
    offsets: OffsetStore
    rebalancer: Rebalancer
    started_ms: int


class LiteMember:
    """The membership of one consumer. `parts` is None while it is not started."""

    def __init__(
        self,
        group: str,
        settings: ClientSettings,
        *,
        start_point: StartPoint,
        broadcasting: bool,
        allocation: AllocationStrategy,
        options: LiteOptions,
        on_queues_changed: QueueListener | None,
        offsets_directory: Path | None,
        disk: Disk | None,
    ) -> None:
        self._settings = settings
        self._start_point = start_point
        self._broadcasting = broadcasting
        self._allocation = allocation
        self._options = options
        self._on_queues_changed = on_queues_changed
        self._offsets_directory = offsets_directory
        self._disk = disk
        self.names = Namespace(settings.namespace)
        self.wire_group = self.names.wrap(group)
        self.subscriptions = Subscriptions(namespace=settings.namespace)
        self.chosen: frozenset[MessageQueue] = frozenset()
        self.chosen_selector = MessageSelector.by_tag()
        self.commits_finished = True  # what is finished is committed when a queue is given up
        self.parts: LiteParts | None = None

    async def open(
        self,
        opened: AsyncExitStack,
        *,
        doors: Doors,
        on_connection_change: ConnectionListener | None,
    ) -> None:
        """Join the group; what has to be undone goes on the stack."""
        instance = await join_consumer(self, self._settings, keeps_name=self._broadcasting, is_stream=True, doors=doors)
        opened.push_async_callback(leave_consumer, self, instance)
        opened.callback(instance.watch_connections(on_connection_change))
        offsets: OffsetStore
        if self._broadcasting:
            offsets = self._open_local_offsets(instance, opened)
        else:
            offsets = RemoteOffsets(BrokerOffsets(instance.calls, self.wire_group))
        await offsets.load()
        queues = LiteQueues(
            instance,
            self.wire_group,
            self._options,
            offsets=offsets,
            start_point=self._start_point,
            deliveries=Deliveries(lambda topic: None, namespace=self.names.name),
        )
        opened.push_async_callback(queues.close)
        rebalancer = Rebalancer(
            instance, self.wire_group, self, strategy=self._allocation, is_broadcasting=self._broadcasting
        )
        self.parts = LiteParts(instance, queues, offsets, rebalancer, instance.clock.now_ms())
        opened.push_async_callback(self._commit_last)
        await instance.routes.refresh_all(self.topics())
        await instance.heartbeats.send()
        tasks = Tasks()
        tasks.start(rebalancer.run(), name=f"rebalance {self.wire_group}")
        opened.push_async_callback(tasks.finish, clock=instance.clock, grace_s=0.0)
        self.read_chosen()

    def _open_local_offsets(self, instance: ClientInstance, opened: AsyncExitStack) -> LocalOffsets:
        disk = self._disk
        if disk is None:
            disk = LocalDisk(threads=1)
            opened.callback(disk.close)
        root = self._offsets_directory or local_offsets_root(os.environ)
        return LocalOffsets(disk, root=root, client_id=instance.client_id, group=self.wire_group)

    async def _commit_last(self) -> None:
        if self.commits_finished:
            self.note_finished()
        if self.parts is not None:
            await self.parts.offsets.persist_all(list(self.parts.queues.held), wait_for_answer=True)

    # --------------------------------------------------------------------------------------------------------- offsets

    def note_finished(self) -> None:
        """What was handed out before the last poll counts as consumed."""
        if self.parts is not None:
            for queue, held in self.parts.queues.held.items():
                if held.finished_offset is not None:
                    self.parts.offsets.update(queue, held.finished_offset)

    def note_handed(self) -> None:
        """All that was handed out counts as consumed."""
        if self.parts is not None:
            for queue, held in self.parts.queues.held.items():
                if held.handed_offset is not None:
                    self.parts.offsets.update(queue, held.handed_offset)

    async def find_committed(self, queue: MessageQueue) -> QueueOffset | None:
        """What is stored for a queue; what is only noted here is left alone."""
        assert self.parts is not None, "asked of a consumer that is started"
        if self._broadcasting:
            return await self.parts.offsets.read(queue)
        return await self.parts.instance.calls.query_offset(self.wire_group, queue)

    # ---------------------------------------------------------------------------------------------------------- queues

    def subscriptions_changed(self) -> None:
        if self.parts is not None:
            for queue in self.parts.queues.held:
                subscription = self.subscriptions.find(queue.topic)
                if subscription is not None:
                    self.parts.queues.choose_by(queue, subscription)
            for topic in self.subscriptions.wire_topics:
                self.parts.instance.routes.suspect(topic)
            self.parts.instance.heartbeats.send_soon()
            self.parts.rebalancer.wake()

    def read_chosen(self) -> None:
        """Hold the queues that were assigned, and no others; nothing where none were."""
        if self.parts is None or self.subscriptions.wire_topics:
            return
        queues = self.parts.queues
        for queue in queues.held.keys() - self.chosen:
            queues.drop(queue)
        selector = self.chosen_selector
        for queue in sorted(self.chosen):
            subscription = subscription_of(
                queue.topic, selector.expression, sub_version=0, expression_type=selector.expression_type
            )
            if queue in queues.held:
                queues.choose_by(queue, subscription)
            else:
                queues.take(queue, subscription)

    def shared_topics(self) -> Collection[str]:
        return self.subscriptions.wire_topics

    def held_queues(self) -> Collection[MessageQueue]:
        return () if self.parts is None or self.chosen else self.parts.queues.held.keys()

    def is_stuck(self, queue: MessageQueue) -> bool:
        return False

    async def give_up(self, queue: MessageQueue) -> bool:
        parts = self.parts
        if parts is None:
            return False
        held = parts.queues.held[queue]
        if self.commits_finished and held.finished_offset is not None:
            parts.offsets.update(queue, held.finished_offset)
        parts.queues.drop(queue)
        await parts.offsets.persist(queue)
        parts.offsets.forget(queue)
        return True

    async def take_over(self, queue: MessageQueue) -> bool:
        subscription = self.subscriptions.find(queue.topic)
        if self.parts is None or subscription is None:
            return False
        self.parts.offsets.forget(queue)
        self.parts.queues.take(queue, subscription)
        return True

    def division_changed(self, topic: str, *, queues: Collection[MessageQueue], held: Collection[MessageQueue]) -> None:
        if self.parts is None:
            return
        self.subscriptions.touch(topic, now_ms=self.parts.instance.clock.now_ms())
        self.parts.instance.heartbeats.send_soon()
        if self._on_queues_changed is not None:
            names = self.names
            self._on_queues_changed(names.unwrap(topic), names.unwrap_queues(queues), names.unwrap_queues(sorted(held)))

    # --------------------------------------------------------------------------------------- for the client instance

    def topics(self) -> Collection[str]:
        return {*self.subscriptions.wire_topics, *(queue.topic for queue in self.chosen)}

    def heartbeat_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.wire_group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=MessageModel.BROADCASTING if self._broadcasting else MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            subscription_data_set=self.subscriptions.all(),
            unit_mode=self._settings.unit_mode,
        )

    def route_changed(self, topic: str) -> None:
        self.members_changed()

    def members_changed(self) -> None:
        if self.parts is not None:
            self.parts.rebalancer.wake()

    async def persist_offsets(self) -> None:
        if self.parts is not None:
            await self.parts.offsets.persist_all(list(self.parts.queues.held))

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Nothing: brokers reset push consumers only; here `seek` does it."""

    def consumed_offsets(self, topic: str) -> dict[MessageQueue, int]:
        return {}

    def running_info(self) -> ConsumerRunningInfo:
        parts = self.parts
        if parts is None:
            raise broker_error(ResponseCode.SYSTEM_ERROR, "the consumer is not started yet")
        return ConsumerRunningInfo(
            mq_table={
                queue: held.cache.to_info(commit_offset=parts.offsets.find(queue) or 0)
                for queue, held in parts.queues.held.items()
            },
            properties=common_properties(parts.instance, ConsumeType.CONSUME_ACTIVELY, started_ms=parts.started_ms),
            subscription_set=self.subscriptions.all(),
        )

    async def consume_directly(self, message: MessageView) -> ConsumeMessageDirectlyResult:
        raise no_handler()
