"""The pull loops of a push consumer: one task a queue, which keeps a request at the broker all the time.

Rule 1: the broker holds a request until a message comes, so that new messages are here at once and an idle queue costs
        two requests in half a minute.
Rule 2: a loop never ends by an error: whatever happens, it tries again, after a second, for ever.
Rule 3: nothing is pulled that there is no room for (`flow_control`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from skyrocketmq.client.broker_locks import BrokerLocks
from skyrocketmq.client.consume_stats import ConsumeStats
from skyrocketmq.client.deliveries import Deliveries
from skyrocketmq.client.flow_control import FlowLimits, PullGate, pull_gate
from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.moments import Moment
from skyrocketmq.client.offset_store import OffsetStore
from skyrocketmq.client.pulls import PullRequest, PullResult, Pulls, PullStatus
from skyrocketmq.client.push_options import PushOptions
from skyrocketmq.client.subscriptions import Subscriptions
from skyrocketmq.errors import BrokerError, MQError, NetError, SubscriptionNotExist, SubscriptionNotLatest
from skyrocketmq.model import MessageView, SubscriptionData
from skyrocketmq.model.flags import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from skyrocketmq.wire.codes import ResponseCode

__all__ = ["Consumption", "PushPulling"]

logger = logging.getLogger(__name__)

HOLD_S: Final = 15.0
TIMEOUT_S: Final = 30.0
AFTER_ERROR_S: Final = 1.0
AFTER_FLOW_CONTROL_S: Final = 0.02  # a broker's plea for a pause
AFTER_INTRODUCTION_S: Final = 0.05  # a broker that did not know this consumer has heard of it by now
CACHE_FULL: Final = (PullGate.TOO_MANY_MESSAGES, PullGate.TOO_MANY_BYTES, PullGate.SPAN_TOO_WIDE)


class Consumption(Protocol):
    """Who consumes what was pulled: concurrently, or in order."""

    def start(self) -> None: ...

    def submit(self, held: HeldQueue, messages: list[MessageView]) -> None: ...

    def settle(self) -> None:
        """Let offsets move past all that is consumed."""
        ...

    def halt(self) -> None:
        """Begin no more calls of handlers."""
        ...

    async def stop(self, *, grace_s: float) -> None: ...


class PushPulling:
    """The loops of one consumer. `locks` are those without which nothing is pulled, None if none are needed; `on_moved`
    is called with a queue whose offset a broker refuses, and a better one."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        options: PushOptions,
        *,
        subscriptions: Subscriptions,
        deliveries: Deliveries,
        offsets: OffsetStore,
        consumption: Consumption,
        stats: ConsumeStats,
        locks: BrokerLocks | None,
        on_moved: Callable[[HeldQueue, int], object],
    ) -> None:
        self._instance = instance
        self._clock = instance.clock
        self._group = group
        self._options = options
        self._subscriptions = subscriptions
        self._deliveries = deliveries
        self._offsets = offsets
        self._consumption = consumption
        self._stats = stats
        self._locks = locks
        self._on_moved = on_moved
        self._pulls = Pulls(instance, group)
        self._failing: set[str] = set()
        self.limits = FlowLimits()
        self.is_paused = False

    def gate(self, held: HeldQueue, subscription: SubscriptionData | None) -> PullGate:
        """Whether more of a queue may be pulled now, or why not."""
        return pull_gate(
            held.cache,
            self.limits,
            is_running=True,
            is_paused=self.is_paused,
            is_orderly=self._options.orderly,
            is_locked=self._locks is None or self._locks.is_held(held),
            is_subscribed=subscription is not None,
        )

    async def run(self, held: HeldQueue) -> None:
        """Pull until the queue is dropped. Cancel it to end a request that waits at the broker."""
        while True:
            subscription = self._subscriptions.find(held.queue.topic)
            gate = self.gate(held, subscription)
            if gate.wait_ms is None:
                return
            if gate.wait_ms or subscription is None:
                await self._wait(held, gate)
                continue
            wait_s = await self._pull(held, subscription)
            if wait_s:
                await self._clock.sleep(wait_s)

    async def _wait(self, held: HeldQueue, gate: PullGate) -> None:
        held.cache.pulled_at = Moment.now(self._clock)  # it is not stuck, it has to wait
        seconds = (gate.wait_ms or 0) / 1000
        if gate in CACHE_FULL:
            await held.wait_for_room(self.limits.queue_count_max * 3 // 4, seconds, clock=self._clock)
            return
        if gate is PullGate.NOT_LOCKED and self._locks is not None:
            await self._locks.renew([held])  # not only with the next round of all locks: its broker may be back
            if self._locks.is_held(held):
                return
        await self._clock.sleep(seconds)

    async def _pull(self, held: HeldQueue, subscription: SubscriptionData) -> float:
        """One request and what follows from its answer; how long to wait before the next."""
        started = self._clock.monotonic()
        held.error = None
        held.cache.pulled_at = Moment.now(self._clock)
        try:
            result = await self._pulls.pull(self._request(held, subscription))
        except MQError as error:
            return self._failed(held, error)
        self._failing.discard(held.queue.broker_name)
        held.is_introduced = True
        held.queue_end = result.max_offset
        if held.cache.is_dropped:
            return 0.0
        if result.status is PullStatus.FOUND:
            self._stats.note_pull(held.queue.topic, self._clock.monotonic() - started, len(result.messages))
            self._take(held, result)
            return self._options.pull_interval_s
        if result.status is PullStatus.OFFSET_ILLEGAL:
            logger.warning(
                "offset refused by broker",
                extra={"queue": str(held.queue), "asked": held.next_offset, "next": result.next_offset},
            )
            self._on_moved(held, result.next_offset)
            return 0.0
        self._skip(held, result)
        return 0.0

    def _request(self, held: HeldQueue, subscription: SubscriptionData) -> PullRequest:
        options = self._options
        flag = PULL_SUSPEND
        commit_offset = 0 if options.broadcasting else self._offsets.find(held.queue) or 0
        if commit_offset > 0:
            flag |= PULL_COMMIT_OFFSET
        if options.post_subscription:
            flag |= PULL_SUBSCRIPTION
        return PullRequest(
            queue=held.queue,
            offset=held.next_offset,
            subscription=subscription,
            count_max=options.pull_batch_size,
            sys_flag=flag,
            hold_s=HOLD_S,
            timeout_s=TIMEOUT_S,
            commit_offset=commit_offset,
            sub_version=self._subscriptions.expression_version(held.queue.topic),
        )

    def _take(self, held: HeldQueue, result: PullResult) -> None:
        held.next_offset = result.next_offset
        if not result.messages:
            self._skip(held, result)
            return
        messages = self._deliveries.restore(result.messages)
        held.cache.put(messages, queue_end=result.max_offset)
        self._consumption.submit(held, messages)

    def _skip(self, held: HeldQueue, result: PullResult) -> None:
        """Nothing for this consumer up to the next offset: that much is consumed, if nothing before is unfinished."""
        held.next_offset = result.next_offset
        if not held.cache.count:
            self._offsets.update(held.queue, result.next_offset, only_up=True)

    def _failed(self, held: HeldQueue, error: MQError) -> float:
        held.error = error
        if isinstance(error, BrokerError) and error.code == ResponseCode.FLOW_CONTROL:
            return AFTER_FLOW_CONTROL_S
        if isinstance(error, SubscriptionNotExist | SubscriptionNotLatest):
            # A broker that was restarted does not know this consumer yet, or the subscription was changed just now.
            self._instance.heartbeats.send_soon()
            if held.is_introduced:
                held.is_introduced = False
                return AFTER_INTRODUCTION_S
        elif isinstance(error, NetError):
            self._instance.routes.suspect(held.queue.topic)
        if held.queue.broker_name not in self._failing:
            self._failing.add(held.queue.broker_name)
            logger.warning("pull failed", extra={"queue": str(held.queue), "reason": str(error)})
        return AFTER_ERROR_S
