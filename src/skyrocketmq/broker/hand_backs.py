"""Hand-backs of the last minute: a consumer that heard no answer repeats its request, and one copy is enough.

Rule 1: a hand-back is known by its group, the message's place in the log and the level asked for, for as long as the
copy that was stored for it waits: it is on its way to the group, so to leave out another loses nothing, whoever asks,
and why. Once it was delivered, whoever hands the original back once more wants another.
Rule 2: this is memory. What a restart forgets makes a second copy, as any lost answer does elsewhere; the end of all
copies of a message is one dead letter (`dead_letters`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["HandBack", "HandBacks"]

KNOWN_S: Final = 60.0  # at most; longer than any client waits before it asks again
KNOWN_COUNT_MAX: Final = 50_000  # above, the oldest are forgotten


class HandBack(NamedTuple):
    group: str
    log_offset: int
    delay_level: int


class HandBacks:
    """What was handed back, in the order of time. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._until_s: dict[HandBack, float] = {}

    def is_known(self, hand_back: HandBack, *, now_s: float) -> bool:
        """Whether a copy was stored for the same request a short while ago, and still waits."""
        return now_s < self._until_s.get(hand_back, now_s)

    def remember(self, hand_back: HandBack, *, delay_s: float, now_s: float) -> None:
        """A copy is stored that will be delivered after this delay; the oldest are forgotten."""
        known = self._until_s
        known.pop(hand_back, None)
        known[hand_back] = now_s + min(KNOWN_S, delay_s)
        while len(known) > KNOWN_COUNT_MAX or next(iter(known.values()), now_s) < now_s:
            del known[next(iter(known))]
