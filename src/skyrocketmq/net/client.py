"""Connections to servers by address: one for each, made when it is first needed, made again when it is lost.

Rule 1: a call has one deadline; connecting, waiting for room and waiting for the answer all count against it.
Rule 2: an address that failed is left alone for a while, longer each time (`backoff_s`). A request during that
        time fails at once, so that its caller can try another server; `connect` waits and tries until its deadline.
Rule 3: a connection that was lost before it brought a single byte counts as a failure too: a server that accepts and
        hangs up would otherwise be dialled in a tight loop.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from skyrocketmq.errors import ConnectFailed, NetError
from skyrocketmq.hot.sends import SendAnswer
from skyrocketmq.net.addresses import Address, parse_address
from skyrocketmq.net.answers import answers_first
from skyrocketmq.net.connection import Connection, ConnectionSetup, Request, frame_of
from skyrocketmq.net.dispatch import Dispatcher
from skyrocketmq.net.options import ClientOptions, backoff_s
from skyrocketmq.net.rest import Budget
from skyrocketmq.net.stream import close_all, dial
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.net.tls import ClientTls, TlsSession
from skyrocketmq.ports import Clock, Link, SystemChance, SystemClock, TcpLink
from skyrocketmq.wire.frames import Frame

__all__ = ["Client", "RequestHook"]

logger = logging.getLogger(__name__)

RequestHook = Callable[[str, Frame], object]
Listener = Callable[[Connection], object]


class _Target:
    """What is known about one address."""

    __slots__ = ("address", "attempt", "connection", "failure_count", "last_error", "next_try_at")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connection: Connection | None = None
        self.attempt: asyncio.Task[None] | None = None  # one at a time, for all who wait
        self.failure_count = 0  # in a row
        self.next_try_at = 0.0
        self.last_error = ""


class Client:
    """A pool of connections by address. Requests of servers on them go to `dispatcher`.

    `before_request` is called with the address and the frame of each request before it is sent: that is where requests
    are signed. `chance` gives the random numbers of the back-off.
    """

    def __init__(
        self,
        dispatcher: Dispatcher | None = None,
        *,
        clock: Clock | None = None,
        link: Link | None = None,
        options: ClientOptions | None = None,
        tls: ClientTls | None = None,
        before_request: RequestHook | None = None,
        on_open: Listener | None = None,
        on_close: Listener | None = None,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._link = link or TcpLink()
        self._options = options or ClientOptions()
        self._tls = tls
        self._before_request = before_request
        self._on_open = on_open
        self._on_close = on_close
        self._chance = chance or SystemChance().random
        self._tasks = Tasks()
        self._targets: dict[str, _Target] = {}
        self._connections: dict[Connection, _Target] = {}
        self._is_closed = False
        self._setup = ConnectionSetup(
            feed=answers_first((dispatcher or Dispatcher()).feed),
            clock=self._clock,
            tasks=self._tasks,
            incomplete=Budget(self._options.incomplete_bytes_max),
            options=self._options,
            on_close=self._lost,
            pause_reading_when_full=False,
            close_if_timeout=self._options.close_if_timeout,
            silent_s=self._options.silent_s,
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(self, address: str, frame: Frame, timeout_s: float) -> Frame:
        """Send a request and wait for the answer, whatever its code. Raises a `NetError`; see `Connection.call`."""
        return frame_of(await self.call(address, frame, timeout_s))

    def call(self, address: str, request: Request, timeout_s: float) -> Coroutine[Any, Any, Frame | SendAnswer]:
        """Send a request and wait for the answer as it was read, whatever its code.

        A plain function that gives back a coroutine to await: over an open connection that is the connection's own, for
        every step between costs a sender of many messages.
        """
        target = self._targets.get(address)
        if target is not None and self._before_request is None:
            connection = target.connection
            if connection is not None and not connection.is_closed:
                return connection.call(request, timeout_s)
        return self._call(address, request, timeout_s)

    async def _call(self, address: str, request: Request, timeout_s: float) -> Frame | SendAnswer:
        connection = self.find(address)
        if connection is None:
            deadline = self._clock.monotonic() + timeout_s
            connection = await self._connect_once(address, timeout_s)
            timeout_s = deadline - self._clock.monotonic()
        if self._before_request is not None:
            request = request.frame()
            self._before_request(address, request)
        return await connection.call(request, timeout_s)

    async def oneway(self, address: str, frame: Frame, timeout_s: float) -> None:
        """Send a request that has no answer; wait for a connection and for room, but not for the bytes to leave."""
        connection = self.find(address)
        if connection is None:
            deadline = self._clock.monotonic() + timeout_s
            connection = await self._connect_once(address, timeout_s)
            timeout_s = deadline - self._clock.monotonic()
        if self._before_request is not None:
            self._before_request(address, frame)
        await connection.oneway(frame, timeout_s)

    async def connect(self, address: str, timeout_s: float) -> Connection:
        """The connection to an address, trying again after each failure as the back-off allows, until the deadline."""
        deadline = self._clock.monotonic() + timeout_s
        while True:
            remaining_s = deadline - self._clock.monotonic()
            try:
                return self.find(address) or await self._connect_once(address, remaining_s)
            except ConnectFailed:
                wait_s = self._target(address).next_try_at - self._clock.monotonic()
                if self._clock.monotonic() + wait_s >= deadline:
                    raise
                await self._clock.sleep(max(0.0, wait_s))

    def find(self, address: str) -> Connection | None:
        """The open connection to an address, if there is one."""
        target = self._targets.get(address)
        if target is None or target.connection is None or target.connection.is_closed:
            return None
        return target.connection

    def address_of(self, connection: Connection) -> str | None:
        """The address that an open connection was asked for by."""
        return next((text for text, target in self._targets.items() if target.connection is connection), None)

    def drop(self, address: str) -> None:
        """Close the connection to an address and forget its failures: it is gone for good, or has changed."""
        target = self._targets.pop(address, None)
        if target is not None and target.attempt is not None:
            target.attempt.cancel()
        if target is not None and target.connection is not None:
            target.connection.close("no longer used")

    @property
    def addresses(self) -> list[str]:
        """The addresses that have an open connection."""
        return [address for address in self._targets if self.find(address) is not None]

    async def close(self, grace_s: float | None = None) -> None:
        """Close every connection; requests under way fail with `ConnectionLost`. Nothing is left when this returns."""
        self._is_closed = True
        for target in self._targets.values():
            if target.attempt is not None:
                target.attempt.cancel()
        for connection in self._connections:
            connection.pause_reading()
        await self._tasks.finish(clock=self._clock, grace_s=self._options.grace_s if grace_s is None else grace_s)
        await close_all(self._connections.keys(), "the client is closing")

    # ------------------------------------------------------------------------------------------------------ connecting

    def _target(self, address: str) -> _Target:
        target = self._targets.get(address)
        if target is None:
            target = self._targets[address] = _Target(parse_address(address))
        return target

    async def _connect_once(self, address: str, timeout_s: float) -> Connection:
        """Join the attempt that is under way, or start one unless the address is to be left alone for now."""
        if self._is_closed:
            raise NetError("the client is closed")
        target = self._target(address)
        attempt = target.attempt
        if attempt is None:
            wait_s = target.next_try_at - self._clock.monotonic()
            if wait_s > 0:
                raise ConnectFailed(f"{target.last_error}; {target.failure_count} failures, next try in {wait_s:.1f} s")
            context = None if self._tls is None else self._tls.context()
            attempt = target.attempt = self._tasks.start(self._attempt(target, context), name=f"connect {address}")
        try:
            async with self._clock.timeout(timeout_s):
                # Others may wait for the same attempt, and its connection will be of use anyway: it is not cancelled
                # because this call gives up.
                await asyncio.wait([attempt])
        except TimeoutError:
            raise ConnectFailed(f"no connection to {address} within {timeout_s:g} s") from None
        if attempt.cancelled():
            raise ConnectFailed(f"no connection to {address}: it is no longer wanted")
        if target.connection is None or target.connection.is_closed:
            raise ConnectFailed(target.last_error)
        return target.connection

    async def _attempt(self, target: _Target, context: ssl.SSLContext | None) -> None:
        """Dial once; the target says afterwards whether there is a connection or an error."""
        try:
            connection = await self._dial(target.address, context)
        except TimeoutError:
            self._failed(target, f"no connection to {target.address} within {self._options.connect_timeout_s:g} s")
        except ConnectFailed as error:
            self._failed(target, str(error))
        except OSError as error:
            self._failed(target, f"no connection to {target.address}: {error.strerror or error}")
        else:
            target.connection = connection
            self._connections[connection] = target
            if connection.is_closed:
                self._lost(connection)
            elif self._on_open is not None:
                self._on_open(connection)
        finally:
            target.attempt = None

    async def _dial(self, address: Address, context: ssl.SSLContext | None) -> Connection:
        session = None if context is None else TlsSession(context, server_side=False, hostname=address.host)
        timeout_s = self._options.connect_timeout_s
        connection = Connection(self._setup, tls=session)
        return await dial(connection, address, link=self._link, clock=self._clock, timeout_s=timeout_s)

    def _failed(self, target: _Target, error: str) -> None:
        target.failure_count += 1
        target.last_error = error
        wait_s = backoff_s(target.failure_count, chance=self._chance(), options=self._options)
        target.next_try_at = self._clock.monotonic() + wait_s
        logger.info("connect failed", extra={"reason": error, "failures": target.failure_count, "wait_s": wait_s})

    def _lost(self, connection: Connection) -> None:
        target = self._connections.pop(connection, None)
        if target is None:
            return  # it was lost before it was open: the attempt has failed, and says so
        if target.connection is connection:  # one that lingers while closing may have a successor already
            target.connection = None
            if connection.has_received:
                target.failure_count = 0
            else:
                self._failed(target, f"the connection to {target.address} was lost: {connection.close_reason}")
        if self._on_close is not None:
            self._on_close(connection)
