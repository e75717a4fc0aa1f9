"""A broker's part in replication: a master serves its slaves, a slave follows its master and copies its tables.

    async with Replication.open(identity, config, store, tables, registrar, ha_bound, port, ...) as replication:
        durability = Durability(store, replication.replicas)

Where the master is, the name servers tell with every registration; `haMasterAddress` fixes it. While the master is away
they are asked every second, so that one that comes back elsewhere is found as soon as one that comes back in its place.
The replication port compares offsets only, so with each new connection the master is asked, at its other port, for the
newest message of the copy: without the same answer the slave says nothing, and takes neither log nor tables.
Tables are copied at intervals, with each new connection, and when a message of a new topic has come: whoever reads from
a slave finds the topic there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from skyrocketmq.broker.identity import BrokerIdentity
from skyrocketmq.broker.own_account import request_signer
from skyrocketmq.broker.registration import Master, Registrar
from skyrocketmq.broker.replication_port import ReplicationPort, slave_account, slave_tls
from skyrocketmq.broker.slave_progress import CommitTimes
from skyrocketmq.broker.slave_tables import SlaveTables
from skyrocketmq.broker.tables import BrokerTables
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder, StoreConfig
from skyrocketmq.errors import MQError, NetError
from skyrocketmq.ha import MasterService, Replicas, SlaveService
from skyrocketmq.ha.master import MasterOptions
from skyrocketmq.ha.slave import SlaveOptions
from skyrocketmq.loop_watch import start_task
from skyrocketmq.net import Client, format_address, parse_address
from skyrocketmq.net.configured import client_options, client_tls
from skyrocketmq.ports import Bound, Chance, Clock, Disk, Link, every
from skyrocketmq.store import MessageStore
from skyrocketmq.store.replica import LogCopy, NotContinuous

__all__ = ["LAG_INTERVAL_S", "Replication"]

logger = logging.getLogger(__name__)

LAG_INTERVAL_S: Final = 60.0
TABLES_FIRST_AFTER_S: Final = 3.0
TABLES_INTERVAL_S: Final = 10.0
TABLES_RETRY_S: Final = 1.0
TABLES_PAUSE_S: Final = 0.2  # between two rounds, however many new topics ask for one
BACKOFF_MAX_S: Final = 0.5
ADDRESS_CHARACTERS_MIN: Final = 6  # of haMasterAddress: anything shorter is no address, as for Apache's slaves
PREPARE_PATIENCE_S: Final = 10.0
LOOK_UP_TIMEOUT_S: Final = 1.0
RESTART_PAUSE_S: Final = 1.0
HA_PORT_STEP: Final = 1  # a broker's replication port follows its own


class Replication:
    """Made by `open`, which also ends it."""

    def __init__(
        self,
        store: MessageStore,
        port: ReplicationPort,
        *,
        disk: Disk,
        clock: Clock,
        chance: Chance,
    ) -> None:
        """Use `open`; this only makes what every role has."""
        config = store.config
        self.replicas = Replicas(clock=clock, timeout_ms=config.slave_timeout_ms, lag_bytes_max=config.ha_lag_bytes_max)
        self.commit_times = CommitTimes(clock)
        self._service = MasterService(
            store.log,
            self.replicas,
            MasterOptions(
                heartbeat_s=config.ha_heartbeat_interval_ms / 1000,
                idle_timeout_s=config.ha_idle_timeout_ms / 1000,
                piece_bytes_max=config.ha_batch_bytes,
                newest_file_only=config.ha_newest_file_only,
                slave_count_max=port.slave_count_max,
                tls_mode=port.tls_mode,
            ),
            admission=port.admission,
            disk=disk,
            clock=clock,
            chance=chance,
            tls=port.tls,
        )
        self._follower: _Follower | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        identity: BrokerIdentity,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        tables: BrokerTables,
        registrar: Registrar,
        ha_bound: Bound,
        port: ReplicationPort,
        *,
        disk: Disk,
        clock: Clock,
        link: Link,
        chance: Chance,
    ) -> AsyncIterator[Replication]:
        """Serve slaves, and follow a master where this is a slave, until the block is left."""
        replication = cls(store, port, disk=disk, clock=clock, chance=chance)
        await replication._service.start(ha_bound, link)
        opened = AsyncExitStack()
        opened.push_async_callback(replication._service.close)
        async with opened:
            if store.config.broker_role is not BrokerRole.SLAVE:
                tables.offsets.on_commit = replication.commit_times.committed
                yield replication
                return
            client = await opened.enter_async_context(_client_of(config.current, clock=clock, link=link, chance=chance))
            slave_tables = SlaveTables(tables, store, client, disk=disk, clock=clock)
            await slave_tables.load()
            follower = _Follower(identity, config, store, slave_tables, registrar, disk=disk, clock=clock, link=link)
            replication._follower = follower
            await opened.enter_async_context(follower.running())
            yield replication

    @property
    def is_following(self) -> bool:
        """Whether this is a slave with a connection to its master."""
        return self._follower is not None and self._follower.is_connected

    def apply_config(self, config: StoreConfig) -> None:
        """Follow a change of the keys that may change while the broker runs."""
        self.replicas.timeout_ms = config.slave_timeout_ms
        self.replicas.lag_bytes_max = config.ha_lag_bytes_max

    def say_lag(self) -> None:
        """Log how far behind each slave is."""
        for slave, offset in self.replicas.slaves.items():
            logger.info("slave", extra={"slave": slave, "behind_bytes": self._service.log.max_offset - offset})

    async def save(self) -> None:
        """Write what a slave has to remember for its master. Raises `OSError`."""
        if self._follower is not None:
            await self._follower.tables.save()


def _client_of(config: BrokerConfig, *, clock: Clock, link: Link, chance: Chance) -> Client:
    """For requests to the master: it is asked again soon after a failure, since it is known to be back."""
    return Client(
        clock=clock,
        link=link,
        options=replace(client_options(config.client), backoff_max_s=BACKOFF_MAX_S),
        tls=client_tls(config.tls) if config.client.use_tls else None,
        before_request=request_signer(config),
        chance=chance.random,
    )


def _failed(name: str, error: Exception) -> None:
    logger.error("unexpected failure, going on", extra={"task": name, "error": str(error)}, exc_info=error)


class _Follower:
    """A slave's two ways to its master: the log through the replication port, the tables by requests."""

    def __init__(
        self,
        identity: BrokerIdentity,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        tables: SlaveTables,
        registrar: Registrar,
        *,
        disk: Disk,
        clock: Clock,
        link: Link,
    ) -> None:
        self.tables = tables
        self._identity = identity
        self._registrar = registrar
        self._clock = clock
        self._wants_tables = asyncio.Event()
        store_config = config.current.store
        self._takes_newest_only = store_config.ha_newest_file_only
        fixed = store_config.ha_master_address or ""
        self._fixed = fixed if len(fixed) >= ADDRESS_CHARACTERS_MIN else None
        self._watch = store.watch
        self._copy = LogCopy(store, disk, on_new_queue=self._queue_came)
        self._ha_address: str | None = None
        self._asked_from: float | None = None  # since when the master was asked in vain where its log begins
        self._service = SlaveService(
            self._copy,
            SlaveOptions(
                heartbeat_s=store_config.ha_heartbeat_interval_ms / 1000,
                idle_timeout_s=store_config.ha_idle_timeout_ms / 1000,
                account=slave_account(config.current),
                tls=slave_tls(config.current),
            ),
            link=link,
            clock=clock,
            find_master=registrar.register,
            prepare=self._prepare,
            check=self._check,
            on_joined=self._wants_tables.set,
        )
        registrar.master_listeners.append(self._master_changed)
        self._set_ha_address(self._fixed or registrar.master.ha_address)

    @property
    def is_connected(self) -> bool:
        return self._service.is_connected

    def _queue_came(self, topic: str, queue_id: int) -> None:
        """A message of a queue that may be new: if the master dies now, it has to be readable here."""
        if self.tables.make_provisional(topic, queue_id):
            self._wants_tables.set()

    def _master_changed(self, master: Master) -> None:
        self._set_ha_address(self._fixed or master.ha_address)

    def _set_ha_address(self, address: str | None) -> None:
        if address is not None and address != self._identity.ha_address:  # a broker never follows itself
            self._ha_address = address
            self._service.set_master(address)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks: list[asyncio.Task[None]] = []
        for name, work in (("replicate", self._service.run), ("copy the master's tables", self._copy_tables)):
            # Neither ends by itself; whatever nobody thought of must not end it for good, and unnoticed, either.
            again = every(RESTART_PAUSE_S, work, clock=self._clock, first_after=0, on_error=partial(_failed, name))
            tasks.append(start_task(again, name=name, watch=self._watch))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._copy.close()
            try:
                await self.tables.save()
            except OSError as error:
                logger.error("progress of groups not saved", extra={"error": str(error)})

    async def _copy_tables(self) -> None:
        wait_s = TABLES_FIRST_AFTER_S
        while True:
            try:
                async with self._clock.timeout(wait_s):
                    await self._wants_tables.wait()
            except TimeoutError:
                pass
            self._wants_tables.clear()
            wait_s = TABLES_INTERVAL_S if await self._sync() else TABLES_RETRY_S
            await self._clock.sleep(TABLES_PAUSE_S)

    async def _sync(self) -> bool:
        """One round; False if there is something to be tried again soon."""
        if not self._service.is_connected:
            return True  # nothing is taken of a master whose log was not compared; the next connection wakes us
        address = self._master_address()
        if address is None:
            return False  # the name servers will soon know what we know
        return await self.tables.sync(address, is_wanted=lambda: self._service.is_connected)

    async def _check(self) -> None:
        """Compare the copy with the master's log: see `SlaveTables.check_record`."""
        offset = self._copy.last_record()
        if offset is None:
            return
        if self._registrar.master.address is None:  # one that has just come back is known again by now
            try:
                async with self._clock.timeout(LOOK_UP_TIMEOUT_S):
                    await self._registrar.register()
            except (MQError, OSError, TimeoutError) as error:
                logger.debug("master not looked up", extra={"error": str(error)})
        address = self._master_address()
        if address is None:
            raise NetError("nobody says where the master answers requests, to compare its log with this copy")
        try:
            await self.tables.check_record(offset, address)
        except NotContinuous:
            raise
        except (MQError, ValueError, KeyError) as error:
            raise NetError(f"the master's log could not be compared with this copy: {error}") from error

    def _master_address(self) -> str | None:
        """Where the master answers requests: as the name servers say, else beside its replication port."""
        address = self._registrar.master.address
        if address is None and self._ha_address is not None:
            host, port = parse_address(self._ha_address)
            address = format_address(host, port - HA_PORT_STEP)
        return None if address == self._identity.address else address

    async def _prepare(self) -> None:
        address = self._registrar.master.address
        if self._takes_newest_only or address is None:
            return
        try:
            await self.tables.prepare_empty(self._copy, address)
        except (MQError, ValueError) as error:
            # A master that has just started may not know yet. One that never says is followed from where it likes.
            now = self._clock.monotonic()
            self._asked_from = self._asked_from or now
            if now - self._asked_from < PREPARE_PATIENCE_S:
                raise NetError(f"the master does not say where its log begins: {error}") from error
