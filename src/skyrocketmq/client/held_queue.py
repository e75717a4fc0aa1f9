"""A queue that a consumer holds: its messages, where its next pull begins, and the tasks that work on it."""

from __future__ import annotations

import asyncio

from skyrocketmq.client.message_cache import MessageCache
from skyrocketmq.client.moments import Moment
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageQueue, MessageView
from skyrocketmq.model.names import is_retry_topic
from skyrocketmq.ports import Clock

__all__ = ["HeldQueue"]


class HeldQueue:
    """One queue from its taking over to its giving up.

    `processing` is held while a handler of an orderly consumer runs: the queue is given up only when it is free.
    """

    __slots__ = (
        "_room",
        "_room_count",
        "cache",
        "done",
        "done_call_count",
        "done_s",
        "error",
        "is_introduced",
        "is_leaving",
        "is_lost",
        "is_of_one_topic",
        "next_offset",
        "processing",
        "pulling",
        "queue",
        "queue_end",
        "working",
    )

    def __init__(self, queue: MessageQueue, *, next_offset: int, now: Moment) -> None:
        self.queue = queue
        self.cache = MessageCache(now)
        self.next_offset = next_offset
        self.queue_end: int | None = None  # as its broker said with the last pull
        self.error: MQError | None = None  # of the last pull, until the next one is under way
        self.is_introduced = True  # False: its broker did not know this consumer when it was asked last
        self.is_leaving = False
        self.is_lost = False  # another member has it, or had it: what is known here of its offset is out of date
        self.is_of_one_topic = not is_retry_topic(queue.topic)
        self.done: list[MessageView] = []  # consumed, and not yet taken from the cache
        self.done_call_count = 0
        self.done_s = 0.0
        self.processing = asyncio.Lock()
        self.pulling: asyncio.Task[None] | None = None
        self.working: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._room_count = 0

    async def wait_for_room(self, count: int, seconds: float, *, clock: Clock) -> None:
        """Wait until no more than `count` messages are left, or for a little while."""
        self._room_count = count
        self._room = asyncio.get_running_loop().create_future()
        try:
            async with clock.timeout(seconds):
                await self._room
        except TimeoutError:
            pass
        finally:
            self._room = None

    def make_room(self) -> None:
        """Messages have been finished: those who wait may look again."""
        if self._room is not None and self.cache.count <= self._room_count and not self._room.done():
            self._room.set_result(None)

    def leave(self) -> None:
        """About to go to another member: nothing is begun any more, but a handler that runs in order may finish, and
        its result counts, for until the queue is let go nobody else reads it."""
        is_abandoned = self.cache.is_dropped and not self.is_leaving
        self.drop()
        self.is_leaving = not is_abandoned

    def lose(self) -> None:
        """Gone to another member already."""
        self.is_lost = True
        self.drop()

    def drop(self) -> None:
        """No longer this consumer's: what is under way is let lie. Dropping twice is harmless."""
        self.is_leaving = False
        self.cache.is_dropped = True
        if self.pulling is not None:
            self.pulling.cancel()
