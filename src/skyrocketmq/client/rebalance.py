"""Which queues this consumer should hold, and getting from those it holds to those.

Rule 1: the members of a group ask a broker who they are, and compute the division each for itself (`allocation`).
Rule 2: a round runs every 20 s, when a broker says that the group has changed, and when a topic's queues have. A round
        that could not be finished (no route, no answer) is repeated soon, and changes nothing for the topics it missed.
Rule 3: a broker that does not list this consumer has not heard of it yet: it gets a heartbeat, and the queues are
        kept. To let go of them would stop the consumption of a topic because one broker was restarted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Protocol

from skyrocketmq.client.allocation import AllocationStrategy, share_of
from skyrocketmq.client.instance import ClientInstance
from skyrocketmq.errors import MQError, NoRoute
from skyrocketmq.model import MessageQueue

__all__ = ["QueueHolder", "Rebalancer"]

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 20.0
REPEAT_FIRST_S: Final = 1.0  # after a round that could not be finished; doubled with each, up to the interval


class QueueHolder(Protocol):
    """The consumer whose queues these are."""

    def shared_topics(self) -> Collection[str]:
        """The topics whose queues are divided, the retry topic too; names on the wire."""
        ...

    def held_queues(self) -> Collection[MessageQueue]: ...

    def is_stuck(self, queue: MessageQueue) -> bool:
        """Whether a queue has to be let go and taken again, because nothing moves in it."""
        ...

    async def give_up(self, queue: MessageQueue) -> bool:
        """Let a queue go; False if that is not possible yet."""
        ...

    async def take_over(self, queue: MessageQueue) -> bool:
        """Begin with a queue; False if that is not possible yet."""
        ...

    def division_changed(self, topic: str, *, queues: Collection[MessageQueue], held: Collection[MessageQueue]) -> None:
        """Queues of the topic have come or gone."""
        ...


class Rebalancer:
    """The rounds of one consumer. `run` is its task."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        holder: QueueHolder,
        *,
        strategy: AllocationStrategy,
        is_broadcasting: bool,
    ) -> None:
        self._instance = instance
        self._clock = instance.clock
        self._group = group
        self._holder = holder
        self._strategy = strategy
        self._is_broadcasting = is_broadcasting
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Something has changed: have a round now."""
        self._wanted.set()

    async def run(self) -> None:
        """Rounds for ever."""
        unfinished_count = 0
        while True:
            self._wanted.clear()
            try:
                is_finished = await self.rebalance()
            except Exception:
                logger.exception("rebalance failed", extra={"group": self._group})
                is_finished = False
            unfinished_count = 0 if is_finished else unfinished_count + 1
            wait_s = INTERVAL_S
            if unfinished_count:
                wait_s = min(REPEAT_FIRST_S * 2 ** min(unfinished_count - 1, 10), INTERVAL_S)
            try:
                async with self._clock.timeout(wait_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def rebalance(self) -> bool:
        """One round; whether all of it could be done."""
        topics = sorted(self._holder.shared_topics())
        is_finished = True
        for topic in topics:
            if not await self._rebalance_topic(topic):
                is_finished = False
        for queue in list(self._holder.held_queues()):
            if queue.topic not in topics and not await self._holder.give_up(queue):
                is_finished = False
        return is_finished

    async def _rebalance_topic(self, topic: str) -> bool:
        queues = self._instance.routes.readable(topic)
        if queues is None:
            # Nothing to wait for: the route is looked after by the instance, and its change begins another round.
            self._instance.routes.suspect(topic)
            return True
        try:
            share = set(queues if self._is_broadcasting else await self._find_share(topic, queues))
        except MQError as error:
            logger.info("topic not rebalanced", extra={"group": self._group, "topic": topic, "reason": str(error)})
            self._instance.routes.suspect(topic)
            return False
        return await self._move_to(topic, queues, share)

    async def _find_share(self, topic: str, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        instance = self._instance
        address = instance.routes.any_broker(topic, instance.chance)
        if address is None:
            raise NoRoute(f"no broker of topic {topic} is known")
        members = await instance.calls.client_ids(self._group, address=address)
        if instance.client_id not in members:
            instance.heartbeats.send_soon()
            raise NoRoute(f"the broker {address} does not list this client in the group yet")
        return share_of(instance.client_id, queues, members, strategy=self._strategy)

    async def _move_to(self, topic: str, queues: Collection[MessageQueue], share: set[MessageQueue]) -> bool:
        holder = self._holder
        held = [queue for queue in holder.held_queues() if queue.topic == topic]
        is_finished = True
        is_changed = False
        for queue in held:
            if queue not in share or holder.is_stuck(queue):
                if await holder.give_up(queue):
                    is_changed = True
                else:
                    is_finished = False
        missing = sorted(share.difference(holder.held_queues()))
        # At once, not one after the other: each may have to ask its broker for offsets.
        taken = await asyncio.gather(*(holder.take_over(queue) for queue in missing))
        is_changed |= any(taken)
        is_finished &= all(taken)
        if is_changed:
            now_held = [queue for queue in holder.held_queues() if queue.topic == topic]
            logger.info(
                "queues divided",
                extra={"group": self._group, "topic": topic, "held": len(now_held), "of": len(queues)},
            )
            holder.division_changed(topic, queues=queues, held=now_held)
        return is_finished
