"""Delayed messages: each level delivers its messages when their time has come.

    async with DelayDelivery.open(store, store_host=store_host, disk=disk, clock=clock) as delay:
        writer = MessageWriter(store, on_delayed=delay.arrived)
        background.every(10, delay.save_offsets)

A level sleeps until the first of its messages is due, or, while it has none, until one comes: nothing is polled.

Rule 1: within a level messages are delivered in the order in which they came; levels do not wait for each other.
Rule 2: a level moves on only behind what is stored. What the store refuses is tried again, with growing pauses, until
it is taken.
Rule 3: after a crash a level goes on where its file says, so that messages may be delivered twice, but none is missed.
Rule 4: a slave delivers nothing: it gets the deliveries of its master.
Rule 5: between two writes everything else on the loop has its turn, however many levels have something due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from skyrocketmq.broker.delay_delivery import DelayedCopies
from skyrocketmq.broker.delay_offsets import DelayOffsets
from skyrocketmq.broker.delay_reading import DueMessage, SetBack, look_at_level
from skyrocketmq.config import BrokerRole
from skyrocketmq.errors import MQError
from skyrocketmq.loop_watch import start_task
from skyrocketmq.model.names import SCHEDULE_TOPIC
from skyrocketmq.ports import Clock, Disk
from skyrocketmq.store import ConsumeQueue, MessageStore, Refusal
from skyrocketmq.store.cold_reads import ColdReads

__all__ = ["DelayDelivery"]

logger = logging.getLogger(__name__)

TOGETHER_S: Final = 0.01  # in a steady stream, what falls due within this time is delivered together
LOOK_AGAIN_S: Final = 5.0  # longest sleep: a clock that was set forward is noticed within this time
RETRY_FIRST_S: Final = 0.1
RETRY_MAX_S: Final = 5.0
FAILED_RETRY_S: Final = 10.0  # after what should not happen


class DelayDelivery:
    """The levels of one broker. Made by `open`, which also ends it."""

    def __init__(self, store: MessageStore, *, store_host: bytes, disk: Disk, clock: Clock) -> None:
        """Use `open`; this only puts the parts together."""
        self._store = store
        self._clock = clock
        self._offsets = DelayOffsets(store, disk=disk, clock=clock)
        self._reads = ColdReads(disk, clock)
        self._copies = DelayedCopies(store)
        self._turn = asyncio.Lock()
        self._levels: dict[int, _Level] = {}
        # Told of each delivery: the queue of its level, how many messages, and their bytes.
        self.on_delivered: Callable[[int, int, int], object] = _nobody

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: MessageStore, *, store_host: bytes, disk: Disk, clock: Clock
    ) -> AsyncIterator[DelayDelivery]:
        """Deliver until the block is left. Raises `StoreError` if the file with the offsets cannot be read."""
        delivery = cls(store, store_host=store_host, disk=disk, clock=clock)
        if store.config.broker_role is BrokerRole.SLAVE:
            yield delivery
            return
        await delivery._offsets.load()
        delivery._make_levels()
        running = [
            start_task(level.run(), name=f"delay level {number}", watch=store.watch)
            for number, level in delivery._levels.items()
        ]
        try:
            yield delivery
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await delivery._save_at_end()

    def _make_levels(self) -> None:
        delays_ms: dict[int, int | None] = dict(enumerate(self._store.config.delay_levels_ms, 1))
        # Messages may wait in levels that the configuration has lost since. They get no company, but are delivered.
        for queue in self._store.queues.of_topic(SCHEDULE_TOPIC):
            delays_ms.setdefault(queue.queue_id + 1, None)
        for number, delay_ms in delays_ms.items():
            self._levels[number] = _Level(
                number,
                delay_ms,
                store=self._store,
                offsets=self._offsets,
                reads=self._reads,
                copies=self._copies,
                turn=self._turn,
                on_delivered=self._delivered,
                clock=self._clock,
            )

    def arrived(self, level: int) -> None:
        """A message has come to a level; call this after it was stored."""
        waiting = self._levels.get(level)
        if waiting is not None:
            waiting.has_arrived.set()

    def _delivered(self, queue_id: int, due: Sequence[DueMessage]) -> None:
        self.on_delivered(queue_id, len(due), sum([len(record) for _, record in due]))

    async def save_offsets(self) -> None:
        """Write how far the levels are, if that has changed. Raises `FlushFailed` or `OSError`."""
        await self._offsets.save()

    async def _save_at_end(self) -> None:
        try:
            await self._offsets.save()
        except (MQError, OSError) as error:
            # The next start delivers again what has been delivered since the file was written.
            logger.error("delay offsets not saved", extra={"error": str(error)})

    def progress(self) -> dict[int, tuple[int, int]]:
        """Of each level: delivered up to, and end of the queue."""
        return self._offsets.progress()

    def figures(self) -> dict[str, str]:
        """What the runtime information says about delayed messages."""
        return {f"scheduleMessageOffset_{level}": f"{at},{end}" for level, (at, end) in self.progress().items()}


class _Level:
    """One level: where it is, and the loop that moves it on."""

    def __init__(
        self,
        number: int,
        delay_ms: int | None,
        *,
        store: MessageStore,
        offsets: DelayOffsets,
        reads: ColdReads,
        copies: DelayedCopies,
        turn: asyncio.Lock,
        on_delivered: Callable[[int, Sequence[DueMessage]], object],
        clock: Clock,
    ) -> None:
        self.has_arrived = asyncio.Event()
        self._number = number
        self._delay_ms = delay_ms
        self._store = store
        self._offsets = offsets
        self._reads = reads
        self._copies = copies
        self._turn = turn  # guards nothing: it lets one level at a time write
        self._on_delivered = on_delivered
        self._clock = clock
        self._queue: ConsumeQueue = store.queue(SCHEDULE_TOPIC, number - 1)
        self._refused_count = 0  # in a row
        self._set_back = SetBack()
        saved = offsets.find(number)
        self._offset = int(self._queue.min_offset) if saved is None else saved

    async def run(self) -> None:
        """Deliver for ever. Cancel the task that runs this to stop it."""
        while True:
            self.has_arrived.clear()
            try:
                pause_s = await self._deliver_due()
            except Exception as error:
                logger.error("delay level failed", extra={"level": self._number}, exc_info=error)
                pause_s = FAILED_RETRY_S
            if pause_s is None:
                await self.has_arrived.wait()
            else:
                await self._clock.sleep(pause_s)

    async def _deliver_due(self) -> float | None:
        """Deliver what is due, as much as goes at once; returns the seconds to sleep, None while there is nothing."""
        store = self._store
        store.commit_open()
        now_ms = self._clock.now_ms()
        look = await self._reads.run(
            look_at_level(
                store.log,
                self._queue,
                self._offset,
                now_ms=now_ms,
                now_s=self._clock.monotonic(),
                delay_ms=self._delay_ms,
                set_back=self._set_back,
            )
        )
        if look.due:
            async with self._turn:
                delivered = self._copies.deliver(look.due)
                if delivered.count:
                    self._on_delivered(self._number - 1, look.due[: delivered.count])
                if delivered.count < len(look.due):
                    assert delivered.refusal is not None, "whoever refuses says why"
                    self._move_to(look.due[delivered.count][0])
                    return self._refused(delivered.refusal)
                self._accepted()
                self._move_to(look.next_offset)
                await self._clock.sleep(0)
        self._move_to(look.next_offset)
        if not look.wait_ms:
            return look.wait_ms
        left_ms = max(0, look.wait_ms - (self._clock.now_ms() - now_ms))  # delivering has taken its time
        pause_s = min(left_ms / 1000, LOOK_AGAIN_S)
        return max(pause_s, TOGETHER_S) if look.due else pause_s

    def _move_to(self, offset: int) -> None:
        if offset != self._offset:
            self._offset = offset
            self._offsets.put(self._number, offset)

    def _refused(self, refusal: Refusal) -> float:
        if not self._refused_count:
            logger.warning(
                "delayed messages have to wait, the store takes none",
                extra={"level": self._number, "offset": self._offset, "reason": refusal.remark},
            )
        self._refused_count += 1
        return min(RETRY_FIRST_S * 2.0 ** min(self._refused_count - 1, 10), RETRY_MAX_S)

    def _accepted(self) -> None:
        if self._refused_count:
            logger.info("delayed messages are delivered again", extra={"level": self._number})
            self._refused_count = 0


def _nobody(queue_id: int, count: int, byte_count: int) -> None:
    """Nobody counts."""
