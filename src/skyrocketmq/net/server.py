"""A listening server: accepts connections, owns them, and ends with none of them open.

Closing goes in this order: accept nothing more; read nothing more; let requests in progress finish within the grace and
their answers leave; close the connections; cancel what is still running. A held answer (a pull that waits for messages)
is its holder's to give up before that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set

from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.net.connection import Connection, ConnectionSetup, Feed
from skyrocketmq.net.dispatch import Dispatcher
from skyrocketmq.net.listeners import bind
from skyrocketmq.net.options import ServerOptions
from skyrocketmq.net.rest import Budget
from skyrocketmq.net.stream import close_all
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.net.tls import ServerTls, TlsMode
from skyrocketmq.net.watched import WatchedConnection
from skyrocketmq.ports import Bound, Clock, Link, SystemClock, TcpLink

__all__ = ["Server"]

logger = logging.getLogger(__name__)

Listener = Callable[[Connection], object]


class Places:
    """The open connections of servers that share one limit: those of a process share its descriptors."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0


class Server:
    """Serves one address. Made by `start`; `async with` closes it.

    server = await Server.start(("127.0.0.1", 0), dispatcher)
    ...
    await server.close()
    """

    def __init__(
        self,
        bound: Bound,
        feed: Feed,
        *,
        clock: Clock,
        options: ServerOptions,
        tls: ServerTls | None,
        on_open: Listener | None,
        on_close: Listener | None,
        places: Places | None,
    ) -> None:
        self._places = places or Places()
        self._clock = clock
        self._options = options
        self._on_open = on_open
        self._on_close = on_close
        self._tasks = Tasks()
        self._connections: dict[Connection, None] = {}  # in the order of their coming
        self._listener: asyncio.AbstractServer | None = None
        self._closing: asyncio.Future[None] | None = None
        self._setup = ConnectionSetup(
            feed=feed,
            clock=clock,
            tasks=self._tasks,
            incomplete=Budget(options.incomplete_bytes_max),
            options=options,
            on_open=self._opened,
            on_close=self._closed,
            server_tls=None if tls is None or tls.mode is TlsMode.DISABLED else tls,
        )
        self.host = bound.host
        self.port = bound.port

    @classmethod
    async def start(
        cls,
        where: Bound | tuple[str, int],
        handler: Dispatcher | Feed,
        *,
        clock: Clock | None = None,
        link: Link | None = None,
        options: ServerOptions | None = None,
        tls: ServerTls | None = None,
        on_open: Listener | None = None,
        on_close: Listener | None = None,
        watch: LoopWatch | None = None,
        places: Places | None = None,
    ) -> Server:
        """Serve an address that is bound, or a host and a port (0 for any). The server owns the address from here on.

        `on_open` and `on_close` are called with each connection. Without `tls`, TLS clients are refused. `watch`
        hears of buffers that take too long. Servers with the same `places` share the limit of connections. Raises
        `NetError` if the port is taken, `ConfigError` if a TLS file cannot be used.
        """
        options = options or ServerOptions()
        link = link or TcpLink()
        bound = bind(*where, link=link, backlog=options.backlog) if isinstance(where, tuple) else where
        try:
            if tls is not None:
                tls.load()
            feed = handler.feed if isinstance(handler, Dispatcher) else handler
            server = cls(
                bound,
                feed,
                clock=clock or SystemClock(),
                options=options,
                tls=tls,
                on_open=on_open,
                on_close=on_close,
                places=places,
            )
            server._listener = await link.listen(server._connection(watch), bound, backlog=options.backlog)
        except BaseException:
            bound.close()
            raise
        logger.info("listening", extra={"host": server.host, "port": server.port})
        return server

    def _connection(self, watch: LoopWatch | None) -> Callable[[], Connection]:
        setup = self._setup
        return (lambda: Connection(setup)) if watch is None else (lambda: WatchedConnection(setup, watch))

    @property
    def connections(self) -> Set[Connection]:
        """The open connections; a view that changes with them."""
        return self._connections.keys()

    @property
    def task_count(self) -> int:
        """Requests that tasks are working on, those of closed connections included."""
        return len(self._tasks)

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _opened(self, connection: Connection) -> None:
        open_count = self._places.taken
        if self._closing is not None or open_count >= self._options.connections_max:
            logger.warning("connection refused", extra={"peer": connection.peer, "open": open_count})
            connection.abort(f"{open_count} connections are open already")
            return
        self._connections[connection] = None
        self._places.taken += 1
        if self._on_open is not None:
            self._on_open(connection)

    def _closed(self, connection: Connection) -> None:
        if connection in self._connections:  # one that was refused was never announced
            del self._connections[connection]
            self._places.taken -= 1
            if self._on_close is not None:
                self._on_close(connection)

    async def close(self, grace_s: float | None = None) -> None:
        """Stop as described above; `grace_s` instead of the option's. Nothing is left when this returns."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(self._options.grace_s if grace_s is None else grace_s))
        await asyncio.shield(self._closing)

    async def _close(self, grace_s: float) -> None:
        assert self._listener is not None
        self._listener.close()
        for connection in list(self._connections):
            connection.pause_reading()
        cancelled_count = await self._tasks.finish(clock=self._clock, grace_s=grace_s)
        if cancelled_count:
            logger.warning("requests cut off by closing", extra={"count": cancelled_count, "grace_s": grace_s})
        await close_all(self._connections.keys(), "the server is closing")
        await self._listener.wait_closed()
        logger.info("closed", extra={"host": self.host, "port": self.port})
