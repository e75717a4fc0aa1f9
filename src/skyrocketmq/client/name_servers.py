"""The name servers of a client: which they are, and how to ask one of them.

Rule 1: one name server is used until it fails, then the next; the list is shuffled, so that clients spread over it.
Rule 2: a question has one deadline. Each server that is still to be tried has its share of what is left, so that one
        that hangs does not use it all up.
Rule 3: name servers do not talk to each other. That a topic is unknown is believed when all of them say so.
"""

from __future__ import annotations

import logging
from typing import Final

from skyrocketmq.client.settings import ClientSettings
from skyrocketmq.errors import ClientError, ConnectFailed, NetError, NoRoute, ProtocolError, broker_error
from skyrocketmq.model import TopicRoute
from skyrocketmq.net import Client
from skyrocketmq.net.address_server import fetch_addresses
from skyrocketmq.ports import Chance, Clock, Link
from skyrocketmq.wire.bodies_routes import decode_cluster_info, decode_route
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame

__all__ = ["REFRESH_FIRST_AFTER_S", "REFRESH_INTERVAL_S", "NameServers"]

logger = logging.getLogger(__name__)

REFRESH_FIRST_AFTER_S: Final = 10.0
REFRESH_INTERVAL_S: Final = 120.0


class NameServers:
    """The list of addresses, given or from the address server, and questions to them."""

    def __init__(self, settings: ClientSettings, client: Client, *, clock: Clock, link: Link, chance: Chance) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._link = link
        self._chance = chance
        self._current = 0
        self.addresses: tuple[str, ...] = ()
        if settings.namesrv:
            self._set(settings.namesrv)

    @property
    def are_found(self) -> bool:
        """Whether the list comes from an address server, and is to be refreshed."""
        return not self._settings.namesrv

    async def find(self) -> None:
        """Have a list, or raise a `ClientError` that says how to give one."""
        if self.addresses:
            return
        try:
            await self.refresh()
        except NetError as error:
            raise ClientError(f"no name servers: {error}; pass namesrv='host:9876', or set NAMESRV_ADDR") from error

    async def refresh(self) -> None:
        """Ask the address server for the list; an empty answer changes nothing."""
        url = self._settings.address_server_url
        found = await fetch_addresses(url, link=self._link, clock=self._clock)
        if not found and not self.addresses:
            raise NetError(f"the address server {url} lists no name server")
        if found and set(found) != set(self.addresses):
            logger.info("name servers changed", extra={"before": list(self.addresses), "after": found})
            for address in set(self.addresses) - set(found):
                self._client.drop(address)
            self._set(tuple(dict.fromkeys(found)))

    def _set(self, addresses: tuple[str, ...]) -> None:
        self.addresses = tuple(self._chance.sample(addresses, len(addresses)))
        self._current = 0

    async def get_route(self, topic: str, *, timeout_s: float) -> TopicRoute:
        """The route of a topic. Raises `NoRoute` if all name servers say that they do not know it, `ConnectFailed` if
        those that could be asked do not and others could not be asked."""
        deadline = self._clock.monotonic() + timeout_s
        addresses = self.addresses
        unreached: dict[str, str] = {}
        for tried_count in range(len(addresses)):
            index = (self._current + tried_count) % len(addresses)
            address = addresses[index]
            share_s = (deadline - self._clock.monotonic()) / (len(addresses) - tried_count)
            try:
                route = await self._ask(address, topic, share_s)
            except (NetError, ProtocolError) as error:
                unreached[address] = str(error)
                continue
            if self.addresses is addresses and len(unreached) == tried_count:
                self._current = index  # the servers before it did not answer: this one is used from now on
            if route is not None:
                return route
        raise _no_route(topic, addresses, unreached)

    async def find_broker_names(self, *, timeout_s: float) -> list[str]:
        """The brokers that are registered, for a text about them; empty if no name server can be asked."""
        for address in self.addresses:
            try:
                answer = await self._client.request(address, Frame(RequestCode.GET_BROKER_CLUSTER_INFO), timeout_s)
                return sorted(decode_cluster_info(answer.body).broker_addr_table)
            except (NetError, ProtocolError):
                continue
        return []

    async def _ask(self, address: str, topic: str, timeout_s: float) -> TopicRoute | None:
        question = Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
        answer = await self._client.request(address, question, timeout_s)
        if answer.code == ResponseCode.SUCCESS:
            return decode_route(answer.body)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise NetError(str(broker_error(answer.code, answer.remark, address=address)))


def _no_route(topic: str, addresses: tuple[str, ...], unreached: dict[str, str]) -> NoRoute | ConnectFailed:
    asked = [address for address in addresses if address not in unreached]
    failures = "; ".join(f"{address}: {reason}" for address, reason in unreached.items())
    if not asked:
        return ConnectFailed(f"no name server could be asked about topic {topic}. {failures}")
    names = f"{', '.join(asked[:-1])} and {asked[-1]}" if len(asked) > 1 else asked[0]
    knows = "which does not know it" if len(asked) == 1 else "neither knows it" if len(asked) == 2 else "none knows it"
    text = f"no route for topic {topic}: asked name server{'s' if len(asked) > 1 else ''} {names}, {knows}"
    if unreached:
        return ConnectFailed(f"{text}; others could not be asked. {failures}")
    return NoRoute(text)
