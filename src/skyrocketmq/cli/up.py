"""`skyrocketmq up`: a name server and brokers by one command.

The name server and the first broker run in this process. Each further broker is a process of its own, because one
process uses one core: RocketMQ scales by adding masters, and so do we. They are started, watched and stopped from here.
With a folder of configuration files (`--conf`) every broker is such a process: see `up_folder`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from skyrocketmq.cli.child_brokers import child_broker
from skyrocketmq.cli.logging_setup import logging_to
from skyrocketmq.cli.options import LogDir, LogLevel, LogLevelOption, Settings, overrides
from skyrocketmq.cli.run import run_until_stopped
from skyrocketmq.cli.up_folder import LOCAL_ADDRESSES, serve_folder

__all__ = ["up"]

DEFAULT_DATA = Path("skyrocketmq-data")
NO_DASHBOARD = "dashboard   not part of this version yet"


def up(
    data: Annotated[Path, typer.Option(metavar="DIR", help="Where everything is kept.")] = DEFAULT_DATA,
    namesrv_port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")] = 9876,
    broker_port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free ports.")] = 10911,
    brokers: Annotated[int, typer.Option(min=1, max=26, metavar="N", help="How many, 100 ports apart.")] = 1,
    dashboard_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the dashboard.")] = 8080,
    dashboard: Annotated[bool, typer.Option("--dashboard/--no-dashboard", help="Whether to start it.")] = True,
    conf: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Start a broker for each configuration file of this folder instead."),
    ] = None,
    settings: Settings = None,
    log_dir: LogDir = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Start a name server and brokers. They stop on SIGTERM or Ctrl-C, and at once on a second one."""
    wanted = overrides(settings)
    data = data.absolute()
    with logging_to(log_dir, level=log_level):
        if conf is not None:
            folder = conf.absolute()
            run_until_stopped(lambda stop: serve_folder(data, folder, namesrv_port, broker_port, wanted, stop))
            return
        run_until_stopped(lambda stop: _serve(data, namesrv_port, broker_port, brokers, wanted, dashboard, stop))


async def _serve(
    data: Path,
    namesrv_port: int,
    broker_port: int,
    broker_count: int,
    settings: Mapping[str, str],
    dashboard: bool,
    stop: asyncio.Event,
) -> None:
    from skyrocketmq.embedded import Embedded, EmbeddedOptions, broker_name  # late, so that --help does not wait for it

    options = EmbeddedOptions(
        namesrv_port=namesrv_port,
        broker_port=broker_port,
        settings=settings,
        # All its brokers are here, whatever address it listens on.
        namesrv_settings={"changesAllowedFrom": LOCAL_ADDRESSES},
    )
    dead: list[str] = []
    async with AsyncExitStack() as opened:
        cluster = await opened.enter_async_context(Embedded.open(data, options))
        ready = [f"broker {each.identity.broker_name} ready on {each.address}" for each in cluster.brokers]
        for index in range(1, broker_count):
            port = broker_port and broker_port + index * 100
            path = await _write_broker_file(data, index, cluster.namesrv_address, port)
            child = child_broker(broker_name(index), path, settings, stop, dead)
            ready.append(await opened.enter_async_context(child))
        print(f"name server ready on {cluster.namesrv_address}")
        print("\n".join(ready))
        if dashboard:
            print(NO_DASHBOARD)
        print(f"data in {data}; stop with Ctrl-C", flush=True)
        await stop.wait()
    if dead:
        raise typer.Exit(1)  # what watches this process learns that nobody asked it to end


async def _write_broker_file(data: Path, index: int, namesrv: str, port: int) -> Path:
    from skyrocketmq.embedded import write_broker_file
    from skyrocketmq.ports import LocalDisk

    disk = LocalDisk(threads=1)
    try:
        return await disk.run(write_broker_file, data, index, namesrv=namesrv, port=port, disk=disk)
    finally:
        disk.close()
