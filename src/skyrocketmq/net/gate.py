"""Senders that wait for room: in turn, each until its own deadline.

Rule 1: a sender that comes while others wait goes to the end of the queue.
Rule 2: a turn is never lost: one that was given to a sender who had just given up passes to the next.
Rule 3: an opening lets in a few at a time, and each who went in lets in the next, so that room for one frame is not
        taken by ten thousand.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from skyrocketmq.ports import Clock

__all__ = ["Gate"]

ADMITTED_TOGETHER_MAX = 64  # enough to fill one write, few enough to keep the limit honest


def _no_room() -> int:
    return 0


class Gate:
    """The queue before a door. `room` says how many may come in now."""

    __slots__ = ("_room", "turns")

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room
        self.turns: deque[asyncio.Future[None]] = deque()  # of those who wait; changed here only

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def is_open(self) -> bool:
        """Whether a sender may go in without waiting."""
        return not self.turns and self._room() > 0

    async def enter(self, *, clock: Clock, timeout_s: float) -> None:
        """Wait for one's turn; raise `TimeoutError` if it does not come in time, or what `fail` was given."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.turns.append(turn)
        try:
            async with clock.timeout(timeout_s):
                await turn
        except BaseException:
            if turn in self.turns:
                self.turns.remove(turn)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self.admit()
            raise

    def admit(self, count_max: int = ADMITTED_TOGETHER_MAX) -> None:
        """Let in those who are first in the queue, as far as there is room."""
        if not self.turns:
            return
        count = min(self._room(), count_max)
        while count > 0 and self.turns:
            turn = self.turns.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1

    def fail(self, make_error: Callable[[], Exception]) -> None:
        """The door is gone: everyone who waits gets the error."""
        self._room = _no_room  # lets go of the connection: it is freed now, and not when cycles are next collected
        turns, self.turns = self.turns, deque()
        for turn in turns:
            if not turn.done():
                turn.set_exception(make_error())
