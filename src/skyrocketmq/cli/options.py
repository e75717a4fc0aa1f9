"""Options that several commands take, and what is done with them before a server starts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from skyrocketmq.config import BrokerConfig, Loaded, NamesrvConfig, format_config, split_assignments
from skyrocketmq.config.loading import KeyTable
from skyrocketmq.errors import ConfigError

__all__ = ["ConfigFile", "LogDir", "LogLevel", "LogLevelOption", "PrintConfig", "Settings", "overrides", "report"]

logger = logging.getLogger(__name__)


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


ConfigFile = Annotated[
    Path | None, typer.Option("-c", "--config", metavar="FILE", help="Configuration file with Apache's keys.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key for this start; may be given several times."),
]
PrintConfig = Annotated[
    bool, typer.Option("-p", "--print-config", help="Print every key, its value and where that comes from, and exit.")
]
LogDir = Annotated[
    Path | None, typer.Option("--log-dir", metavar="DIR", help="Log to rotating files in this directory too.")
]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="The least severe messages that are logged.")]


def overrides(assignments: Iterable[str] | None, **options: str | None) -> Mapping[str, str]:
    """The keys that the command line sets; an option of its own goes before `--set`."""
    try:
        settings = split_assignments(assignments or ())
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    for name in settings:
        _warn_of_secret(name)
    return settings | {key: text for key, text in options.items() if text is not None}


def _warn_of_secret(name: str) -> None:
    for kind in (BrokerConfig, NamesrvConfig):
        for key in KeyTable(kind).find(name):
            if key.declared.secret:
                typer.echo(
                    f"skyrocketmq: --set {name}=... stands in the list of processes, for every user of this machine: "
                    f"set {key.environment_names[0]} in the environment, or the key in a file, instead",
                    err=True,
                )
                return


def report(loaded: Loaded[Any], *, print_config: bool) -> None:
    """Log what is odd about the configuration; with `-p` print it and end."""
    for warning in loaded.warnings:
        logger.warning("look at the configuration", extra={"found": warning})
    if print_config:
        typer.echo(format_config(loaded))
        raise typer.Exit
