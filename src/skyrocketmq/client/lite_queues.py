"""The queues of a lite pull consumer: a pull loop each, and the batches that wait to be polled.

Rule 1: what a poll hands out is finished when the next poll comes. Only what is finished is committed by itself; a
        commit by hand takes what was handed out last, too.
Rule 2: a queue that is sought in, or given up, loses its waiting batches: nothing of the old place is handed out.
Rule 3: paused queues are not pulled, and what they have waits.
Rule 4: a new expression holds for what follows the messages handed out. What waits was chosen by the old one, and is
        dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from skyrocketmq.client.deliveries import Deliveries
from skyrocketmq.client.flow_control import FlowLimits, PullGate, cache_gate
from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.moments import Moment
from skyrocketmq.client.offset_store import OffsetStore
from skyrocketmq.client.pulls import PullRequest, Pulls, PullStatus
from skyrocketmq.client.start_offsets import StartPoint
from skyrocketmq.errors import BrokerError, MQError, NetError
from skyrocketmq.model import TAG_EXPRESSION, MessageQueue, MessageView, SubscriptionData
from skyrocketmq.model.flags import PULL_LITE, PULL_SUBSCRIPTION, PULL_SUSPEND
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.wire.codes import ResponseCode

__all__ = ["LiteOptions", "LiteQueues"]

logger = logging.getLogger(__name__)

PAUSED_S: Final = 1.0
FULL_S: Final = 0.05
AFTER_ERROR_S: Final = 1.0
AFTER_LOOKUP_S: Final = 3.0
AFTER_FLOW_CONTROL_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteOptions:
    """How a lite pull consumer fetches. The numbers are those of Apache's client; times are seconds."""

    pull_batch_size: int = 10
    hold_s: float = 20.0
    hold_timeout_s: float = 30.0
    cache_count_all_max: int = 10_000
    limits: FlowLimits = field(default_factory=FlowLimits)


class LiteQueue(HeldQueue):
    """A queue with where the application is in it."""

    __slots__ = ("finished_offset", "handed_offset", "is_paused", "subscription")

    def __init__(self, queue: MessageQueue, subscription: SubscriptionData, *, next_offset: int, now: Moment) -> None:
        super().__init__(queue, next_offset=next_offset, now=now)
        self.subscription = subscription
        self.handed_offset: int | None = None  # after what was handed out; None: nothing was yet
        self.finished_offset: int | None = None  # after what was handed out before the last poll
        self.is_paused = False


class LiteQueues:
    """The queues that are held now."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        options: LiteOptions,
        *,
        offsets: OffsetStore,
        start_point: StartPoint,
        deliveries: Deliveries,
    ) -> None:
        self._instance = instance
        self._clock = instance.clock
        self._options = options
        self._offsets = offsets
        self._start_point = start_point
        self._deliveries = deliveries
        self._pulls = Pulls(instance, group)
        self._tasks = Tasks()
        self._batches: deque[tuple[LiteQueue, list[MessageView]]] = deque()
        self._last: LiteQueue | None = None  # the queue that was handed out last
        self._arrived = asyncio.Event()
        self._is_closed = False
        self._failing: set[str] = set()
        self._paused: set[MessageQueue] = set()
        self.held: dict[MessageQueue, LiteQueue] = {}

    # --------------------------------------------------------------------------------------------------- coming, going

    def take(self, queue: MessageQueue, subscription: SubscriptionData) -> None:
        """Begin with a queue; where, is found out by its loop."""
        held = LiteQueue(queue, subscription, next_offset=-1, now=Moment.now(self._clock))
        held.is_paused = queue in self._paused
        self.held[queue] = held
        self._start(held)

    def _start(self, held: LiteQueue) -> None:
        held.pulling = self._tasks.start(self._run(held), name=f"pull {held.queue}")

    def drop(self, queue: MessageQueue) -> None:
        held = self.held.pop(queue, None)
        if held is not None:
            held.drop()
            self._forget_batches(held)

    async def close(self) -> None:
        self._is_closed = True
        self._arrived.set()
        for queue in list(self.held):
            self.drop(queue)
        await self._tasks.finish(clock=self._clock, grace_s=0.0)

    def _forget_batches(self, held: LiteQueue) -> None:
        self._batches = deque(batch for batch in self._batches if batch[0] is not held)

    # --------------------------------------------------------------------------------------------------------- polling

    def finish_last(self) -> None:
        """The application asks for more: what it was handed last is finished."""
        if self._last is not None:
            self._last.finished_offset = self._last.handed_offset
            self._last = None

    async def poll(self, timeout_s: float) -> list[MessageView]:
        """The next batch, of one queue; empty if none came in time, or if the consumer is closed meanwhile."""
        batch = self._take_batch()
        if batch:
            return batch
        try:
            async with self._clock.timeout(timeout_s):
                while not batch and not self._is_closed:
                    self._arrived.clear()
                    await self._arrived.wait()
                    batch = self._take_batch()
        except TimeoutError:
            pass
        return batch

    def _take_batch(self) -> list[MessageView]:
        for index, (held, messages) in enumerate(self._batches):
            if held.is_paused:
                continue
            del self._batches[index]
            held.handed_offset = held.cache.remove(messages, now_ms=self._clock.now_ms())
            self._last = held
            held.make_room()
            return messages
        return []

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on elsewhere in a queue that is held."""
        before = self.held[queue]
        before.drop()
        self._forget_batches(before)
        held = LiteQueue(queue, before.subscription, next_offset=offset, now=Moment.now(self._clock))
        held.is_paused = before.is_paused
        held.handed_offset = held.finished_offset = offset
        self.held[queue] = held
        self._start(held)

    def choose_by(self, queue: MessageQueue, subscription: SubscriptionData) -> None:
        """Pull a queue that is held by this subscription from now on; nothing if it chooses the same messages."""
        held = self.held[queue]
        before, held.subscription = held.subscription, subscription
        if _selection(before) == _selection(subscription) or held.pulling is None:
            return
        held.pulling.cancel()
        self._forget_batches(held)
        if held.handed_offset is not None:
            held.next_offset = held.handed_offset
        elif held.cache.first_offset is not None:
            held.next_offset = held.cache.first_offset
        held.cache.clear()
        self._start(held)

    def pause(self, queues: Collection[MessageQueue], *, is_paused: bool) -> None:
        for queue in queues:
            (self._paused.add if is_paused else self._paused.discard)(queue)
            if queue in self.held:
                self.held[queue].is_paused = is_paused
        self._arrived.set()

    # --------------------------------------------------------------------------------------------------------- pulling

    async def _run(self, held: LiteQueue) -> None:
        while not held.cache.is_dropped:
            wait_s = self._must_wait(held)
            if not wait_s and held.next_offset < 0:
                wait_s = await self._find_start(held)
            if wait_s:
                await held.wait_for_room(self._options.limits.queue_count_max * 3 // 4, wait_s, clock=self._clock)
                continue
            wait_s = await self._pull(held)
            if wait_s:
                await self._clock.sleep(wait_s)

    def _must_wait(self, held: LiteQueue) -> float:
        if held.is_paused:
            return PAUSED_S
        if len(self._batches) * self._options.pull_batch_size > self._options.cache_count_all_max:
            return FULL_S
        return 0.0 if cache_gate(held.cache, self._options.limits) is PullGate.OPEN else FULL_S

    async def _find_start(self, held: LiteQueue) -> float:
        offsets, queue = self._offsets, held.queue
        was_known = offsets.find(queue) is not None
        try:
            offset = await offsets.read(queue)
            if not was_known and offsets.find(queue) == offset:
                offsets.forget(queue)  # what was only read here is not ours to store
            if offset is None:
                offset = await self._start_point.find(queue, self._instance.calls)
        except MQError as error:
            logger.info("queue not begun", extra={"queue": str(queue), "reason": str(error)})
            return AFTER_LOOKUP_S
        held.next_offset = offset
        return 0.0

    async def _pull(self, held: LiteQueue) -> float:
        options = self._options
        held.cache.pulled_at = Moment.now(self._clock)
        try:
            result = await self._pulls.pull(
                PullRequest(
                    queue=held.queue,
                    offset=held.next_offset,
                    subscription=held.subscription,
                    count_max=options.pull_batch_size,
                    sys_flag=PULL_SUSPEND | PULL_SUBSCRIPTION | PULL_LITE,
                    hold_s=options.hold_s,
                    timeout_s=options.hold_timeout_s,
                )
            )
        except MQError as error:
            return self._failed(held, error)
        self._failing.discard(held.queue.broker_name)
        if held.cache.is_dropped:
            return 0.0
        held.next_offset = result.next_offset
        if result.status is PullStatus.FOUND and result.messages:
            messages = self._deliveries.restore(result.messages)
            held.cache.put(messages, queue_end=result.max_offset)
            self._batches.append((held, messages))
            self._arrived.set()
        return 0.0

    def _failed(self, held: LiteQueue, error: MQError) -> float:
        if isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL:
            return AFTER_FLOW_CONTROL_S
        if isinstance(error, NetError):
            self._instance.routes.suspect(held.queue.topic)
        if held.queue.broker_name not in self._failing:
            self._failing.add(held.queue.broker_name)
            logger.warning("pull failed", extra={"queue": str(held.queue), "reason": str(error)})
        return AFTER_ERROR_S


def _selection(subscription: SubscriptionData) -> tuple[str, str]:
    """What decides which messages a subscription chooses."""
    return subscription.expression_type or TAG_EXPRESSION, subscription.sub_string
