"""Consuming each queue in its order: one call at a time a queue, and the next only after the last was successful.

Three locks keep the order while members come and go:

1. the broker's lock on the queue (`broker_locks`): no other member reads it;
2. one worker a queue: no other call of this consumer has messages of it;
3. `HeldQueue.processing`, held while a handler runs: the queue is given up only between two calls.

| a call ends | then |
|---|---|
| consumed | the offset moves past its last message |
| again later, or raised | the same messages again, after a pause; their count of attempts rises |
| ... as often as it may be tried | moved to the dead letters, and on with the next |

With `auto_commit` off, messages that were consumed stay uncommitted until a call returns COMMIT; ROLLBACK brings all of
them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from skyrocketmq.client.broker_locks import BrokerLocks
from skyrocketmq.client.consume_result import ConsumeResult, Verdict
from skyrocketmq.client.deliveries import Deliveries
from skyrocketmq.client.handler_calls import HandlerCalls
from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.offset_store import OffsetStore
from skyrocketmq.client.send_back import SendBack
from skyrocketmq.model import MessageView
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.ports import Clock

__all__ = ["OrderlyConsumption"]

logger = logging.getLogger(__name__)

PAUSE_S_MIN: Final = 0.01
PAUSE_S_MAX: Final = 30.0
CALLS_TOGETHER_MAX: Final = 32
LOCK_AGAIN_S: Final = 0.1  # a lock that is missing is asked for after so long
LOCK_REFUSED_S: Final = 3.0  # and after so long again, if another member has it


class OrderlyConsumption:
    """The workers of an orderly consumer, one a queue. `locks` is None for broadcasting: nobody else reads its copy.

    `watch` is called with each worker's task, `on_free` when a handler is done that a queue waited for to be given up.
    """

    def __init__(
        self,
        group: str,
        *,
        concurrency: int,
        deliveries: Deliveries,
        handlers: HandlerCalls,
        offsets: OffsetStore,
        send_back: SendBack,
        locks: BrokerLocks | None,
        pause_s: float,
        retry_count_max: int,
        auto_commit: bool,
        watch: Callable[[asyncio.Task[None]], object],
        on_free: Callable[[], object],
        clock: Clock,
    ) -> None:
        self._group = group
        self._room = asyncio.Semaphore(concurrency)
        self._deliveries = deliveries
        self._handlers = handlers
        self._offsets = offsets
        self._send_back = send_back
        self._locks = locks
        self._pause_s = pause_s
        self._retry_count_max = retry_count_max
        self._auto_commit = auto_commit
        self._watch = watch
        self._on_free = on_free
        self._clock = clock
        self._tasks = Tasks()
        self._stopping = asyncio.Event()
        self._has_warned = False  # that a part of a list cannot be consumed in order

    def start(self) -> None:
        """Nothing: a worker comes with its queue."""

    def halt(self) -> None:
        """Begin no more calls of handlers."""
        self._stopping.set()

    async def stop(self, *, grace_s: float) -> None:
        """Let calls under way end, then end the workers; what is waiting stays unfinished."""
        self.halt()
        cancelled_count = await self._tasks.finish(clock=self._clock, grace_s=grace_s)
        if cancelled_count:
            logger.warning("handlers given up", extra={"group": self._group, "count": cancelled_count})

    def submit(self, held: HeldQueue, messages: Sequence[MessageView]) -> None:
        """New messages are in the cache of a queue."""
        if held.working is None and not self._stopping.is_set():
            held.working = self._tasks.start(self._work(held), name=f"consume {held.queue}")
            self._watch(held.working)

    def settle(self) -> None:
        """Nothing: each call is finished by itself."""

    async def _work(self, held: HeldQueue) -> None:
        """Consume a queue until it is given up, or nothing is there."""
        call_count = 0
        self._handlers.scope.enter()
        try:
            while not self._is_over(held) and held.cache.waiting_count:
                if not self._may_consume(held):
                    await self._lock_again(held)
                    continue
                try:
                    async with self._room:
                        pause_s = await self._consume(held)
                except asyncio.CancelledError as error:
                    self._handlers.raise_if_ending(error)  # else a handler had its own task cancelled
                    pause_s = self._pause_s
                held.make_room()
                call_count += 1
                if pause_s:
                    await self._pause(pause_s)
                elif call_count % CALLS_TOGETHER_MAX == 0:
                    await self._clock.sleep(0)  # a handler that never waits must not keep the loop to itself
        finally:
            held.working = None

    def _is_over(self, held: HeldQueue) -> bool:
        return held.cache.is_dropped or self._stopping.is_set()

    def _may_consume(self, held: HeldQueue) -> bool:
        return self._locks is None or self._locks.is_held(held)

    async def _lock_again(self, held: HeldQueue) -> None:
        assert self._locks is not None, "broadcasting needs no lock"
        await self._pause(LOCK_AGAIN_S)
        if self._is_over(held):
            return
        await self._locks.renew([held])
        if not held.cache.is_locked:
            await self._pause(LOCK_REFUSED_S)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not on when the consumer stops."""
        try:
            async with self._clock.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _consume(self, held: HeldQueue) -> float:
        """One call; the pause before the next."""
        async with held.processing:
            if self._is_over(held) or not self._may_consume(held):
                return 0.0
            count_max = self._deliveries.count_max(held.queue)
            taken = held.cache.take_for_order(count_max, now_ms=self._clock.now_ms())
            if not taken:
                return 0.0
            try:
                return await self._call(held, taken)
            except BaseException as error:
                held.cache.put_back(taken)  # neither finished nor back, they would be passed over
                if not isinstance(error, Exception):
                    raise
                logger.exception("call not concluded", extra=self._handlers.describe(taken))
                return self._clamped(None)
            finally:
                if held.is_leaving:
                    self._on_free()

    async def _call(self, held: HeldQueue, taken: list[MessageView]) -> float:
        handler, _ = self._deliveries.runs(taken)[0]
        result = await self._handlers.call(handler, taken)
        if not held.cache.is_dropped:
            return await self._finish(held, taken, result)
        if held.is_leaving and self._may_consume(held) and result.verdict not in (Verdict.RETRY, Verdict.ROLLBACK):
            # The queue is on its way to another member, who waits for this lock, and begins after what is done.
            await self._finish(held, taken, result)
        return 0.0

    async def _finish(self, held: HeldQueue, messages: list[MessageView], result: ConsumeResult) -> float:
        if result.verdict is Verdict.RETRY:
            return await self._retry(held, messages, result)
        if result.verdict is Verdict.ROLLBACK and not self._auto_commit:
            held.cache.put_back()
            return self._clamped(result.pause_s)
        if result.consumed_count is not None and result.consumed_count < len(messages) and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "all consumed, not a part: in order there are no parts", extra=self._handlers.describe(messages)
            )
        if self._auto_commit or result.verdict is Verdict.COMMIT:
            self._commit(held)
        return 0.0

    async def _retry(self, held: HeldQueue, messages: list[MessageView], result: ConsumeResult) -> float:
        again: list[MessageView] = []
        for message in messages:
            if message.reconsume_times < self._retry_count_max:
                again.append(replace(message, reconsume_times=message.reconsume_times + 1))
            elif not await self._send_back.send_copy(message, reconsume_times=message.reconsume_times):
                again.append(message)
            else:
                logger.warning("message given up", extra=self._handlers.describe([message]))
        if held.cache.is_dropped:
            return 0.0
        if again:
            # Those that were moved away stay taken: they are committed together with the rest.
            held.cache.put_back(again)
            return self._clamped(result.pause_s)
        if self._auto_commit:
            self._commit(held)
        return 0.0

    def _commit(self, held: HeldQueue) -> None:
        offset = held.cache.commit()
        if offset is not None:
            self._offsets.update(held.queue, offset)

    def _clamped(self, pause_s: float | None) -> float:
        return min(max(self._pause_s if pause_s is None else pause_s, PAUSE_S_MIN), PAUSE_S_MAX)
