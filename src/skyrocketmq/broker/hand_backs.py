"""Hand-backs of the last minute: a consumer that heard no answer repeats its request, and one copy is enough.

Rule 1: a hand-back is known by its group, the message's place in the log and the level asked for, for as long as the
copy that was stored for it waits, and for as long as a client may go on repeating it. That copy is on its way to the
group, or was there: if it failed it was handed back itself. So to leave out another loses nothing.
Rule 2: a client that gets no answer at all sends a copy of its own in the end. It says for which request
(`HANDED_BACK`), so that it is left out as well, where it comes to the same broker; or the request is, if that is later.
Rule 3: this is memory. What a restart forgets makes a second copy, as any lost answer does elsewhere; the end of all
copies of a message is one dead letter (`dead_letters`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skyrocketmq.store import PutResult

__all__ = ["HandBack", "HandBacks", "read_hand_back"]

KNOWN_S: Final = 60.0  # at most
REPEATED_S: Final = 20.0  # at least: a client asks twice for 5 s each, and then sends a copy for 3 s
KNOWN_COUNT_MAX: Final = 50_000  # above, the oldest are forgotten


class HandBack(NamedTuple):
    group: str
    log_offset: int
    delay_level: int


class HandBacks:
    """What was handed back, in the order of time. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._known: dict[HandBack, tuple[float, PutResult]] = {}

    def find(self, hand_back: HandBack, *, now_s: float) -> PutResult | None:
        """The copy that was stored for the same request a short while ago."""
        until_s, stored = self._known.get(hand_back, (now_s, None))
        return stored if now_s < until_s else None

    def remember(self, hand_back: HandBack, stored: PutResult, *, delay_s: float, now_s: float) -> None:
        """A copy is stored that will be delivered after this delay; the oldest are forgotten."""
        known = self._known
        known.pop(hand_back, None)
        known[hand_back] = now_s + max(REPEATED_S, min(KNOWN_S, delay_s)), stored
        while len(known) > KNOWN_COUNT_MAX or next(iter(known.values()))[0] < now_s:
            del known[next(iter(known))]


def read_hand_back(text: bytes | None, *, group: str, broker_name: str) -> HandBack | None:
    """The request that a client's copy speaks of; None if there is none, or it was another broker's."""
    place, _, name = (text or b"").decode("utf-8", "replace").partition(" ")
    log_offset, _, level = place.partition("/")
    if name != broker_name or not (log_offset.isdecimal() and level.isdecimal()):
        return None
    return HandBack(group, int(log_offset), int(level))
