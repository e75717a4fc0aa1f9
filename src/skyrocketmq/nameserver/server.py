"""The name server as a service: a socket, the tables, and two clocks.

    async with NameServer.open(config) as server:
        print(server.address)
        await stop.wait()

What opens last closes first: the file of settings is read, then the port is bound, then the scan starts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from skyrocketmq.access import WATCH_INTERVAL_S, AccountBook
from skyrocketmq.access.files import find_access_file
from skyrocketmq.background import Background
from skyrocketmq.config import ConfigHolder, Loaded, NamesrvConfig
from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.nameserver.access import Identities, NameServerAccess
from skyrocketmq.nameserver.handlers import NameServerHandlers
from skyrocketmq.nameserver.kv_config import KvConfig
from skyrocketmq.nameserver.product_routes import ProductRoutes
from skyrocketmq.nameserver.routes import RouteTables
from skyrocketmq.net import Client, Connection, Dispatcher, Server, bind, declared_by, format_address, register_answers
from skyrocketmq.net.address_server import address_server_url
from skyrocketmq.net.certificate_watch import CertificateWatch
from skyrocketmq.net.configured import server_options, server_tls
from skyrocketmq.net.dispatch import SERVER_HEADER_BYTES_MAX
from skyrocketmq.ports import Chance, Clock, Disk, Link, LocalDisk, SystemChance, SystemClock, TcpLink

__all__ = ["BROKER_SILENT_S", "SCAN_EVERY_S", "SCAN_FIRST_AFTER_S", "NameServer"]

logger = logging.getLogger(__name__)

BROKER_SILENT_S = 120.0  # a broker that says nothing for so long is gone
SCAN_FIRST_AFTER_S = 5.0
SCAN_EVERY_S = 10.0
REPORT_FIRST_AFTER_S = 60.0
REPORT_EVERY_S = 600.0
CERTIFICATE_CHECK_EVERY_S = 1.0
LOOPBACK = ("127.", "::1")


class NameServer:
    """A running name server. Made by `open`, which also ends it."""

    def __init__(self, tables: RouteTables, kv_config: KvConfig, identities: Identities, *, clock: Clock) -> None:
        self.tables = tables
        self.kv_config = kv_config
        self.identities = identities
        self._clock = clock
        self._server: Server | None = None
        self._is_sweeping = False
        self.loop_watch = LoopWatch(clock)
        self.dispatcher = Dispatcher()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: NamesrvConfig | Loaded[NamesrvConfig],
        *,
        host: str | None = None,
        port: int | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
        link: Link | None = None,
        chance: Chance | None = None,
    ) -> AsyncIterator[NameServer]:
        """Serve until the block is left. `host` and `port` go before the configuration's; port 0 takes any free one.

        Raises `NetError` if the port is taken and `ConfigError` if a TLS file cannot be used.
        """
        loaded = config if isinstance(config, Loaded) else Loaded(config, store_path=config.config_store_path)
        clock, link, chance = clock or SystemClock(), link or TcpLink(), chance or SystemChance()
        async with AsyncExitStack() as opened:
            if disk is None:
                disk = LocalDisk()
                opened.callback(disk.close)
            holder = ConfigHolder(loaded, disk=disk, clock=clock)
            settings = holder.current
            kv_config = KvConfig(settings.kv_config_path, disk)
            kv_config.load()
            book = await _open_accounts(settings, disk=disk, clock=clock)
            access = NameServerAccess(settings.changes_allowed_from, book, declared_by(NameServerHandlers))
            tables = RouteTables()
            identities = Identities(tables, is_guarded=book is None and not settings.allow_broker_takeover)
            name_server = cls(tables, kv_config, identities, clock=clock)

            client = await opened.enter_async_context(Client(clock=clock, link=link, chance=chance.random))
            product_url = address_server_url(
                settings.address_server_domain, settings.address_server_sub_group, unit=settings.product_env_name
            )
            product_routes = ProductRoutes(product_url, client=client, clock=clock, link=link)
            watch = name_server.loop_watch = LoopWatch(clock, limit_s=settings.server.loop_stall_ms / 1000)
            dispatcher = name_server.dispatcher = Dispatcher(
                before=access.check, answer_unknown=False, watch=watch, header_bytes_max=SERVER_HEADER_BYTES_MAX
            )
            handlers = NameServerHandlers(
                name_server.tables,
                kv_config,
                holder,
                clock=clock,
                identities=name_server.identities,
                product_routes=product_routes,
            )
            register_answers(dispatcher, handlers)

            tls = server_tls(settings.tls)
            bound = bind(
                settings.server.bind_address if host is None else host,
                settings.server.listen_port if port is None else port,
                link=link,
                backlog=settings.server.backlog,
            )
            name_server._server = await opened.enter_async_context(
                await Server.start(
                    bound,
                    dispatcher,
                    clock=clock,
                    link=link,
                    options=server_options(settings.server),
                    tls=tls,
                    on_close=name_server.connection_closed,
                    watch=watch,
                )
            )
            background = await opened.enter_async_context(Background(clock, watch=watch))
            background.every(SCAN_EVERY_S, name_server.expire_silent, first_after=SCAN_FIRST_AFTER_S)
            background.every(REPORT_EVERY_S, name_server.report, first_after=REPORT_FIRST_AFTER_S)
            if book is not None:
                background.every(WATCH_INTERVAL_S, book.follow_files)
            elif settings.changes_allowed_from == "*" and not bound.host.startswith(LOOPBACK):
                logger.warning("changes are taken from everybody: see aclEnable and changesAllowedFrom")
            certificates = CertificateWatch(tls, disk)
            if certificates.paths:
                background.every(CERTIFICATE_CHECK_EVERY_S, certificates.check)
            yield name_server

    @property
    def host(self) -> str:
        assert self._server is not None, "a name server is made by open()"
        return self._server.host

    @property
    def port(self) -> int:
        assert self._server is not None, "a name server is made by open()"
        return self._server.port

    @property
    def address(self) -> str:
        """Where clients on this machine reach it."""
        wildcard = {"0.0.0.0": "127.0.0.1", "::": "::1"}
        return format_address(wildcard.get(self.host, self.host), self.port)

    def expire_silent(self) -> None:
        """Forget the brokers that have said nothing for too long, and close their connections."""
        assert self._server is not None, "a name server is made by open()"
        deadline_s = self._clock.monotonic() - BROKER_SILENT_S
        silent = self.tables.silent_since(deadline_s)
        by_id = {connection.id: connection for connection in self._server.connections} if silent else {}
        self._expire_next([(address, by_id.get(id_)) for address, id_ in reversed(silent)], deadline_s)  # type: ignore[call-overload]  # ids are what connections register as

    def _expire_next(self, silent: list[tuple[str, Connection | None]], deadline_s: float) -> None:
        """One in each turn of the loop: there may be many, with many topics."""
        if not silent:
            self._sweep()
            return
        address, connection = silent.pop()
        if self.tables.is_silent(address, deadline_s):
            logger.warning("broker expired", extra={"address": address, "silent_s": BROKER_SILENT_S})
            self.tables.forget_address(address)
            if connection is not None:
                connection.close("its broker has been silent for too long")
        asyncio.get_running_loop().call_soon(self._expire_next, silent, deadline_s)

    def connection_closed(self, connection: Connection) -> None:
        """A connection speaks for its brokers: when it ends, they are gone, one in each turn of the loop."""
        self.identities.forget(connection)
        lost = self.tables.forget_connection(connection.id, remote_address=connection.peer, count_max=1)
        for address in lost:
            logger.warning("broker lost", extra={"address": address, "cause": connection.close_reason})
            asyncio.get_running_loop().call_soon(self.connection_closed, connection)
        if not lost:
            self._sweep()

    def _sweep(self) -> None:
        """The topics of brokers that are gone, some hundred in each turn of the loop."""
        if not self._is_sweeping and self.tables.sweep():
            self._is_sweeping = True
            asyncio.get_running_loop().call_soon(self._sweep_next)

    def _sweep_next(self) -> None:
        self._is_sweeping = False
        self._sweep()

    def report(self) -> None:
        logger.info("tables", extra=self.tables.counts() | {"stalls": self.loop_watch.stall_count})


async def _open_accounts(config: NamesrvConfig, *, disk: Disk, clock: Clock) -> AccountBook | None:
    if not config.acl_enable:
        return None
    file = config.config_store_path
    path = find_access_file(config.acl_file, home=config.rocketmq_home, config_file=file, store=file.parent, disk=disk)
    return await AccountBook.load(path.absolute(), disk=disk, clock=clock)
