"""Options of the commands that are clients of a cluster: where it is, and how to be let in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from skyrocketmq.config import DEFAULT_NAMESRV

if TYPE_CHECKING:
    from skyrocketmq.client.settings import SharedOptions

__all__ = [
    "AccessKey",
    "Namesrv",
    "Output",
    "OutputOption",
    "SecretKey",
    "UseTls",
    "namesrv_or_default",
    "shared_options",
    "split_pairs",
]

Namesrv = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="ADDRESS[;ADDRESS]",
        help=f"The name servers; else those of NAMESRV_ADDR, else {DEFAULT_NAMESRV}.",
    ),
]
AccessKey = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Sign requests, for brokers that check it; else that of ROCKETMQ_ACCESS_KEY."),
]
SecretKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="What they are signed with; else that of ROCKETMQ_SECRET_KEY.")
]
UseTls = Annotated[
    bool, typer.Option("--tls", help="Talk to the servers through TLS; certificates as tls.properties says.")
]


class Output(StrEnum):
    """In which form results are printed."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", help="For people, or one JSON object a line.")]


def namesrv_or_default(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    return given or environ.get("NAMESRV_ADDR") or DEFAULT_NAMESRV


def shared_options(*, access_key: str | None, secret_key: str | None, tls: bool) -> SharedOptions:
    """What every client of the command takes besides its own arguments."""
    # Late, so that --help does not wait for it.
    from skyrocketmq.client.settings import Credentials
    from skyrocketmq.config import load_tls_config
    from skyrocketmq.net.configured import client_tls

    if (access_key is None) != (secret_key is None):
        raise typer.BadParameter("an access key and a secret key go together: give both or neither")
    options: SharedOptions = {"tls": client_tls(load_tls_config()) if tls else False}
    if access_key is not None and secret_key is not None:
        options["credentials"] = Credentials(access_key, secret_key)
    return options


def split_pairs(texts: Iterable[str] | None, *, option: str) -> dict[str, str]:
    """What was given as NAME=VALUE, several times."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} {text!r}: write NAME=VALUE")
        pairs[name] = value
    return pairs
