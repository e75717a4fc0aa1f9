"""A push consumer that runs: its queues, and the parts that pull, consume, commit and send back.

A queue's life here: `take_over` (lock it if in order, find where to begin, start its pull loop), messages flow from the
pull loop through the cache to the handlers, and `give_up` drops it: what is cached is forgotten, the offset is stored,
and another member goes on. Nothing that a handler finishes after that counts. In order, a handler that runs is waited
for before that, and what it finishes does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from typing import Final

from skyrocketmq.background import Background
from skyrocketmq.client.broker_locks import RENEW_FIRST_AFTER_S, RENEW_INTERVAL_S, BrokerLocks
from skyrocketmq.client.consume_concurrently import ConcurrentConsumption
from skyrocketmq.client.consume_orderly import OrderlyConsumption
from skyrocketmq.client.consume_stats import SAMPLE_INTERVAL_S, ConsumeStats
from skyrocketmq.client.deliveries import Deliveries
from skyrocketmq.client.flow_control import PullGate
from skyrocketmq.client.handler_calls import HandlerCalls
from skyrocketmq.client.handler_threads import HandlerThreads
from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.local_offsets import LocalOffsets
from skyrocketmq.client.moments import Moment
from skyrocketmq.client.offset_gateway import BrokerOffsets
from skyrocketmq.client.offset_store import OffsetStore, RemoteOffsets
from skyrocketmq.client.push_options import PushOptions
from skyrocketmq.client.push_pulling import Consumption, PushPulling
from skyrocketmq.client.rebalance import Rebalancer
from skyrocketmq.client.send_back import SendBack
from skyrocketmq.client.start_offsets import StartPoint
from skyrocketmq.client.subscriptions import Subscriptions
from skyrocketmq.errors import MQError, NetError
from skyrocketmq.model import TAG_EXPRESSION, MessageQueue, SubscriptionData
from skyrocketmq.net.tasks import Tasks

__all__ = ["PushMember"]

logger = logging.getLogger(__name__)

GIVE_UP_WAIT_S: Final = 1.0  # for a handler that runs; after that the queue stays until the next round


class PushMember:
    """The running parts of one push consumer. Made and ended by `PushConsumer`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        options: PushOptions,
        *,
        subscriptions: Subscriptions,
        start_point: StartPoint,
        local_offsets: LocalOffsets | None,
    ) -> None:
        clock = instance.clock
        self.instance = instance
        self._clock = clock
        self._group = group
        self._options = options
        self._subscriptions = subscriptions
        self._start_point = start_point
        self.offsets: OffsetStore = local_offsets or RemoteOffsets(BrokerOffsets(instance.calls, group))
        self.stats = ConsumeStats()
        self.held: dict[MessageQueue, HeldQueue] = {}
        self.threads = HandlerThreads(options.concurrency, name=group, machine=instance.machine)
        self.handlers = HandlerCalls(group, threads=self.threads, stats=self.stats, clock=clock)
        self.deliveries = Deliveries(subscriptions.find_handler, namespace=instance.settings.namespace)
        # A broadcasting member reads a copy of its own and needs no lock. Java's ask for one before the first message
        # all the same, so that of two members the second waits until the first one's lock has run out.
        needs_locks = options.orderly and not options.broadcasting
        self._locks: BrokerLocks | None = None
        if needs_locks:
            self._locks = BrokerLocks(instance, group, offsets=self.offsets, on_lost=self._lock_lost)
        self._concurrent: ConcurrentConsumption | None = None
        self._consumption = self._make_consumption()
        self._pulling = PushPulling(
            instance,
            group,
            options,
            subscriptions=subscriptions,
            deliveries=self.deliveries,
            offsets=self.offsets,
            consumption=self._consumption,
            stats=self.stats,
            locks=self._locks,
            on_moved=self._offset_moved,
        )
        self._pulling.limits = options.limits
        self._rebalancer = Rebalancer(
            instance, group, self, strategy=options.allocation, is_broadcasting=options.broadcasting
        )
        self._loops = Tasks()  # of queues, and the rounds of rebalancing: ended first, nothing is lost with them
        self._opened = AsyncExitStack()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.started_ms = clock.now_ms()

    def _make_consumption(self) -> Consumption:
        options, clock = self._options, self._clock
        send_back = SendBack(self.instance, self._group, retry_count_max=options.retries)
        if options.orderly:
            return OrderlyConsumption(
                self._group,
                concurrency=options.concurrency,
                deliveries=self.deliveries,
                handlers=self.handlers,
                offsets=self.offsets,
                send_back=send_back,
                locks=self._locks,
                pause_s=options.pause_s,
                retry_count_max=options.retries,
                auto_commit=options.auto_commit,
                watch=self._watch,
                on_free=self.wake,
                clock=clock,
            )
        self._concurrent = ConcurrentConsumption(
            self._group,
            concurrency=options.concurrency,
            deliveries=self.deliveries,
            handlers=self.handlers,
            offsets=self.offsets,
            send_back=None if options.broadcasting else send_back,
            watch=self._watch,
            clock=clock,
        )
        return self._concurrent

    # ------------------------------------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Begin to consume; returns before the first queue is taken over."""
        await self.offsets.load()
        instance = self.instance
        await instance.routes.refresh_all(self.shared_topics())
        await self._check_filters()
        await instance.heartbeats.send()
        rebalancing = self._loops.start(self._rebalancer.run(), name=f"rebalance {self._group}")
        self._watch(rebalancing)
        self.handlers.watched = rebalancing
        self._consumption.start()
        background = await self._opened.enter_async_context(Background(self._clock))
        background.every(SAMPLE_INTERVAL_S, lambda: self.stats.sample(self._clock.monotonic()))
        if self._locks is not None:
            background.every(RENEW_INTERVAL_S, self._renew_locks, first_after=RENEW_FIRST_AFTER_S)
        if self._concurrent is not None:
            background.every(self._options.consume_timeout_s, self._pass_on_overdue)

    async def _check_filters(self) -> None:
        """A broker has to agree to anything that is more than tags; its refusal ends the start.

        One that cannot be reached does not: another is asked, and if there is none, each says so with the first pull.
        """
        for data in self._subscriptions.all():
            if (data.expression_type or TAG_EXPRESSION) != TAG_EXPRESSION:
                await self._check_filter(data)

    async def _check_filter(self, data: SubscriptionData) -> None:
        instance = self.instance
        for address in instance.routes.any_brokers(data.topic, instance.chance):
            try:
                await instance.calls.check_subscription(instance.client_id, self._group, data, address=address)
            except NetError as error:
                logger.warning("filter not checked", extra={"broker": address, "reason": str(error)})
            else:
                return

    def halt(self) -> None:
        """Begin no more calls of handlers: the end is near."""
        self._consumption.halt()

    async def stop(self) -> None:
        """Pull no more, let handlers finish, store the offsets, give the queues back.

        Locks are renewed as long as a handler runs: until then nobody else may begin with its queue.
        """
        await self._loops.finish(clock=self._clock, grace_s=0.0)
        await self._consumption.stop(grace_s=self._options.stop_grace_s)
        await self._opened.aclose()
        if self._locks is not None:
            await asyncio.gather(*(self._locks.confirm(held) for held in self.held.values()))
        await self.offsets.persist_all(self._own_queues(), wait_for_answer=True)
        if self._locks is not None:
            await self._locks.unlock(list(self.held))
        for held in self.held.values():
            held.drop()
        self.held.clear()
        await self.handlers.close(grace_s=0.0)
        if not self.ended.done():
            self.ended.set_result(None)

    def _watch(self, task: asyncio.Task[None]) -> None:
        """A loop that dies by a fault of ours takes the consumer down with it, loudly."""

        def look(ended: asyncio.Task[None]) -> None:
            error = None if ended.cancelled() else ended.exception()
            if error is not None and not self.ended.done():
                self.ended.set_exception(error)
                self.ended.exception()  # looked at: it may be that nobody waits in `run`

        task.add_done_callback(look)

    def pause(self, is_paused: bool) -> None:
        """Stop or go on pulling; what is cached is consumed.

        The division of queues goes on: one that has gone to a new member must be given up, or two would store offsets.
        """
        self._pulling.is_paused = is_paused

    @property
    def is_paused(self) -> bool:
        return self._pulling.is_paused

    def state_of(self, held: HeldQueue) -> PullGate:
        """Whether more of a queue may be pulled now, or why not."""
        return self._pulling.gate(held, self._subscriptions.find(held.queue.topic))

    @property
    def client_id(self) -> str:
        return self.instance.client_id

    def tell_brokers(self) -> None:
        """Subscriptions have changed."""
        for topic in self.shared_topics():
            self.instance.routes.suspect(topic)
        self.instance.heartbeats.send_soon()
        self.wake()

    def let_topic_go(self, wire_topic: str) -> None:
        """A topic is no longer subscribed: nothing of it is begun any more, and its queues go with the next round."""
        self._consumption.settle()
        for held in self.held.values():
            if held.queue.topic == wire_topic:
                held.leave()

    def wake(self) -> None:
        """Queues or members may have changed."""
        self._rebalancer.wake()

    # ---------------------------------------------------------------------------------------------- queues come and go

    def shared_topics(self) -> Collection[str]:
        return self._subscriptions.wire_topics

    def held_queues(self) -> Collection[MessageQueue]:
        return self.held.keys()

    def is_stuck(self, queue: MessageQueue) -> bool:
        cache = self.held[queue].cache
        return cache.is_dropped or cache.is_pull_expired(self._clock.monotonic())

    async def take_over(self, queue: MessageQueue) -> bool:
        """Begin with a queue where its group left off; False if that cannot be done now."""
        asked_at = Moment.now(self._clock)
        if self._locks is not None and not await self._locks.lock(queue):
            return False
        self.offsets.forget(queue)
        try:
            offset = await self.offsets.read(queue)
            if offset is None:
                offset = await self._start_point.find(queue, self.instance.calls)
        except MQError as error:
            logger.info("queue not begun", extra={"queue": str(queue), "reason": str(error)})
            return False
        held = HeldQueue(queue, next_offset=offset, now=Moment.now(self._clock))
        held.cache.is_locked = self._options.orderly
        held.cache.locked_at = asked_at
        self.held[queue] = held
        held.pulling = self._loops.start(self._pulling.run(held), name=f"pull {queue}")
        self._watch(held.pulling)
        logger.info("queue begun", extra={"group": self._group, "queue": str(queue), "offset": offset})
        return True

    async def give_up(self, queue: MessageQueue) -> bool:
        """Let a queue go to another member; False while a handler works on its messages in order."""
        held = self.held[queue]
        self._consumption.settle()
        held.leave()
        if not await self._is_free(held):
            return False
        await self._let_go(held)
        if self._locks is not None:
            await self._locks.unlock([queue])
        return True

    async def _is_free(self, held: HeldQueue) -> bool:
        if self._locks is None:
            return True
        try:
            async with self._clock.timeout(GIVE_UP_WAIT_S), held.processing:
                return True  # no handler begins after this: the queue is dropped
        except TimeoutError:
            logger.info("queue not free yet", extra={"group": self._group, "queue": str(held.queue)})
            return False

    def _is_own(self, held: HeldQueue) -> bool:
        """Whether nobody else can have stored an offset of this queue."""
        return self._locks is None or self._locks.is_held(held)

    def _own_queues(self) -> list[MessageQueue]:
        return [queue for queue, held in self.held.items() if self._is_own(held)]

    async def _let_go(self, held: HeldQueue, *, wait_for_answer: bool = False) -> None:
        """Store the offset of a dropped queue, unless its next owner is at work already, and forget it."""
        held.drop()
        queue = held.queue
        if self._locks is None or await self._locks.confirm(held):
            # In order, the next member must not begin before it is stored.
            await self.offsets.persist(queue, wait_for_answer=wait_for_answer or self._locks is not None)
        self.offsets.forget(queue)
        if self.held.get(queue) is held:
            del self.held[queue]
        logger.info("queue given up", extra={"group": self._group, "queue": str(queue)})

    def division_changed(self, topic: str, *, queues: Collection[MessageQueue], held: Collection[MessageQueue]) -> None:
        self._subscriptions.touch(topic, now_ms=self._clock.now_ms())
        self._pulling.limits = self._options.limits.shared_by(len(self.held))
        self.instance.heartbeats.send_soon()

    # ------------------------------------------------------------------------------------ offsets changed from outside

    def _offset_moved(self, held: HeldQueue, offset: int) -> None:
        self._drop_at(held, offset)
        self._loops.start(self._go_on_at({held.queue: offset}), name=f"move {held.queue}")

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on elsewhere in these queues, as far as they are held. What is being consumed no longer counts."""
        here = {queue: offset for queue, offset in offsets.items() if queue in self.held}
        for queue, offset in here.items():
            self._drop_at(self.held[queue], offset)
        await self._go_on_at(here)

    def _drop_at(self, held: HeldQueue, offset: int) -> None:
        """The offset is noted at once: a round that comes first lets the queue go, and stores what is noted."""
        held.drop()
        self.offsets.update(held.queue, offset)

    async def _go_on_at(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets for queues that were dropped; the next round takes them over again, and begins there."""
        for queue, offset in offsets.items():
            held = self.held.get(queue)
            if held is None:
                continue
            async with held.processing:
                self.offsets.update(queue, offset)
            await self._let_go(held, wait_for_answer=True)
        self._rebalancer.wake()

    def _lock_lost(self, held: HeldQueue) -> None:
        held.lose()
        self._rebalancer.wake()

    # ------------------------------------------------------------------------------------------------------ background

    async def persist_offsets(self) -> None:
        self._consumption.settle()
        await self.offsets.persist_all(self._own_queues())

    async def _renew_locks(self) -> None:
        assert self._locks is not None, "only orderly consumers have locks"
        await self._locks.renew(list(self.held.values()))

    async def _pass_on_overdue(self) -> None:
        assert self._concurrent is not None, "in order, nothing is overdue"
        await self._concurrent.pass_on_overdue(list(self.held.values()), timeout_s=self._options.consume_timeout_s)
