"""Telling every broker who this client is: at the start, with every change, every 30 s, and on each new connection.

Rule 1: a broker knows a client by its connection. A connection that is made anew begins with a heartbeat, or the broker
        would refuse the pulls that follow it.
Rule 2: one round at a time. A change during a round makes another one follow it, so that no change is lost.
Rule 3: a broker that does not answer is logged, once, and asked again with the next round.
Rule 4: a good-bye follows the answer to the last heartbeat. Apache's brokers work on the requests of a connection in
        several threads: a heartbeat that was overtaken would enter the client again, and if its connection is closed by
        then, keep its queues from the rest of the group for two minutes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from skyrocketmq.client.routes import Routes
from skyrocketmq.errors import MQError, broker_error
from skyrocketmq.model import HeartbeatData
from skyrocketmq.net import Client
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import UnregisterClientHeader
from skyrocketmq.wire.headers_codec import encode_header

__all__ = ["Heartbeats"]

logger = logging.getLogger(__name__)


class Heartbeats:
    """Sends heartbeats and good-byes. `describe` gives what they say; None while there is nothing to say."""

    def __init__(
        self,
        describe: Callable[[], HeartbeatData | None],
        client: Client,
        routes: Routes,
        *,
        timeout_s: float,
        tasks: Tasks,
    ) -> None:
        self._describe = describe
        self._client = client
        self._routes = routes
        self._timeout_s = timeout_s
        self._tasks = tasks
        self._round: asyncio.Task[None] | None = None
        self._is_outdated = False
        self._beats: dict[str, set[asyncio.Future[None]]] = {}  # heartbeats without an answer so far, by address
        self._failing: set[str] = set()
        self.versions: dict[str, int] = {}  # of brokers, by address; what they can do depends on it

    async def send(self) -> None:
        """Send a heartbeat to all brokers, one that says what holds now; returns when they have answered."""
        self.send_soon()
        while self._round is not None:
            await asyncio.wait([self._round])

    def send_soon(self) -> None:
        """The same without waiting. On open connections it leaves before anything that is sent later."""
        if self._round is not None:
            self._is_outdated = True
            return
        self._round = self._tasks.start(self._run(), name="heartbeat")

    async def _run(self) -> None:
        try:
            while True:
                self._is_outdated = False
                data = self._describe()
                if data is not None:
                    addresses = self._routes.known_addresses(masters_only=not data.consumer_data_set)
                    await asyncio.gather(*(self._beat(address, encode_body(data)) for address in addresses))
                if not self._is_outdated:
                    return
        finally:
            self._round = None

    async def greet(self, address: str) -> None:
        """The first thing on a new connection to a broker."""
        data = self._describe()
        is_wanted = address in self._routes.known_addresses(masters_only=False)
        if data is not None and is_wanted:
            await self._beat(address, encode_body(data))

    async def _beat(self, address: str, body: bytes) -> None:
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        under_way = self._beats.setdefault(address, set())
        under_way.add(answered)
        try:
            await self._ask(address, body)
        finally:
            under_way.discard(answered)
            answered.set_result(None)

    async def _ask(self, address: str, body: bytes) -> None:
        try:
            answer = await self._client.request(address, Frame(RequestCode.HEART_BEAT, body=body), self._timeout_s)
            if answer.code:
                raise broker_error(answer.code, answer.remark, address=address)
        except MQError as error:
            if address not in self._failing:
                self._failing.add(address)
                logger.warning("broker does not hear this client", extra={"broker": address, "reason": str(error)})
        else:
            self.versions[address] = answer.version
            if address in self._failing:
                self._failing.discard(address)
                logger.info("broker hears this client again", extra={"broker": address})

    def forget(self, address: str) -> None:
        """The broker is gone for good."""
        self._failing.discard(address)
        self.versions.pop(address, None)
        self._beats.pop(address, None)

    async def say_goodbye(
        self, client_id: str, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        """Tell all brokers, slaves too, that this client has left a group. One that cannot be told finds out itself."""
        header = UnregisterClientHeader(client_id, producer_group, consumer_group)
        addresses = self._routes.known_addresses(masters_only=False)
        # A broker that there is no connection to does not know this client: there is nothing to take back.
        await asyncio.gather(*(self._leave(address, header) for address in addresses if self._client.find(address)))

    async def _leave(self, address: str, header: UnregisterClientHeader) -> None:
        if under_way := self._beats.get(address):
            await asyncio.wait(under_way)
        frame = Frame(RequestCode.UNREGISTER_CLIENT, ext=encode_header(header))
        try:
            await self._client.request(address, frame, self._timeout_s)
        except MQError as error:
            logger.info("good-bye not said", extra={"broker": address, "reason": str(error)})
