"""The name servers of a broker: which they are, and how to ask all of them at once.

Each is dealt with on its own: one that is down, or hangs, delays no other. That it cannot be reached is logged once,
and once more when it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import MQError, NetError, broker_error
from skyrocketmq.net import Client
from skyrocketmq.net.address_server import address_server_url, fetch_addresses
from skyrocketmq.ports import Clock, Link
from skyrocketmq.wire.frames import Frame

__all__ = ["NameServers"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class NameServers:
    """The list of addresses, as configured or as the address server last gave it, and requests to them."""

    def __init__(self, config: ConfigHolder[BrokerConfig], client: Client, *, clock: Clock, link: Link) -> None:
        self._config = config
        self._client = client
        self._clock = clock
        self._link = link
        self._failures: dict[str, str] = {}
        self.addresses: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """Follow the configured list, or the address server's if none is configured."""
        found = await self._find()
        if not found and not self._config.current.namesrv_addresses and self._config.current.fetch_namesrv_addresses:
            return  # an address server that is down, or being changed, says nothing: the old list stays
        before, self.addresses = self.addresses, tuple(dict.fromkeys(found))
        for address in set(before) - set(self.addresses):
            self._client.drop(address)
            self._failures.pop(address, None)
        if before and before != self.addresses:
            logger.info("name servers changed", extra={"before": list(before), "after": list(self.addresses)})

    async def _find(self) -> Sequence[str]:
        config = self._config.current
        if config.namesrv_addresses or not config.fetch_namesrv_addresses:
            return config.namesrv_addresses
        url = address_server_url(config.address_server_domain, config.address_server_sub_group)
        try:
            return await fetch_addresses(url, link=self._link, clock=self._clock)
        except NetError as error:
            logger.warning("address server failed", extra={"url": url, "reason": str(error)})
            return ()

    def lost(self) -> list[str]:
        """The name servers to which there is no connection: they have forgotten this broker with it."""
        return [address for address in self.addresses if self._client.find(address) is None]

    async def request(self, address: str, frame: Frame, *, timeout_s: float) -> Frame:
        """Ask one of them; raises `BrokerError` if it refuses, or a `NetError`."""
        answer = await self._client.request(address, frame, timeout_s)
        if answer.code:
            raise broker_error(answer.code, answer.remark, address=address)
        return answer

    async def with_each(self, addresses: Sequence[str], work: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Do the same with several of them at a time; the outcomes of those where it worked, in their order."""
        outcomes: dict[str, T] = {}

        async def do(address: str) -> None:
            try:
                outcomes[address] = await work(address)
            except MQError as error:
                self.note(address, error)
            else:
                self.note(address, None)

        async with asyncio.TaskGroup() as group:
            for address in addresses:
                group.create_task(do(address), name=f"name server {address}")
        return {address: outcomes[address] for address in addresses if address in outcomes}

    def note(self, address: str, error: MQError | None) -> None:
        """Log that one cannot be told, and that it can be again, once each."""
        was_failing = address in self._failures
        if error is not None:
            self._failures[address] = str(error)
            if not was_failing:
                logger.warning("name server not reached", extra={"namesrv": address, "reason": str(error)})
        elif was_failing:
            del self._failures[address]
            logger.info("name server reached again", extra={"namesrv": address})
