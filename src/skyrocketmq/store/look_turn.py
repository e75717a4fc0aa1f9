"""How long one read may look into messages: what one consumer asks for, all others wait for.

A filter costs what its expression and the messages' properties make it cost, which strangers decide. So the time is
measured: a read that has taken its turn stops, and its consumer goes on from there with the next pull.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["LookTurn"]

LOOK_S_MAX: Final = 0.01


class LookTurn:
    """A turn that begins when it is made."""

    __slots__ = ("_end_s", "_monotonic")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.begin()

    def begin(self) -> None:
        """Others have just had theirs, while this read waited for the disk."""
        self._end_s = self._monotonic() + LOOK_S_MAX

    def is_over(self) -> bool:
        return self._monotonic() >= self._end_s
