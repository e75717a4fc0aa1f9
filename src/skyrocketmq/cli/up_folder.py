"""`skyrocketmq up --conf DIR`: a name server, and a broker for each configuration file of a folder.

The files are those that Apache's `mqbroker -c` takes. What a cluster on one machine needs beside them (where its data
is, the name server, the loopback address, small log files) is added where a file does not say it; the result is kept in
the data directory, one file a broker, and what is changed at run time is written there and not into the folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import typer

from skyrocketmq.cli.child_brokers import child_broker
from skyrocketmq.config import BROKER_PORT, EMBEDDED_DEFAULTS, load_namesrv_config, read_properties, write_properties
from skyrocketmq.errors import ConfigError
from skyrocketmq.ports import Disk, LocalDisk

__all__ = ["LOCAL_ADDRESSES", "broker_files", "serve_folder"]

LOOPBACK = "127.0.0.1"
LOCAL_ADDRESSES = "127.0.0.1,::1"
PORT_STEP = 100
ENDINGS = (".conf", ".properties")


def broker_files(folder: Path) -> list[Path]:
    """The configuration files of a folder, in their order. Raises `ConfigError` if there are none."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS)
    except OSError as error:
        raise ConfigError(f"--conf {folder}: {error.strerror}") from error
    if not files:
        raise ConfigError(f"--conf {folder}: no broker's configuration there, that is no file *.properties or *.conf")
    return sorted(files, key=lambda path: path.stem)


async def serve_folder(
    data: Path, folder: Path, namesrv_port: int, broker_port: int, settings: Mapping[str, str], stop: asyncio.Event
) -> None:
    """Run until `stop` is set, or until a broker dies: then all stop, and the exit code says so."""
    from skyrocketmq.nameserver import NameServer  # late, so that --help does not wait for it

    files = broker_files(folder)
    dead: list[str] = []
    async with AsyncExitStack() as opened:
        disk = LocalDisk(threads=1)
        opened.callback(disk.close)
        namesrv = load_namesrv_config(
            environ={},
            overrides={
                "listenPort": str(namesrv_port),
                "bindAddress": settings.get("bindAddress", LOOPBACK),
                "changesAllowedFrom": LOCAL_ADDRESSES,  # all its brokers are here
                "kvConfigPath": str(data / "namesrv" / "kvConfig.json"),
                "configStorePath": str(data / "namesrv" / "namesrv.properties"),
            },
            disk=disk,
        )
        name_server = await opened.enter_async_context(NameServer.open(namesrv, disk=disk))
        print(f"name server ready on {name_server.address}", flush=True)
        for index, file in enumerate(files):
            path, values = await disk.run(
                _write_broker_file, data, file, index, namesrv=name_server.address, broker_port=broker_port, disk=disk
            )
            line = await opened.enter_async_context(child_broker(file.stem, path, settings, stop, dead))
            broker_id = values.get("brokerId", "0")
            is_slave = values.get("brokerRole") == "SLAVE"
            print(line.replace(" ready ", f" slave {broker_id} ready ", 1) if is_slave else line, flush=True)
        print(f"data in {data}; stop with Ctrl-C", flush=True)
        await stop.wait()
    if dead:
        raise typer.Exit(1)  # what watches this process learns that nobody asked it to end


def _write_broker_file(
    data: Path, file: Path, index: int, *, namesrv: str, broker_port: int, disk: Disk
) -> tuple[Path, Mapping[str, str]]:
    """The file in the data directory that the broker is started with, and what is in it. Blocks."""
    path = data / f"{file.stem}.conf"
    store = data / file.stem
    given = read_properties(disk.read(file))
    before = read_properties(disk.read(path)) if disk.exists(path) else {}
    port = str(broker_port and broker_port + index * PORT_STEP)
    if broker_port == BROKER_PORT:
        port = given.get("listenPort", port)
    fresh = {
        "brokerIP1": LOOPBACK,
        "brokerIP2": LOOPBACK,
        "bindAddress": LOOPBACK,
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        **EMBEDDED_DEFAULTS,
    }
    wanted = {**fresh, **before, **given, "listenPort": port, "namesrvAddr": namesrv}
    disk.make_directories(data)
    disk.replace(path, write_properties(wanted), is_secret=True)
    return path, wanted
