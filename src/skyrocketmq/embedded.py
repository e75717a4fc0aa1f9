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
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
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
    """What is started. Port 0 takes any free ports; `settings` are Apache's keys, for every broker."""

    namesrv_port: int = NAMESRV_PORT
    broker_port: int = BROKER_PORT
    broker_count: int = 1
    settings: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.broker_count <= BROKERS_MAX:
            raise ConfigError(f"{self.broker_count} brokers: one process runs 1 to {BROKERS_MAX}")


class Embedded:
    """A running cluster. Made by `open`, which also ends it."""

    def __init__(self, name_server: NameServer, brokers: list[Broker]) -> None:
        self.name_server = name_server
        self.brokers = brokers

    @property
    def namesrv_address(self) -> str:
        return self.name_server.address

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
    ) -> AsyncIterator[Embedded]:
        """Start everything; leaving the block stops it, brokers first. Raises what its parts raise."""
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
                    "bindAddress": (options.settings or {}).get("bindAddress", LOOPBACK),
                    "kvConfigPath": str(directory / "namesrv" / "kvConfig.json"),
                    "configStorePath": str(directory / "namesrv" / "namesrv.properties"),
                },
                disk=disk,
            )
            name_server = await opened.enter_async_context(NameServer.open(namesrv, clock=clock, disk=disk, link=link))
            cluster = cls(name_server, [])
            for index in range(options.broker_count):
                port = options.broker_port and options.broker_port + index * PORT_STEP
                loaded = await disk.run(
                    _load_broker, directory, index, name_server.address, port, options.settings or {}, disk
                )
                cluster.brokers.append(
                    await opened.enter_async_context(Broker.open(loaded, clock=clock, disk=disk, link=link))
                )
            yield cluster


def broker_name(index: int) -> str:
    """`broker-a` for the first, `broker-b` for the second, and so on."""
    return f"broker-{string.ascii_lowercase[index]}"


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
        disk.replace(path, write_properties(wanted))
    return path


def _load_broker(
    directory: Path, index: int, namesrv: str, port: int, settings: Mapping[str, str], disk: Disk
) -> Loaded[BrokerConfig]:
    path = write_broker_file(directory, index, namesrv=namesrv, port=port, disk=disk)
    return load_broker_config(path, environ={}, overrides=settings, disk=disk)
