"""What several jobs read from the command line: names, pairs and moments. Bad ones are named, with what to write."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from skyrocketmq.errors import IllegalArgument

__all__ = ["moment_ms", "names_of", "pairs_of"]


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
