"""What is done about a half message whose end nobody has told yet. Pure.

| the half message | what is done |
|---|---|
| was asked about `transactionCheckMax` times, or is older than the log keeps messages | given up |
| is younger than `transactionTimeOut`, or than its own immunity time | left alone |
| has no member of its producer group connected | left alone |
| any other | asked about |

Age counts from the birth that the producer gave it. One that was born in the future (the producer's clock is ahead) is
asked about: nobody knows how old it is.

A message that is left alone while many others come is stored again behind them, so that a start need not read all of
those to find it. That is not counted as a check, nor is a round in which there was nobody to ask.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["RENEW_BEHIND", "Check", "decide", "immunity_ms"]

RENEW_BEHIND: Final = 10_000  # half messages that came later


class Check(Enum):
    """What is done about a half message in a round."""

    LEAVE = "leave"
    RENEW = "renew"
    ASK = "ask"
    GIVE_UP = "give up"


def decide(
    *,
    age_ms: int,
    immunity_ms: int,
    check_count: int,
    check_count_max: int,
    age_ms_max: int,
    has_producer: bool,
    behind: int,
) -> Check:
    """What to do about a half message; `behind` is how many others were stored after it."""
    if check_count >= check_count_max or age_ms > age_ms_max:
        return Check.GIVE_UP
    if has_producer and not 0 <= age_ms < immunity_ms:
        return Check.ASK
    return Check.RENEW if behind >= RENEW_BEHIND else Check.LEAVE


def immunity_ms(property_text: bytes | None, *, timeout_ms: int) -> int:
    """How long a message is left alone: as many seconds as its property says; -1, or no number, means the usual."""
    if property_text is None:
        return timeout_ms
    try:
        seconds = int(property_text)
    except ValueError:
        return timeout_ms
    return timeout_ms if seconds == -1 else seconds * 1000
