"""`skyrocketmq broker`: one broker as a process."""

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
from skyrocketmq.cli.run import run_until_stopped, stop_at_end_of_input
from skyrocketmq.config import BrokerConfig, Loaded, load_broker_config

__all__ = ["broker"]


def broker(
    config: ConfigFile = None,
    namesrv: Annotated[
        str | None, typer.Option("-n", "--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers.")
    ] = None,
    settings: Settings = None,
    print_config: PrintConfig = False,
    log_dir: LogDir = None,
    log_level: LogLevelOption = LogLevel.INFO,
    stop_with_stdin: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Start a broker. It stops on SIGTERM or Ctrl-C, and at once on a second one."""
    wanted = overrides(settings, namesrvAddr=namesrv)
    with logging_to(log_dir, level=log_level):
        loaded = load_broker_config(config, overrides=wanted)
        report(loaded, print_config=print_config)
        run_until_stopped(lambda stop: _serve(loaded, stop, stop_with_stdin=stop_with_stdin))


async def _serve(loaded: Loaded[BrokerConfig], stop: asyncio.Event, *, stop_with_stdin: bool) -> None:
    from skyrocketmq.broker import Broker  # late, so that --help and -p do not wait for it

    if stop_with_stdin:
        stop_at_end_of_input(stop)
    async with Broker.open(loaded) as server:
        print(f"broker {server.identity.broker_name} ready on {server.address}", flush=True)
        await stop.wait()
