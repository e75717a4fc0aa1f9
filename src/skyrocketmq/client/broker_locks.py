"""Locks on queues, at their brokers: an orderly consumer reads a queue only while it has its lock.

Rule 1: a lock that was confirmed counts here for 30 s, and at the broker for 60 s: this side always gives up first.
Rule 2: all locks are taken anew every 20 s, one request a broker.
Rule 3: a broker that does not answer confirms nothing; what it confirmed before runs out by itself. One that says that
        another member has the lock means it: that member may have consumed what is cached here, so the queue is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from skyrocketmq.client.held_queue import HeldQueue
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageQueue

__all__ = ["RENEW_FIRST_AFTER_S", "RENEW_INTERVAL_S", "BrokerLocks"]

logger = logging.getLogger(__name__)

RENEW_FIRST_AFTER_S: Final = 1.0
RENEW_INTERVAL_S: Final = 20.0


class BrokerLocks:
    """The locks of one group's member. `on_lost` is called with each queue whose lock another member has."""

    def __init__(self, instance: ClientInstance, group: str, *, on_lost: Callable[[HeldQueue], object]) -> None:
        self._instance = instance
        self._group = group
        self._on_lost = on_lost

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
        locked = await self._lock_at(broker_name, [held.queue for held in queues])
        if locked is None:
            return
        for held in queues:
            if held.queue in locked:
                held.cache.is_locked = True
                held.cache.last_lock_ms = self._instance.clock.now_ms()
            elif not held.cache.is_dropped or held.is_leaving:
                logger.info("lock lost", extra={"group": self._group, "queue": str(held.queue)})
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
