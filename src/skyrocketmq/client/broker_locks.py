"""Locks on queues, at their brokers: an orderly consumer reads a queue only while it has its lock.

Rule 1: a lock that was confirmed counts here for 30 s, and at the broker for 60 s: this side always gives up first,
        whatever becomes of its clock (`moments`).
Rule 2: all locks are taken anew every 20 s, one request a broker.
Rule 3: a broker that does not answer confirms nothing; what it confirmed before runs out by itself. One that says that
        another member has the lock means it: that member may have consumed what is cached here, so the queue is lost.
Rule 4: a lock that had run out here and is confirmed again may have been another member's meanwhile. If the group is
        further now than this consumer, it was, and the queue is lost just the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.client.moments import Moment
from skyrocketmq.client.offset_store import OffsetStore
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageQueue

__all__ = ["RENEW_FIRST_AFTER_S", "RENEW_INTERVAL_S", "BrokerLocks"]

logger = logging.getLogger(__name__)

RENEW_FIRST_AFTER_S: Final = 1.0
RENEW_INTERVAL_S: Final = 20.0


class BrokerLocks:
    """The locks of one group's member. `on_lost` is called with each queue that another member has, or had."""

    def __init__(
        self, instance: ClientInstance, group: str, *, offsets: OffsetStore, on_lost: Callable[[HeldQueue], object]
    ) -> None:
        self._instance = instance
        self._clock = instance.clock
        self._group = group
        self._offsets = offsets
        self._on_lost = on_lost

    def is_held(self, held: HeldQueue) -> bool:
        """Whether nobody else can be reading a queue."""
        return not held.is_lost and held.cache.has_lock(Moment.now(self._clock))

    async def confirm(self, held: HeldQueue) -> bool:
        """The same, after asking the broker if need be."""
        if not held.is_lost and not self.is_held(held):
            await self._renew_at(held.queue.broker_name, [held])
        return self.is_held(held)

    async def lock(self, queue: MessageQueue) -> bool:
        """Take one queue; False if another member has it, or the broker cannot be asked."""
        return queue in (await self._lock_at(queue.broker_name, [queue]) or ())

    async def renew(self, queues: Collection[HeldQueue]) -> None:
        """Take all queues that are held once more, and note which locks this consumer has.

        Those too that are to go to another member as soon as a handler is done with them: it must not begin before.
        """
        by_broker: dict[str, list[HeldQueue]] = {}
        for held in queues:
            if not held.cache.is_dropped or (held.is_leaving and held.processing.locked()):
                by_broker.setdefault(held.queue.broker_name, []).append(held)
        await asyncio.gather(*(self._renew_at(name, of_broker) for name, of_broker in by_broker.items()))

    async def _renew_at(self, broker_name: str, queues: list[HeldQueue]) -> None:
        asked_at = Moment.now(self._clock)
        locked = await self._lock_at(broker_name, [held.queue for held in queues])
        if locked is None:
            return
        for held in queues:
            if held.queue not in locked:
                self._lost(held, "another member has it")
            elif not held.cache.is_lock_expired(asked_at):
                held.cache.is_locked = True
                held.cache.locked_at = asked_at
            else:
                await self._regain(held, asked_at)

    async def _regain(self, held: HeldQueue, asked_at: Moment) -> None:
        try:
            stored = await self._instance.calls.query_offset(self._group, held.queue)
        except MQError as error:
            logger.info("lock not regained", extra={"queue": str(held.queue), "reason": str(error)})
            return
        known = self._offsets.find(held.queue)
        if stored is not None and (known is None or stored > known):
            self._lost(held, "another member had it")
        else:
            held.cache.is_locked = True
            held.cache.locked_at = asked_at

    def _lost(self, held: HeldQueue, reason: str) -> None:
        if not held.is_lost and (not held.cache.is_dropped or held.is_leaving):
            logger.info("lock lost", extra={"group": self._group, "queue": str(held.queue), "reason": reason})
            held.cache.is_locked = False
            self._on_lost(held)

    async def _lock_at(self, broker_name: str, queues: list[MessageQueue]) -> frozenset[MessageQueue] | None:
        """The queues that the broker grants; None if it could not be asked."""
        instance = self._instance
        address = instance.routes.master(broker_name)
        if address is None:
            return None
        try:
            return await instance.calls.lock(instance.client_id, self._group, tuple(queues), address=address)
        except MQError as error:
            logger.info("queues not locked", extra={"broker": broker_name, "reason": str(error)})
            return None

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Give queues back, so that the next member need not wait until the locks run out."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        await asyncio.gather(*(self._unlock_at(name, of_broker) for name, of_broker in by_broker.items()))

    async def _unlock_at(self, broker_name: str, queues: list[MessageQueue]) -> None:
        instance = self._instance
        address = instance.routes.master(broker_name)
        if address is None:
            return
        try:
            await instance.calls.unlock(instance.client_id, self._group, tuple(queues), address=address)
        except MQError as error:
            logger.info("queues not unlocked", extra={"broker": broker_name, "reason": str(error)})
