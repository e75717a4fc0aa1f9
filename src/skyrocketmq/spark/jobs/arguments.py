"""What several jobs read from the command line: names, pairs, moments, how topics are followed, how to be let in.

Bad ones are named, with what to write. Rule: no secret has to stand on the command line, where every user of the
machine sees it: options can come from a file, and keys from the environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skyrocketmq.config import read_properties
from skyrocketmq.errors import IllegalArgument

__all__ = ["add_following_arguments", "connection_of", "moment_ms", "names_of", "pairs_of"]

_KEYS: Final = {"accessKey": "ACCESS_KEY", "secretKey": "SECRET_KEY", "securityToken": "SECURITY_TOKEN"}


def add_following_arguments(
    parser: argparse.ArgumentParser, *, new_to: str, interval_s: float, batch_rows: int
) -> None:
    """Of jobs that read topics from where they were on, once or without end; `new_to` says where a topic is new."""
    parser.add_argument("--topics", metavar="NAME[,NAME]", help="the topics")
    parser.add_argument("--pattern", metavar="REGEX", help="instead: a regular expression for whole names of topics")
    parser.add_argument(
        "--starting",
        default="earliest",
        metavar="PLACE",
        help=f"where a topic begins that is new {new_to}: earliest, latest, or milliseconds since 1970",
    )
    parser.add_argument("--continuous", action="store_true", help="go on until it is stopped")
    parser.add_argument(
        "--interval",
        type=float,
        default=interval_s,
        metavar="SECONDS",
        help="how long to wait for more (default: %(default)g)",
    )
    parser.add_argument(
        "--batch-rows", type=int, default=batch_rows, metavar="N", help="messages of one batch (default: %(default)s)"
    )


def names_of(text: str | None) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def pairs_of(texts: Iterable[str] | None, *, option: str) -> dict[str, str]:
    """What was given as NAME=VALUE, several times."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise IllegalArgument(f"{option} {text!r}: write NAME=VALUE")
        pairs[name.strip()] = value
    return pairs


def connection_of(
    given: Mapping[str, str], *, file: str | None, environ: Mapping[str, str], variables: str
) -> dict[str, str]:
    """The options of the format with which connections are made: what was given, then a file's, then the environment's.

    `variables` is what the names of the environment's begin with; its token belongs to its access key. Raises
    `ConfigError`, and `OSError` for a file that cannot be read.
    """
    options = (read_properties(Path(file).read_bytes()) if file else {}) | dict(given)
    said = {name.lower() for name in options}
    keys = {option: value for option, name in _KEYS.items() if (value := environ.get(f"{variables}_{name}"))}
    if "accesskey" in said:
        keys.pop("securityToken", None)
    return {option: value for option, value in keys.items() if option.lower() not in said} | options


def moment_ms(text: str | None, *, option: str) -> int | None:
    """A moment as milliseconds since 1970: given so, or as a date with or without a time; without a zone it is UTC."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise IllegalArgument(
            f"{option} {text!r} is no time: write 2024-05-01T12:00, 2024-05-01T12:00+02:00, or milliseconds since 1970"
        ) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return round(moment.timestamp() * 1000)
