"""The commands, and how one that fails ends: with a line on standard error and exit code 1, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from skyrocketmq import __version__, hot
from skyrocketmq.cli.bench import bench
from skyrocketmq.cli.broker import broker
from skyrocketmq.cli.consume import consume
from skyrocketmq.cli.namesrv import namesrv
from skyrocketmq.cli.produce import produce
from skyrocketmq.cli.spark import spark
from skyrocketmq.cli.store import store
from skyrocketmq.cli.up import up
from skyrocketmq.errors import MQError

__all__ = ["app", "main", "mqbroker", "mqnamesrv"]

# A command that reads its own options, --help among them.
OWN_OPTIONS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": list[str]()}

app = typer.Typer(
    name="skyrocketmq",
    help="RocketMQ in Python: name server, broker, clients and tools.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # a wrong option gives a line that can be read in a log, not a box
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(up)
app.command()(namesrv)
app.command()(broker)
app.command()(produce)
app.command()(consume)
app.command(context_settings=OWN_OPTIONS)(spark)
app.add_typer(bench)
app.add_typer(store)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skyrocketmq {__version__} ({hot.description()})")
        raise typer.Exit


@app.callback()
def _skyrocketmq(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version, and whether compiled modules run; exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """RocketMQ in Python: name server, broker, clients and tools."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with the exit code."""
    try:
        app(args=list(sys.argv[1:] if arguments is None else arguments), prog_name="skyrocketmq")
    except BrokenPipeError:
        # The reader of our output has seen enough. What is still in the buffer must not fail once more at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (MQError, OSError) as error:
        print(f"skyrocketmq: {_one_line(error)}", file=sys.stderr)
        sys.exit(1)


def mqnamesrv() -> None:
    """Apache's command name for `skyrocketmq namesrv`."""
    main(["namesrv", *sys.argv[1:]])


def mqbroker() -> None:
    """Apache's command name for `skyrocketmq broker`."""
    main(["broker", *sys.argv[1:]])


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
