"""Asking again: a broker that is away may be back in a moment.

A request that only asks may be repeated as it is. Whoever writes has to find out first what the broker has stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from skyrocketmq.errors import NetError, NoRoute
from skyrocketmq.ports import pause

__all__ = ["RETRY_PAUSE_S", "persistently"]

T = TypeVar("T")

RETRY_PAUSE_S: Final = 1.0


def persistently(ask: Callable[[], T], *, retry_count_max: int, what: str, sleep: Callable[[float], None] = pause) -> T:
    """The answer. Asks again after each failure of the network; raises `NetError` once the retries are used up."""
    failures = 0
    while True:
        try:
            return ask()
        except (NetError, NoRoute) as error:
            failures += 1
            if failures > retry_count_max:
                raise NetError(f"{what}: {failures} attempts failed: {error}") from error
            sleep(RETRY_PAUSE_S)
