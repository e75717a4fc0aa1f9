"""Where the topics and brokers are: routes from the name servers, kept and refreshed.

Rule 1: what was once learnt stays until something else is learnt. A name server that is gone, or that has forgotten a
        topic because its brokers are down, takes nothing away.
Rule 2: a topic that somebody uses is refreshed every 30 s. One that is unsettled (unknown, taken from the template of
        automatic creation, or short of a broker that it had) is looked after more often, every second at first, so that
        a broker that comes back is in use again soon. One that was only suspected, or that has just become known (its
        brokers register it one after the other), is settled after half a minute.
Rule 3: one question a topic at a time, however many wait for its answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from skyrocketmq.client.name_servers import NameServers
from skyrocketmq.client.route_rules import (
    Addresses,
    addresses_of,
    is_same_route,
    readable_queues,
    template_route,
    writable_queues,
)
from skyrocketmq.errors import MQError, NoRoute, own_copy
from skyrocketmq.model import MASTER_ID, MessageQueue, TopicRoute
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.ports import Chance, Clock

__all__ = ["UNSETTLED_INTERVAL_S", "Routes"]

logger = logging.getLogger(__name__)

UNSETTLED_INTERVAL_S: Final = 1.0
UNSETTLED_SHARE: Final = 4  # what has been unsettled for a minute is asked for every fifteen seconds
DEMAND_INTERVAL_S: Final = 1.0  # refreshes because something failed, for one topic

ChangeListener = Callable[[str], object]


class Routes:
    """The route table of a client instance. `listeners` are called with each topic whose route has changed."""

    def __init__(
        self, name_servers: NameServers, *, clock: Clock, interval_s: float, timeout_s: float, tasks: Tasks
    ) -> None:
        self._name_servers = name_servers
        self._clock = clock
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._tasks = tasks
        self._routes: dict[str, TopicRoute] = {}
        self._addresses: dict[str, dict[int, str]] = {}
        self._writable: dict[str, tuple[MessageQueue, ...]] = {}
        self._readable: dict[str, tuple[MessageQueue, ...]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._asked_at: dict[str, float] = {}
        self._unsettled: dict[str, float] = {}  # since when
        self._missing: dict[str, frozenset[str]] = {}  # brokers that a topic had and has no more
        self._failures: dict[str, MQError] = {}
        self.listeners: list[ChangeListener] = []

    # ------------------------------------------------------------------------------------------------------- questions

    def find(self, topic: str) -> TopicRoute | None:
        """The route as it is known now."""
        return self._routes.get(topic)

    def writable(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that can be written, as known now; also those that automatic creation would make."""
        return self._writable.get(topic, ())

    def readable(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """The queues that can be read, as known now; None if the topic is not known."""
        return self._readable.get(topic)

    async def get_writable(self, topic: str, *, template: str, template_queue_nums: int) -> tuple[MessageQueue, ...]:
        """The queues that can be written; asks if it must, and turns to the template of automatic creation.

        Raises `NoRoute` or a `NetError`, with a text that says who was asked and what to do.
        """
        queues = self._writable.get(topic)
        if queues:
            return queues
        try:
            await self.refresh(topic)
        except NoRoute as error:
            await self._take_template(topic, template, template_queue_nums, error)
        queues = self._writable.get(topic)
        if queues:
            return queues
        route = self._routes.get(topic)
        if route is None:
            raise NoRoute(
                f"no queue of topic {topic} can be made after the template {template}: its brokers have no master now, "
                "or its permission does not allow writing; create the topic"
            )
        raise NoRoute(
            f"no queue of topic {topic} can be written: its brokers "
            f"({', '.join(sorted(addresses_of(route))) or 'none'}) have no master now, or the topic's "
            "permission does not allow it"
        )

    async def _take_template(self, topic: str, template: str, queue_nums: int, unknown: NoRoute) -> None:
        try:
            await self.refresh(template)
        except NoRoute:
            brokers = await self._name_servers.find_broker_names(timeout_s=self._timeout_s)
            where = " and ".join(brokers) or "all brokers, for none is registered"
            raise NoRoute(
                f"{unknown}; automatic creation (of {template}) is off on {where}: create the topic, or set "
                "autoCreateTopicEnable=true on a broker"
            ) from None
        route = template_route(self._routes[template], queue_nums=queue_nums)
        if topic not in self._routes:  # it may have been made while we asked
            self._writable[topic] = writable_queues(topic, route)
            self._unsettle(topic)

    async def get_readable(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that can be read; asks if the topic is not known. Raises `NoRoute` or a `NetError`."""
        if topic not in self._readable:
            await self.refresh(topic)
        return self._readable[topic]

    # --------------------------------------------------------------------------------------------------------- brokers

    def addresses(self, broker_name: str) -> Addresses:
        """The addresses of a broker name by id; empty if it is not known."""
        return self._addresses.get(broker_name, {})

    def master(self, broker_name: str) -> str | None:
        return self._addresses.get(broker_name, {}).get(MASTER_ID)

    def any_broker(self, topic: str, chance: Chance) -> str | None:
        """The address of some broker of a topic."""
        return next(iter(self.any_brokers(topic, chance)), None)

    def any_brokers(self, topic: str, chance: Chance) -> list[str]:
        """One address of each broker of a topic, in any order: its master's, else that of one of its slaves."""
        route = self._routes.get(topic)
        brokers = [broker for broker in route.broker_datas if broker.broker_addrs] if route else []
        chance.shuffle(brokers)
        return [broker.master_address or chance.choice(list(broker.broker_addrs.values())) for broker in brokers]

    def known_addresses(self, *, masters_only: bool) -> list[str]:
        """The addresses of all brokers."""
        return [
            address
            for addresses in self._addresses.values()
            for broker_id, address in addresses.items()
            if not masters_only or broker_id == MASTER_ID
        ]

    def drop_offline(self) -> list[str]:
        """Forget addresses that no route has any more, and say which they were."""
        living = {
            address
            for route in self._routes.values()
            for broker in route.broker_datas
            for address in broker.broker_addrs.values()
        }
        dropped: list[str] = []
        for name, addresses in list(self._addresses.items()):
            gone = {broker_id: address for broker_id, address in addresses.items() if address not in living}
            if gone:
                dropped += gone.values()
                self._addresses[name] = {key: value for key, value in addresses.items() if key not in gone}
                if not self._addresses[name]:
                    del self._addresses[name]
        return dropped

    # ------------------------------------------------------------------------------------------------------ refreshing

    async def refresh(self, topic: str) -> None:
        """Ask for the route of a topic now. Raises what the name servers' answer means, old routes stay."""
        asking = self._asking.get(topic)
        if asking is None:
            asking = self._asking[topic] = self._tasks.start(self._ask(topic), name=f"route of {topic}")
        await asyncio.wait([asking])
        if asking.cancelled():
            raise NoRoute(f"the client is closing; the route of topic {topic} was not asked for")
        failure = self._failures.get(topic)
        if failure is not None:
            raise own_copy(failure)  # one for each who waits

    async def _ask(self, topic: str) -> None:
        self._asked_at[topic] = self._clock.monotonic()
        try:
            route = await self._name_servers.get_route(topic, timeout_s=self._timeout_s)
        except MQError as error:
            self._failures[topic] = error
            self._unsettle(topic)
        else:
            self._failures.pop(topic, None)
            self._learn(topic, route)
        finally:
            del self._asking[topic]

    async def refresh_all(self, topics: Iterable[str]) -> None:
        """Refresh these topics; what fails is logged and tried again with the next round."""
        await asyncio.gather(*(self._refresh_quietly(topic) for topic in topics))

    async def refresh_unsettled(self, topics: Iterable[str]) -> None:
        """Refresh those of these topics for which a change is expected."""
        now = self._clock.monotonic()
        due = [
            topic
            for topic, since in self._unsettled.items()
            if now - self._asked_at.get(topic, since) >= min((now - since) / UNSETTLED_SHARE, self._interval_s)
        ]
        await self.refresh_all(set(due).intersection(topics))

    async def _refresh_quietly(self, topic: str) -> None:
        try:
            await self.refresh(topic)
        except MQError as error:
            logger.info("route not refreshed", extra={"topic": topic, "reason": str(error)})

    def suspect(self, topic: str) -> None:
        """A broker of this topic does not answer: see soon whether the route has changed."""
        self._unsettle(topic)
        due = self._asked_at.get(topic, float("-inf")) + DEMAND_INTERVAL_S <= self._clock.monotonic()
        if due and topic not in self._asking:
            self._asking[topic] = self._tasks.start(self._ask(topic), name=f"route of {topic}")

    def _unsettle(self, topic: str) -> None:
        self._unsettled.setdefault(topic, self._clock.monotonic())

    def _settle(self, topic: str) -> None:
        """A topic has the route it had. After a while of that it was suspected for nothing, unless a broker is gone."""
        since = self._unsettled.get(topic)
        is_old = since is not None and self._clock.monotonic() - since >= self._interval_s
        if is_old and not self._missing.get(topic):
            del self._unsettled[topic]

    def _learn(self, topic: str, route: TopicRoute) -> None:
        before = self._routes.get(topic)
        if before is not None and is_same_route(before, route):
            self._settle(topic)
            return
        self._routes[topic] = route
        self._addresses.update(addresses_of(route))
        self._writable[topic] = writable_queues(topic, route)
        self._readable[topic] = readable_queues(topic, route)
        brokers_before = addresses_of(before).keys() if before is not None else frozenset[str]()
        missing_before = self._missing.get(topic, frozenset[str]())
        missing = self._missing[topic] = (missing_before | brokers_before) - addresses_of(route).keys()
        is_new = before is None and topic in self._unsettled
        if missing_before and not missing:
            del self._unsettled[topic]
        elif is_new or missing - missing_before:
            self._unsettled[topic] = self._clock.monotonic()
        logger.info("route changed", extra={"topic": topic, "brokers": sorted(addresses_of(route))})
        for listener in list(self.listeners):
            listener(topic)
