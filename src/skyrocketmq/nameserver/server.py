"""The name server as a service: a socket, the tables, and two clocks.

    async with NameServer.open(config) as server:
        print(server.address)
        await stop.wait()

What opens last closes first: the file of settings is read, then the port is bound, then the scan starts.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from skyrocketmq.background import Background
from skyrocketmq.config import ConfigHolder, Loaded, NamesrvConfig
from skyrocketmq.nameserver.handlers import NameServerHandlers
from skyrocketmq.nameserver.kv_config import KvConfig
from skyrocketmq.nameserver.product_routes import ProductRoutes
from skyrocketmq.nameserver.routes import RouteTables
from skyrocketmq.net import Client, Connection, Dispatcher, Server, bind, format_address
from skyrocketmq.net.address_server import address_server_url
from skyrocketmq.net.certificate_watch import CertificateWatch
from skyrocketmq.net.configured import server_options, server_tls
from skyrocketmq.ports import Clock, Disk, Link, LocalDisk, SystemClock, TcpLink

__all__ = ["BROKER_SILENT_MS", "SCAN_EVERY_S", "SCAN_FIRST_AFTER_S", "NameServer"]

logger = logging.getLogger(__name__)

BROKER_SILENT_MS = 120_000  # a broker that says nothing for so long is gone
SCAN_FIRST_AFTER_S = 5.0
SCAN_EVERY_S = 10.0
REPORT_FIRST_AFTER_S = 60.0
REPORT_EVERY_S = 600.0
CERTIFICATE_CHECK_EVERY_S = 1.0


class NameServer:
    """A running name server. Made by `open`, which also ends it."""

    def __init__(self, tables: RouteTables, kv_config: KvConfig, *, clock: Clock) -> None:
        self.tables = tables
        self.kv_config = kv_config
        self._clock = clock
        self._server: Server | None = None

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
    ) -> AsyncIterator[NameServer]:
        """Serve until the block is left. `host` and `port` go before the configuration's; port 0 takes any free one.

        Raises `NetError` if the port is taken and `ConfigError` if a TLS file cannot be used.
        """
        loaded = config if isinstance(config, Loaded) else Loaded(config, store_path=config.config_store_path)
        clock, link = clock or SystemClock(), link or TcpLink()
        async with AsyncExitStack() as opened:
            if disk is None:
                disk = LocalDisk()
                opened.callback(disk.close)
            holder = ConfigHolder(loaded, disk=disk, clock=clock)
            settings = holder.current
            kv_config = KvConfig(settings.kv_config_path, disk)
            kv_config.load()
            name_server = cls(RouteTables(), kv_config, clock=clock)

            client = await opened.enter_async_context(Client(clock=clock, link=link))
            product_url = address_server_url(
                settings.address_server_domain, settings.address_server_sub_group, unit=settings.product_env_name
            )
            product_routes = ProductRoutes(product_url, client=client, clock=clock, link=link)
            dispatcher = Dispatcher(answer_unknown=False)
            NameServerHandlers(
                name_server.tables, kv_config, holder, clock=clock, product_routes=product_routes
            ).register(dispatcher)

            tls = server_tls(settings.tls)
            sock = bind(
                settings.server.bind_address if host is None else host,
                settings.server.listen_port if port is None else port,
                backlog=settings.server.backlog,
            )
            name_server._server = await opened.enter_async_context(
                await Server.start(
                    sock,
                    dispatcher,
                    clock=clock,
                    link=link,
                    options=server_options(settings.server),
                    tls=tls,
                    on_close=name_server.connection_closed,
                )
            )
            background = await opened.enter_async_context(Background(clock))
            background.every(SCAN_EVERY_S, name_server.expire_silent, first_after=SCAN_FIRST_AFTER_S)
            background.every(REPORT_EVERY_S, name_server.report, first_after=REPORT_FIRST_AFTER_S)
            watch = CertificateWatch(tls, disk)
            if watch.paths:
                background.every(CERTIFICATE_CHECK_EVERY_S, watch.check)
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
        silent = self.tables.silent_since(self._clock.now_ms() - BROKER_SILENT_MS)
        by_id = {connection.id: connection for connection in self._server.connections} if silent else {}
        for address, connection_id in silent:
            logger.warning("broker expired", extra={"address": address, "silent_ms": BROKER_SILENT_MS})
            self.tables.forget_address(address)
            connection = by_id.get(connection_id)  # type: ignore[call-overload]  # ids are what connections register as
            if connection is not None:
                connection.close("its broker has been silent for too long")

    def connection_closed(self, connection: Connection) -> None:
        """A connection speaks for its brokers: when it ends, they are gone."""
        for address in self.tables.forget_connection(connection.id, remote_address=connection.peer):
            logger.warning("broker lost", extra={"address": address, "cause": connection.close_reason})

    def report(self) -> None:
        logger.info("tables", extra=self.tables.counts())
