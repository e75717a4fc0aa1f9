"""Flushing the log: on a timer, or on behalf of senders that wait, many of them for one sync.

Rule 1: one sync at a time. Senders that come while it runs wait for the next one, together: with a disk that takes
5 ms, a thousand waiting sends cost two syncs, not a thousand.
On a slow disk those who were just answered are given a moment to come again, so that the next sync serves all and not
every other one of them.
Rule 2: a sender waits for a stated time at most. Its message stays stored; it only is not known to be durable.
Rule 3: a sync that fails is the last one. The kernel may have dropped what it could not write, and a later sync that
succeeds says nothing about it; so nothing is reported durable any more, and the store refuses until it is restarted.
That holds whatever the error was. One that is not the disk's, such as no memory or no thread for the sync, must not end
the flushing unnoticed either: every sender after it would wait its full time, and so would closing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ClassVar, Final

from skyrocketmq.errors import FlushFailed
from skyrocketmq.ports import Clock
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.store.offset_waiters import Callback, OffsetWaiters, Waiter
from skyrocketmq.store.statistics import StoreStatistics
from skyrocketmq.store.statuses import PutStatus, RunningFlag, RunningState

__all__ = ["LogFlusher"]

logger = logging.getLogger(__name__)

PAGE_BYTES: Final = 4096
GATHER_FROM_S: Final = 0.002  # syncs that take this long are worth waiting for company
GATHER_SHARE: Final = 0.6  # of what a sync takes, and
GATHER_S_MAX: Final = 0.005  # no longer than this
GATHER_WORTH: Final = 0.9  # of them must have come for that to have helped
GATHER_PAUSE: Final = 16  # syncs without waiting, where waiting did not help


class LogFlusher(OffsetWaiters):
    """Who waits for the log to be durable, and how far it is. Loop's thread only."""

    too_late: ClassVar[PutStatus] = PutStatus.FLUSH_DISK_TIMEOUT

    def __init__(
        self, log: CommitLog, *, clock: Clock, state: RunningState, statistics: StoreStatistics, timeout_ms: int
    ) -> None:
        super().__init__(clock=clock, timeout_ms=timeout_ms)
        self.on_failed: Callable[[], None] = _nobody  # called once, when a sync has failed
        self._log = log
        self._state = state
        self._statistics = statistics
        self._is_wanted = asyncio.Event()
        self._gathered: asyncio.Event | None = None  # set when those who were answered wait again
        self._gather_count = 0  # who waited or was answered when the last sync ended
        self._gather_pause = 0
        self._released_at = 0.0
        self._spent_s = 0.0  # by the last sync
        self._turn = asyncio.Lock()  # guards the one sync under way

    def when_flushed(self, end: int, callback: Callback) -> None:
        """Call back once the log is durable up to `end`: PUT_OK, or FLUSH_DISK_TIMEOUT if that takes too long.

        The call may come before this returns. Ends must not go down from one call to the next.
        """
        assert end <= self._log.max_offset, "commit comes before waiting"
        if end <= self._log.flushed_offset:
            callback(PutStatus.PUT_OK)
        elif self._state.flags & RunningFlag.FLUSH_FAILED:
            callback(PutStatus.FLUSH_DISK_TIMEOUT)
        else:
            self._waiters.append(Waiter(end, self._clock.monotonic() + self.timeout_ms / 1000, callback))
            self._is_wanted.set()
            if self._gathered is not None and len(self._waiters) >= self._gather_count:
                self._gathered.set()
            if self._timer is None:
                self._timer = self._clock.call_later(self.timeout_ms / 1000, self._expire)

    async def wait_flushed(self, end: int) -> PutStatus:
        """The same, to be awaited."""
        outcome: asyncio.Future[PutStatus] = asyncio.get_running_loop().create_future()
        self.when_flushed(end, lambda status: None if outcome.done() else outcome.set_result(status))
        return await outcome

    async def flush(self) -> None:
        """Make everything that is in the log now durable, and release who waited for it. Raises `FlushFailed`."""
        end = int(self._log.max_offset)
        async with self._turn:
            if self._log.flushed_offset >= end:
                return
            end = int(self._log.max_offset)  # what came while another flush ran is taken along
            started = self._clock.monotonic()
            await self._sync(partial(self._log.flush, end))
            self._statistics.flush_count += 1
            self._spent_s = self._clock.monotonic() - started
            self._statistics.flush_ms_max = max(self._statistics.flush_ms_max, int(self._spent_s * 1000))
        self._release()

    async def sync_vouchers(self) -> None:
        """Make everything durable that is vouched for now, written or not. Raises `FlushFailed`."""
        async with self._turn:  # a flush may have taken vouchers, and be about to sync them
            await self._sync(self._log.sync_vouchers)

    async def _sync(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._state.flags & RunningFlag.FLUSH_FAILED:
            raise FlushFailed("an earlier flush of the log failed: check the disk and restart to recover")
        try:
            await work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Exception):
                raise
            raise FlushFailed(f"the log could not be flushed: {error}") from error

    def fail(self, error: BaseException) -> None:
        """A sync failed, of the log or of what belongs to it: from here on nothing is durable any more."""
        try:
            if self._state.raise_flag(RunningFlag.FLUSH_FAILED):
                logger.error(
                    "flush failed: the store takes no more messages; check the disk and restart",
                    extra={"flushed": self._log.flushed_offset, "written": self._log.max_offset, "error": str(error)},
                    exc_info=None if isinstance(error, OSError) else error,
                )
                self.on_failed()
        finally:
            self._give_up()

    async def run(self, *, idle_flush_s: float) -> None:
        """Flush whenever somebody waits, and now and then what nobody waits for. Cancel the task to stop."""
        while True:
            if not self._waiters:
                self._is_wanted.clear()
                try:
                    async with self._clock.timeout(idle_flush_s):
                        await self._is_wanted.wait()
                except TimeoutError:
                    pass
            if len(self._waiters) < self._gather_count and self._spent_s >= GATHER_FROM_S:
                await self._gather()
            try:
                await self.flush()
            except FlushFailed:
                return  # said and logged; nothing is left to do here

    async def _gather(self) -> None:
        """Give those who were just answered a moment to send again, unless that did not help lately."""
        left_s = self._released_at + min(self._spent_s * GATHER_SHARE, GATHER_S_MAX) - self._clock.monotonic()
        if self._gather_pause or left_s <= 0:
            self._gather_pause = max(self._gather_pause - 1, 0)
            return
        self._gathered = asyncio.Event()
        timer = self._clock.call_later(left_s, self._gathered.set)
        try:
            await self._gathered.wait()
        finally:
            timer.cancel()
            self._gathered = None
        if len(self._waiters) < self._gather_count * GATHER_WORTH:
            self._gather_pause = GATHER_PAUSE

    def unflushed_pages(self) -> int:
        return self._log.max_offset // PAGE_BYTES - self._log.flushed_offset // PAGE_BYTES

    def _release(self) -> None:
        before = len(self._waiters)
        self._release_up_to(self._log.flushed_offset)
        self._gather_count = before
        self._released_at = self._clock.monotonic()


def _nobody() -> None:
    """Nobody notes failed syncs."""
