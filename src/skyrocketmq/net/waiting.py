"""Our requests that wait for their answers on one connection, by request number, each with its deadline.

This is a module of the hot path: one request costs a future, a dict entry and an entry of a heap, and no timer. There
is one timer for the earliest deadline. An answered request leaves its heap entry behind; the heap is rebuilt once such
entries outnumber the waiting ones, so that it never grows beyond twice their number (and a few).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from skyrocketmq.hot.sends import SendAnswer
from skyrocketmq.ports import Clock, Timer
from skyrocketmq.wire.frames import Frame

__all__ = ["Answer", "WaitingRequests"]

Answer = asyncio.Future[Frame | SendAnswer | None]  # None: the deadline passed

_OPAQUE_MASK = 0x7FFF_FFFF  # the field is a signed 32-bit number on the wire
_DEAD_ENTRIES_MIN = 256  # a heap this small is not worth rebuilding
_TIMER_GRAIN_S = 0.001  # event loops count in milliseconds: a timer may fire this much before its time


class WaitingRequests:
    """Which answers are awaited, and until when. How many there may be is the connection's business."""

    __slots__ = ("_clock", "_deadlines", "_opaque", "_timer", "_timer_at", "answers")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.answers: dict[int, Answer] = {}  # by request number; changed here only
        self._deadlines: list[tuple[float, int]] = []
        self._opaque = 0
        self._timer: Timer | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        return len(self.answers)

    def next_opaque(self) -> int:
        """A request number that no waiting request has."""
        opaque = (self._opaque + 1) & _OPAQUE_MASK
        while opaque in self.answers:
            opaque = (opaque + 1) & _OPAQUE_MASK
        self._opaque = opaque
        return opaque

    def add(self, opaque: int, answer: Answer, deadline: float) -> None:
        """Wait for `opaque` until `deadline` (of the clock's monotonic time); then the answer becomes None."""
        self.answers[opaque] = answer
        deadlines = self._deadlines
        heappush(deadlines, (deadline, opaque))
        if len(deadlines) > _DEAD_ENTRIES_MIN + 2 * len(self.answers):
            self._deadlines = [entry for entry in deadlines if entry[1] in self.answers]
            heapify(self._deadlines)
        if self._timer is None or deadline < self._timer_at:
            self._arm(deadline)

    def resolve(self, opaque: int, reply: Frame | SendAnswer) -> bool:
        """Hand an answer to the request that waits for it; False if none does (it is late, or was never asked for)."""
        answer = self.answers.pop(opaque, None)
        if answer is None or answer.done():
            return False
        answer.set_result(reply)
        return True

    def resolve_sends(self, replies: Iterable[SendAnswer]) -> list[int]:
        """Hand over the answers to many sends; the numbers of those that are strays."""
        take = self.answers.pop
        strays: list[int] = []
        for reply in replies:
            answer = take(reply[0], None)
            if answer is None or answer.done():
                strays.append(reply[0])
            else:
                answer.set_result(reply)
        return strays

    def forget(self, opaque: int) -> None:
        self.answers.pop(opaque, None)

    def fail(self, make_error: Callable[[], Exception]) -> None:
        """The connection ended: so does every wait, each with an error of its own (a traceback is not shared)."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        answers, self.answers = self.answers, {}
        self._deadlines.clear()
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(make_error())

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic() + _TIMER_GRAIN_S
        deadlines, answers = self._deadlines, self.answers
        while deadlines:
            deadline, opaque = deadlines[0]
            if opaque in answers:
                if deadline > now:
                    self._arm(deadline)
                    return
                answer = answers.pop(opaque)
                if not answer.done():
                    answer.set_result(None)
            heappop(deadlines)
