"""`skyrocketmq up`: a name server and brokers by one command.

The name server and the first broker run in this process. Each further broker is a process of its own, because one
process uses one core: RocketMQ scales by adding masters, and so do we. They are started, watched and stopped from here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from skyrocketmq.cli.logging_setup import logging_to
from skyrocketmq.cli.options import LogDir, LogLevel, LogLevelOption, Settings, overrides
from skyrocketmq.cli.run import run_until_stopped
from skyrocketmq.errors import ConfigError

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
    settings: Settings = None,
    log_dir: LogDir = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Start a name server and brokers. They stop on SIGTERM or Ctrl-C, and at once on a second one."""
    wanted = overrides(settings)
    data = data.absolute()
    with logging_to(log_dir, level=log_level):
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
    from skyrocketmq.embedded import Embedded, EmbeddedOptions  # late, so that --help does not wait for it

    options = EmbeddedOptions(namesrv_port=namesrv_port, broker_port=broker_port, settings=settings)
    dead: list[str] = []
    async with AsyncExitStack() as opened:
        cluster = await opened.enter_async_context(Embedded.open(data, options))
        ready = [f"broker {each.identity.broker_name} ready on {each.address}" for each in cluster.brokers]
        for index in range(1, broker_count):
            port = broker_port and broker_port + index * 100
            ready.append(
                await opened.enter_async_context(
                    _child_broker(data, index, cluster.namesrv_address, port, settings, stop, dead)
                )
            )
        print(f"name server ready on {cluster.namesrv_address}")
        print("\n".join(ready))
        if dashboard:
            print(NO_DASHBOARD)
        print(f"data in {data}; stop with Ctrl-C", flush=True)
        await stop.wait()
    if dead:
        raise typer.Exit(1)  # whoever watches this process learns that nobody asked it to end


@asynccontextmanager
async def _child_broker(
    data: Path, index: int, namesrv: str, port: int, settings: Mapping[str, str], stop: asyncio.Event, dead: list[str]
) -> AsyncIterator[str]:
    """A broker in a process of its own; gives its ready line.

    If it dies, its name is added to `dead` and all stop: else nobody would notice.
    """
    from skyrocketmq.embedded import broker_name, write_broker_file
    from skyrocketmq.ports import LocalDisk

    disk = LocalDisk(threads=1)
    try:
        path = await disk.run(write_broker_file, data, index, namesrv=namesrv, port=port, disk=disk)
    finally:
        disk.close()
    assignments = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "skyrocketmq", "broker", "--stop-with-stdin", "-c", str(path), *assignments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which stops the others in order
    )
    assert process.stdin is not None, "it was asked for"
    assert process.stdout is not None, "it was asked for"
    line = (await process.stdout.readline()).decode().strip()
    if not line:
        code = await process.wait()
        raise ConfigError(f"{broker_name(index)} did not start (exit code {code}): see its line above")
    watching = asyncio.get_running_loop().create_task(_watch(process, broker_name(index), stop, dead))
    try:
        yield line
    finally:
        watching.cancel()
        process.stdin.close()
        await process.wait()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(process: asyncio.subprocess.Process, name: str, stop: asyncio.Event, dead: list[str]) -> None:
    code = await process.wait()
    if not stop.is_set():
        dead.append(name)
        print(f"skyrocketmq: {name} ended with exit code {code}: stopping the others", file=sys.stderr, flush=True)
        stop.set()
