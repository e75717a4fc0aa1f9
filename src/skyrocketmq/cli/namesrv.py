"""`skyrocketmq namesrv`: the name server as a process."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from skyrocketmq.cli.logging_setup import logging_to
from skyrocketmq.cli.options import (
    ConfigFile,
    LogDir,
    LogLevel,
    LogLevelOption,
    PrintConfig,
    Settings,
    overrides,
    report,
)
from skyrocketmq.cli.run import run_until_stopped
from skyrocketmq.config import Loaded, NamesrvConfig, load_namesrv_config

__all__ = ["namesrv"]


def namesrv(
    config: ConfigFile = None,
    listen_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on, 9876 unless set; 0 takes any free one.")
    ] = None,
    settings: Settings = None,
    print_config: PrintConfig = False,
    log_dir: LogDir = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Start a name server. It stops on SIGTERM or Ctrl-C, and at once on a second one."""
    wanted = overrides(settings, listenPort=None if listen_port is None else str(listen_port))
    with logging_to(log_dir, level=log_level):
        loaded = load_namesrv_config(config, overrides=wanted)
        report(loaded, print_config=print_config)
        run_until_stopped(lambda stop: _serve(loaded, stop))


async def _serve(loaded: Loaded[NamesrvConfig], stop: asyncio.Event) -> None:
    from skyrocketmq.nameserver.server import NameServer  # late, so that --help and -p do not wait for it

    async with NameServer.open(loaded) as server:
        print(f"name server ready on {server.address}", flush=True)
        await stop.wait()
