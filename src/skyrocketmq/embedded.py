"""A name server and brokers put together in one process: for `skyrocketmq up`, for tests, and inside other programs.

    async with Embedded.open(Path("data")) as cluster:
        print(cluster.namesrv_address)

The data directory holds everything, laid out so that Apache's broker can be started on it:

    DIR/broker-a/          the store of broker-a
    DIR/broker-a.conf      its configuration, in Apache's keys:  mqbroker -c DIR/broker-a.conf
    DIR/namesrv/           the name server's key-value settings and configuration

A broker's file is made on its first start and is the operator's from then on: what is changed there, or at run time,
stays. Only the addresses are brought up to date at every start. Everything listens on the loopback address unless the
settings say otherwise (`bindAddress`, `brokerIP1`).
"""

from __future__ import annotations

import string
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skyrocketmq.broker import Broker
from skyrocketmq.config import (
    BROKER_PORT,
    EMBEDDED_DEFAULTS,
    NAMESRV_PORT,
    BrokerConfig,
    Loaded,
    load_broker_config,
    load_namesrv_config,
    read_properties,
    write_properties,
)
from skyrocketmq.errors import ConfigError
from skyrocketmq.nameserver import NameServer
from skyrocketmq.ports import Clock, Disk, Link, LocalDisk, SystemClock, TcpLink

__all__ = ["PORT_STEP", "Embedded", "EmbeddedOptions", "broker_name", "write_broker_file"]

LOOPBACK: Final = "127.0.0.1"
PORT_STEP: Final = 100  # between brokers: each takes three ports around its own
BROKERS_MAX: Final = len(string.ascii_lowercase)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """What is started. Port 0 takes any free ports; `settings` are Apache's keys, for every broker, and
    `namesrv_settings` those of the name server."""

    namesrv_port: int = NAMESRV_PORT
    broker_port: int = BROKER_PORT
    broker_count: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    namesrv_settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.broker_count <= BROKERS_MAX:
            raise ConfigError(f"{self.broker_count} brokers: one process runs 1 to {BROKERS_MAX}")


class Embedded:
    """A running cluster. Made by `open`, which also ends it. Its brokers may be stopped and started one by one."""

    def __init__(
        self,
        name_server: NameServer,
        directory: Path,
        options: EmbeddedOptions,
        *,
        clock: Clock,
        disk: Disk,
        links: Callable[[str], Link],
    ) -> None:
        """Use `open`; this only puts the parts together."""
        self.name_server = name_server
        self._directory = directory
        self._options = options
        self._clock = clock
        self._disk = disk
        self._links = links
        self._brokers: dict[str, Broker] = {}
        self._lives: dict[str, AsyncExitStack] = {}
        self._ports: dict[str, int] = {}  # of every broker that was started, also of those that are stopped now

    @property
    def namesrv_address(self) -> str:
        return self.name_server.address

    @property
    def brokers(self) -> list[Broker]:
        """Those that run now, in the order of their names."""
        return [self._brokers[name] for name in sorted(self._brokers)]

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        directory: Path,
        options: EmbeddedOptions | None = None,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        link: Link | None = None,
        links: Callable[[str], Link] | None = None,
    ) -> AsyncIterator[Embedded]:
        """Start everything; leaving the block stops it, brokers first. Raises what its parts raise.

        `links` gives each broker a link of its own, by its name.
        """
        options = options or EmbeddedOptions()
        clock, link = clock or SystemClock(), link or TcpLink()
        async with AsyncExitStack() as opened:
            if disk is None:
                disk = LocalDisk()
                opened.callback(disk.close)
            namesrv = load_namesrv_config(
                environ={},
                overrides={
                    "listenPort": str(options.namesrv_port),
                    "bindAddress": options.settings.get("bindAddress", LOOPBACK),
                    "kvConfigPath": str(directory / "namesrv" / "kvConfig.json"),
                    "configStorePath": str(directory / "namesrv" / "namesrv.properties"),
                    **options.namesrv_settings,
                },
                disk=disk,
            )
            name_server = await opened.enter_async_context(NameServer.open(namesrv, clock=clock, disk=disk, link=link))
            shared = link
            cluster = cls(name_server, directory, options, clock=clock, disk=disk, links=links or (lambda name: shared))
            opened.push_async_callback(cluster._stop_brokers)
            for index in range(options.broker_count):
                await cluster.start_broker(broker_name(index))
            yield cluster

    async def start_broker(self, name: str) -> Broker:
        """Start a broker; one that was there before comes back on its port, with its store."""
        if name in self._brokers:
            raise ConfigError(f"{name} runs already: stop it first")
        index = _broker_index(name)
        first_port = self._options.broker_port and self._options.broker_port + index * PORT_STEP
        loaded = await self._disk.run(
            _load_broker,
            self._directory,
            index,
            self.namesrv_address,
            self._ports.get(name, first_port),
            self._options.settings,
            self._disk,
        )
        life = AsyncExitStack()
        broker = await life.enter_async_context(
            Broker.open(loaded, clock=self._clock, disk=self._disk, link=self._links(name))
        )
        self._brokers[name], self._lives[name] = broker, life
        self._ports[name] = int(broker.address.rpartition(":")[2])
        return broker

    async def stop_broker(self, name: str) -> None:
        """Stop a broker as a signal would: what it has acknowledged is on disk."""
        if name not in self._brokers:
            raise ConfigError(f"{name} does not run: the brokers that do are {sorted(self._brokers)}")
        del self._brokers[name]
        await self._lives.pop(name).aclose()

    async def _stop_brokers(self) -> None:
        async with AsyncExitStack() as ending:  # all of them, whatever one of them raises
            for name in sorted(self._brokers):
                ending.push_async_callback(self.stop_broker, name)


def broker_name(index: int) -> str:
    """`broker-a` for the first, `broker-b` for the second, and so on."""
    return f"broker-{string.ascii_lowercase[index]}"


def _broker_index(name: str) -> int:
    for index in range(BROKERS_MAX):
        if broker_name(index) == name:
            return index
    raise ConfigError(f"{name!r} is no broker's name here: they are {broker_name(0)} to {broker_name(BROKERS_MAX - 1)}")


def write_broker_file(directory: Path, index: int, *, namesrv: str, port: int, disk: Disk) -> Path:
    """See to it that a broker has its configuration file, with these addresses in it. Blocks."""
    name = broker_name(index)
    path = directory / f"{name}.conf"
    store = directory.absolute() / name
    addresses = {"listenPort": str(port), "namesrvAddr": namesrv}
    fresh = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": name,
        "brokerId": "0",
        "brokerIP1": LOOPBACK,
        "brokerIP2": LOOPBACK,
        "bindAddress": LOOPBACK,
        **addresses,
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        **EMBEDDED_DEFAULTS,
    }
    before = read_properties(disk.read(path)) if disk.exists(path) else {}
    wanted = {**fresh, **before, **addresses}
    if wanted != before:
        disk.make_directories(directory)
        disk.replace(path, write_properties(wanted), is_secret=True)
    return path


def _load_broker(
    directory: Path, index: int, namesrv: str, port: int, settings: Mapping[str, str], disk: Disk
) -> Loaded[BrokerConfig]:
    path = write_broker_file(directory, index, namesrv=namesrv, port=port, disk=disk)
    return load_broker_config(path, environ={}, overrides=settings, disk=disk)
