"""Consuming without regard to order: many messages at a time, each finished by itself.

Hot: every consumed message passes here. A fixed number of workers take the calls of async handlers from one list,
whichever queue of whichever broker they came from; plain handlers are called by threads in the same way. No task is
made for a message, unless it failed, and a worker waits only where there is nothing in the list. Of those who wait one
is woken at a time; it wakes the next when it begins a call and leaves others in the list. So handlers that never wait
are all called by one worker. What is consumed within one turn of the loop leaves its cache together, and moves its
queue's offset once.

| a call ends | clustering | broadcasting |
|---|---|---|
| consumed | the offset moves up to the first message that is not finished | the same |
| again later, or raised | sent back to the broker (`send_back`), then as if consumed | logged, and as if consumed |
| ... and nobody could be told | kept, and tried again here after 5 s | |
| the queue was lost meanwhile | nothing: its next owner gets the message again | the same |

A worker outlives whatever happens in a call: one that ended with it would be missed by nobody until none was left.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from inspect import isawaitable
from types import CoroutineType
from typing import Final

from msgspec.structs import replace

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.deliveries import Deliveries, calls_of
from skyrocketmq.client.handler_calls import SUCCESS, HandlerCalls, failed_messages
from skyrocketmq.client.handlers import MessageHandler, result_of
from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.offset_store import OffsetStore
from skyrocketmq.client.send_back import SendBack
from skyrocketmq.model import MessageView
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.ports import Clock

__all__ = ["ConcurrentConsumption"]

logger = logging.getLogger(__name__)

KEPT_RETRY_S: Final = 5.0
CALLS_TOGETHER_MAX: Final = 32  # after so many calls that did not wait, a worker lets the loop do other things
OVERDUE_TOGETHER_MAX: Final = 16  # of one queue, each time
OVERDUE_DELAY_LEVEL: Final = 3

_Calls = tuple[HeldQueue, MessageHandler | None, Iterator[list[MessageView]]]


class ConcurrentConsumption:
    """The workers of a consumer. `send_back` is None for broadcasting; `watch` is called with each worker's task."""

    def __init__(
        self,
        group: str,
        *,
        concurrency: int,
        deliveries: Deliveries,
        handlers: HandlerCalls,
        offsets: OffsetStore,
        send_back: SendBack | None,
        watch: Callable[[asyncio.Task[None]], object],
        clock: Clock,
    ) -> None:
        self._group = group
        self._concurrency = concurrency
        self._deliveries = deliveries
        self._handlers = handlers
        self._offsets = offsets
        self._send_back = send_back
        self._watch = watch
        self._clock = clock
        self._calls: deque[_Calls] = deque()  # the first may have none left
        self._idle: deque[asyncio.Future[None]] = deque()  # workers that wait for calls
        self._is_waking = False  # one of them is on its way
        self._with_done: list[HeldQueue] = []  # queues with messages that are consumed and still in the cache
        self._is_stopping = False
        self._workers = Tasks()
        self._waits = Tasks()  # until a kept message is tried again

    def start(self) -> None:
        for number in range(self._concurrency):
            self._watch(self._workers.start(self._work(), name=f"consume {self._group} {number}"))

    def halt(self) -> None:
        """Begin no more calls of handlers."""
        self._is_stopping = True
        self._calls.clear()
        for waiting in self._idle:
            if not waiting.done():
                waiting.set_result(None)
        self._idle.clear()

    async def stop(self, *, grace_s: float) -> None:
        """Let calls under way end, then end the workers; what is waiting stays unfinished."""
        self.halt()
        await self._waits.finish(clock=self._clock, grace_s=0.0)
        deadline = self._clock.monotonic() + grace_s
        given_up_count = await self._handlers.close(grace_s=grace_s)
        remaining_s = max(0.0, deadline - self._clock.monotonic())
        given_up_count += await self._workers.finish(clock=self._clock, grace_s=remaining_s)
        self.settle()
        if given_up_count:
            logger.warning("handlers given up", extra={"group": self._group, "count": given_up_count})

    def submit(self, held: HeldQueue, messages: Sequence[MessageView]) -> None:
        """Have new messages of a queue consumed."""
        calls = self._calls
        for run in self._deliveries.runs(messages):
            handler = run[0]
            if handler is None or handler.is_async:
                calls.append((held, handler, calls_of(run)))
            else:
                for each in calls_of(run):
                    self._submit_to_thread(held, handler, each)
        if calls:
            self._wake()

    def _wake(self) -> None:
        """Let one worker look for calls, unless one is about to."""
        while self._idle and not self._is_waking:
            waiting = self._idle.popleft()
            if not waiting.done():  # it is if its worker was cancelled
                waiting.set_result(None)
                self._is_waking = True

    async def _wait_for_calls(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(waiting)
        try:
            await waiting
        finally:
            if waiting.done() and not waiting.cancelled():
                self._is_waking = False

    def _submit_to_thread(self, held: HeldQueue, handler: MessageHandler, messages: list[MessageView]) -> None:
        cache, clock = held.cache, self._clock

        def begin() -> bool:
            if cache.is_dropped or self._is_stopping:
                return False
            cache.mark_started(messages, now_s=clock.monotonic())
            return True

        def done(result: ConsumeResult | Awaitable[object]) -> None:
            if not isinstance(result, ConsumeResult):
                # A plain function that returned something to await: an async handler in disguise.
                self._calls.append((held, MessageHandler(lambda _: result, True, None), iter([messages])))
                self._wake()
            elif failed_messages(result, messages):
                self._workers.start(self._conclude(held, messages, result), name=f"send back {self._group}")
            elif not cache.is_dropped:
                self.finish(held, messages)

        self._handlers.submit(handler, messages, begin=begin, done=done)

    async def _work(self) -> None:
        calls, idle, clock = self._calls, self._idle, self._clock
        self._handlers.scope.enter()
        count = 0
        held: HeldQueue
        messages: list[MessageView] | None
        while not self._is_stopping:
            messages = None
            try:
                if not calls:
                    await self._wait_for_calls()
                    count = 0
                    continue
                if count == CALLS_TOGETHER_MAX:
                    await clock.sleep(0)
                    count = 0
                    continue
                held, handler, rest = calls[0]
                messages = next(rest, None)
                if messages is None:
                    calls.popleft()
                    continue
                count += 1
                if calls and idle and not self._is_waking:
                    self._wake()
                cache = held.cache
                if cache.is_dropped:
                    continue
                started = clock.monotonic()
                cache.mark_started(messages, now_s=started)
                if handler is None or not held.is_of_one_topic:
                    await self._conclude(held, messages, await self._handlers.call(handler, messages))
                    continue
                # What `HandlerCalls.call` does, spelt out: a coroutine less, which is a tenth of all the work.
                try:
                    outcome = handler.function(messages[0] if handler.batch_count is None else list(messages))
                    if outcome is not None and (type(outcome) is CoroutineType or isawaitable(outcome)):
                        outcome = await outcome
                    result = SUCCESS if outcome is None else result_of(outcome)
                except (Exception, asyncio.CancelledError) as error:
                    result = self._handlers.failed(messages, error)
                seconds = clock.monotonic() - started
                if result is SUCCESS and not cache.is_dropped:
                    if not held.done:
                        self._settle_soon(held)
                    held.done += messages
                    held.done_s += seconds
                    held.done_call_count += 1
                else:
                    self._handlers.note(messages, result, seconds)
                    await self._conclude(held, messages, result)
            except (Exception, asyncio.CancelledError) as error:
                self._handlers.raise_if_ending(error)
                if messages is not None:
                    self._call_lost(held, messages, error)

    def _call_lost(self, held: HeldQueue, messages: list[MessageView], error: BaseException) -> None:
        """What follows from a call could not be done, by a fault of ours or because its task was cancelled."""
        logger.error("call not concluded", extra=self._handlers.describe(messages), exc_info=error)
        self._try_again_later(held, messages)

    def _settle_soon(self, held: HeldQueue) -> None:
        if not self._with_done:
            asyncio.get_running_loop().call_soon(self.settle)
        self._with_done.append(held)

    def settle(self) -> None:
        """Let what is consumed leave the caches, and offsets move; also at the next turn of the loop by itself."""
        with_done, self._with_done = self._with_done, []
        for held in with_done:
            messages, held.done = held.done, []
            self._handlers.note_consumed(messages, held.done_s, call_count=held.done_call_count)
            held.done_s, held.done_call_count = 0.0, 0
            self.finish(held, messages)

    async def _conclude(self, held: HeldQueue, messages: list[MessageView], result: ConsumeResult) -> None:
        """What follows from a call's result."""
        if held.cache.is_dropped:
            return
        # One that was overdue is on its way to another attempt already.
        failed = [message for message in failed_messages(result, messages) if held.cache.has(message)]
        kept = await self._pass_on(failed, result.delay_level) if failed else ()
        if not kept:
            self.finish(held, messages)
            return
        kept_offsets = {message.queue_offset for message in kept}
        self.finish(held, [message for message in messages if message.queue_offset not in kept_offsets])
        self._try_again_later(held, kept)

    async def _pass_on(self, failed: Iterable[MessageView], delay_level: int) -> list[MessageView]:
        """Get failed messages to another attempt; those that nobody would take."""
        if self._send_back is None:
            logger.warning("message given up", extra={"group": self._group, "reason": "broadcasting knows no retry"})
            return []
        return [message for message in failed if not await self._send_back.hand_back(message, delay_level=delay_level)]

    def finish(self, held: HeldQueue, messages: Sequence[MessageView]) -> None:
        """Messages are done with: the offset may move."""
        if not messages:
            return
        offset = held.cache.remove(messages, now_ms=self._clock.now_ms())
        if offset is not None and not held.cache.is_dropped:
            self._offsets.update(held.queue, offset, only_up=True)
        held.make_room()

    def _try_again_later(self, held: HeldQueue, kept: Sequence[MessageView]) -> None:
        again = [replace(message, reconsume_times=message.reconsume_times + 1) for message in kept]

        async def resubmit() -> None:
            await self._clock.sleep(KEPT_RETRY_S)
            self.submit(held, again)

        self._waits.start(resubmit(), name=f"try again {self._group}")

    async def pass_on_overdue(self, queues: Iterable[HeldQueue], *, timeout_s: float) -> None:
        """Send back messages whose handler has had them for too long: they hold up their queue's offset."""
        self.settle()
        if self._send_back is None:
            return
        for held in queues:
            for _ in range(OVERDUE_TOGETHER_MAX):
                message = held.cache.find_overdue(now_s=self._clock.monotonic(), timeout_s=timeout_s)
                if message is None or held.cache.is_dropped:
                    break
                if not await self._send_back.hand_back(message, delay_level=OVERDUE_DELAY_LEVEL):
                    break
                logger.warning("message overdue", extra=self._handlers.describe([message]))
                self.finish(held, [message])
