"""The broker as a service: its store, its tables, its ports, its name servers.

    async with Broker.open(config) as broker:
        print(broker.address)
        await stop.wait()

What opens last closes first: ports are bound (they are part of the broker's identity), the store is recovered, the
tables are loaded, the ports are served, the name servers are told. Closing takes the same way back, so that clients are
sent away before the store stops, and nothing that was acknowledged is left unsaved.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from skyrocketmq import hot
from skyrocketmq.access import WATCH_INTERVAL_S
from skyrocketmq.access.files import find_access_file
from skyrocketmq.background import Background
from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.delay import DelayDelivery
from skyrocketmq.broker.handlers_clients import SCAN_INTERVAL_S
from skyrocketmq.broker.identity import BrokerIdentity
from skyrocketmq.broker.name_servers import NameServers
from skyrocketmq.broker.own_account import request_signer
from skyrocketmq.broker.parts import BrokerParts
from skyrocketmq.broker.registration import (
    FIRST_AFTER_S,
    RECONNECT_INTERVAL_S,
    REFRESH_ADDRESSES_INTERVAL_S,
    Registrar,
)
from skyrocketmq.broker.replication import LAG_INTERVAL_S, Replication
from skyrocketmq.broker.replication_port import replication_port
from skyrocketmq.broker.requests import NEEDS
from skyrocketmq.broker.runtime_figures import SAMPLE_INTERVAL_S
from skyrocketmq.broker.statistics_windows import SAMPLE_INTERVAL_S as STATISTICS_INTERVAL_S
from skyrocketmq.broker.tables import BrokerTables
from skyrocketmq.broker.transactions import Transactions
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigChange, ConfigHolder, Loaded
from skyrocketmq.errors import ConfigError
from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.model.hosts import pack_host
from skyrocketmq.net import Client, Places, Server, bind_three, format_address
from skyrocketmq.net.certificate_watch import CertificateWatch
from skyrocketmq.net.configured import client_options, client_tls, server_options, server_tls
from skyrocketmq.ports import (
    Chance,
    Clock,
    Disk,
    Link,
    LocalDisk,
    LocalMachine,
    Machine,
    SystemChance,
    SystemClock,
    TcpLink,
)
from skyrocketmq.store import MessageStore

__all__ = ["Broker"]

logger = logging.getLogger(__name__)

OFFSETS_FIRST_AFTER_S: Final = 10.0
SAVE_FILTERS_EVERY_S: Final = 10.0
CLEAN_EXTENSIONS_EVERY_S: Final = 60.0
CLIPPED_NAMED_MAX: Final = 20
CERTIFICATE_CHECK_EVERY_S: Final = 1.0


class Broker:
    """A running broker. Made by `open`, which also ends it."""

    def __init__(
        self,
        identity: BrokerIdentity,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        tables: BrokerTables,
        parts: BrokerParts,
        delay: DelayDelivery,
        transactions: Transactions,
        replication: Replication,
        access: AccessControl | None,
    ) -> None:
        self.identity = identity
        self.config = config
        self.store = store
        self.tables = tables
        self.parts = parts
        self.delay = delay
        self.transactions = transactions
        self.replication = replication
        self.access = access  # None where aclEnable is false

    @property
    def address(self) -> str:
        """Where clients are told to connect."""
        return self.identity.address

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: BrokerConfig | Loaded[BrokerConfig],
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        link: Link | None = None,
        chance: Chance | None = None,
        machine: Machine | None = None,
    ) -> AsyncIterator[Broker]:
        """Serve until the block is left. Port 0 takes any three free ports.

        Raises `NetError` if a port is taken, `StoreLocked` if another broker has the store, `StoreError` or
        `ConfigError` for what is wrong with either.
        """
        loaded = config if isinstance(config, Loaded) else Loaded(config)
        clock, link = clock or SystemClock(), link or TcpLink()
        async with AsyncExitStack() as opened:
            if disk is None:
                disk = LocalDisk()
                opened.callback(disk.close)
            holder = ConfigHolder(loaded, disk=disk, clock=clock)
            chance, machine = chance or SystemChance(), machine or LocalMachine()
            yield await _open(opened, holder, clock=clock, disk=disk, link=link, chance=chance, machine=machine)


async def _open(
    opened: AsyncExitStack,
    holder: ConfigHolder[BrokerConfig],
    *,
    clock: Clock,
    disk: Disk,
    link: Link,
    chance: Chance,
    machine: Machine,
) -> Broker:
    config = holder.current
    listening = config.server
    watch = LoopWatch(clock, limit_s=listening.loop_stall_ms / 1000)
    three = bind_three(listening.bind_address, listening.listen_port, link=link, backlog=listening.backlog)
    for bound in three:
        opened.callback(bound.close)
    main, fast, ha = three
    identity = BrokerIdentity(
        cluster_name=config.cluster_name,
        broker_name=config.broker_name,
        broker_id=config.broker_id,
        address=format_address(config.broker_ip, main.port),
        ha_address=format_address(config.ha_ip, ha.port),
    )
    store_host = pack_host(await _numeric(config.broker_ip, link), main.port)
    store = await opened.enter_async_context(
        MessageStore.open(config.store, disk=disk, clock=clock, store_host=store_host, machine=machine, watch=watch)
    )
    tables = await opened.enter_async_context(
        BrokerTables.open(holder, clock=clock, disk=disk, flush=store.flush, watch=watch)
    )
    if config.store.broker_role is not BrokerRole.SLAVE:
        _clip_offsets(tables, store)
    transactions = await opened.enter_async_context(
        Transactions.open(holder, store, tables, store_host=store_host, disk=disk, clock=clock)
    )
    # After the transactions: these look at how the log ended before anybody adds to it.
    delay = await opened.enter_async_context(DelayDelivery.open(store, store_host=store_host, disk=disk, clock=clock))
    client = await opened.enter_async_context(
        Client(
            clock=clock,
            link=link,
            options=client_options(config.client),
            tls=client_tls(config.tls) if config.client.use_tls else None,
            before_request=request_signer(config),
            chance=chance.random,
        )
    )
    name_servers = NameServers(holder, client, clock=clock, link=link)
    registrar = Registrar(identity, holder, tables.topics, name_servers, disk=disk, clock=clock)
    access = await _open_access(holder, disk=disk, clock=clock)
    tls = server_tls(config.tls)
    tls.load()
    port = replication_port(config, None if access is None else access.book, tls)
    replication = await opened.enter_async_context(
        Replication.open(
            identity, holder, store, tables, registrar, ha, port, disk=disk, clock=clock, link=link, chance=chance
        )
    )
    parts = BrokerParts(
        identity,
        holder,
        store,
        tables,
        registrar,
        delay,
        transactions,
        replication,
        access=access,
        store_host=store_host,
        disk=disk,
        clock=clock,
        chance=chance,
        watch=watch,
    )
    opened.callback(parts.close)

    places = Places()
    for bound, feed in ((main, parts.main_feed), (fast, parts.fast_feed)):
        await opened.enter_async_context(
            await Server.start(
                bound,
                feed,
                clock=clock,
                link=link,
                options=server_options(listening),
                tls=tls,
                on_close=parts.connection_closed,
                watch=watch,
                places=places,
            )
        )
    # Whoever waits here is answered before the connections are closed.
    opened.push_async_callback(parts.release_waiting)

    background = await opened.enter_async_context(Background(clock, watch=watch))
    background.every(SCAN_INTERVAL_S, parts.expire_silent)
    background.every(SAMPLE_INTERVAL_S, parts.figures.sample)
    background.every(STATISTICS_INTERVAL_S, parts.statistics.sample)
    offsets_interval_s = config.offset_flush_interval_ms / 1000
    background.every(offsets_interval_s, tables.save_offsets, first_after=OFFSETS_FIRST_AFTER_S)
    background.every(offsets_interval_s, replication.save, first_after=OFFSETS_FIRST_AFTER_S)
    background.every(LAG_INTERVAL_S, replication.say_lag)
    background.every(SAVE_FILTERS_EVERY_S, tables.save_filters)
    if store.extensions is not None:
        background.every(CLEAN_EXTENSIONS_EVERY_S, store.extensions.clean)
    delay_interval_s = config.store.delay_offset_flush_interval_ms / 1000
    background.every(delay_interval_s, delay.save_offsets, first_after=OFFSETS_FIRST_AFTER_S)
    if access is not None:
        background.every(WATCH_INTERVAL_S, access.book.follow_files)
    certificates = CertificateWatch(tls, disk)
    if certificates.paths:
        background.every(CERTIFICATE_CHECK_EVERY_S, certificates.check)

    tables.topics.listeners.append(registrar.announce)
    opened.callback(holder.subscribe(lambda change: _follow_config(change, tables, parts, replication)))
    await registrar.start()
    opened.push_async_callback(registrar.close)
    background.every(registrar.period_s, registrar.register, first_after=FIRST_AFTER_S)
    background.every(RECONNECT_INTERVAL_S, registrar.reconnect)
    background.every(REFRESH_ADDRESSES_INTERVAL_S, registrar.refresh_addresses)
    started = {"broker": identity.broker_name, "address": identity.address, "code_form": hot.description()}
    logger.info("broker started", extra=started)
    return Broker(identity, holder, store, tables, parts, delay, transactions, replication, access)


def _clip_offsets(tables: BrokerTables, store: MessageStore) -> None:
    """Begin with no progress beyond the log: a slave that is made a master may have less than its groups have read."""
    clipped = tables.offsets.clip(store.max_offset)
    if clipped:
        named = ", ".join(clipped[:CLIPPED_NAMED_MAX])
        logger.warning(
            "offsets beyond the end of their queues, set to the end", extra={"count": len(clipped), "queues": named}
        )


def _follow_config(
    change: ConfigChange[BrokerConfig], tables: BrokerTables, parts: BrokerParts, replication: Replication
) -> None:
    tables.topics.apply_config(change.before, change.after)
    parts.apply_config(change.after)
    replication.apply_config(change.after.store)


async def _open_access(holder: ConfigHolder[BrokerConfig], *, disk: Disk, clock: Clock) -> AccessControl | None:
    config = holder.current
    if not config.acl_enable:
        return None
    path = find_access_file(
        config.acl_file, home=config.rocketmq_home, config_file=holder.path, store=config.store.root_path, disk=disk
    )
    return await AccessControl.open(path.absolute(), config, NEEDS, disk=disk, clock=clock)


async def _numeric(host: str, link: Link) -> str:
    """The address of a host; records and message ids hold addresses, not names."""
    try:
        return await link.resolve(host)
    except OSError as error:
        raise ConfigError(f"brokerIP1 = {host} is no address and no known host name: {error}") from error
