"""Pulls that found nothing and wait at the broker until something comes: long polling.

Rule 1: a held pull is answered once: by a message it wants, by its deadline, or by the end of its connection.
Rule 2: while nobody waits at a queue, an arriving message costs nothing here: the queue's `is_watched` is off.
Rule 3: what one connection may let wait is limited, in number, bytes and time; so is the sum.
Rule 4: thousands that wait for one message, or whose time is over in the same moment, are run again in slices: each
looks like a new request, and the requests of others come in between.
Rule 5: what a woken pull is answered with is not decided here. It is run again, with its plan, and may not be held a
second time.
Rule 6: one timer serves all of them. Deadlines are rounded up to `TICK_S`, and pulls that share one are released
together. Apache's brokers look every five seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import partial
from heapq import heappop, heappush
from math import ceil
from typing import Final

from skyrocketmq.broker.pull_rules import PullPlan
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock, Timer
from skyrocketmq.store import Arrival
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.wire.pull_frames import PullRequest

__all__ = ["HELD_COUNT_MAX", "HeldPull", "HeldPulls"]

HELD_COUNT_MAX: Final = 100_000  # pulls: above, a pull that finds nothing is answered at once
HELD_BYTES_MAX: Final = 512 * 1024 * 1024  # of all, with the same outcome
CONNECTION_BYTES_MAX: Final = 64 * 1024 * 1024  # of those of one connection
PULL_BYTES: Final = 2_000
TAG_BYTES: Final = 100
SLICE_S: Final = 0.005  # for so long pulls are run again before others have their turn
WINDOW_S: Final = 0.01
TICK_S: Final = 0.1  # by which a pull may wait longer than it asked for

_Place = tuple[str, int]  # topic, queue id


class HeldPull:
    """One pull that waits, with the plan that it was found good for, and the version of the tables at that time."""

    __slots__ = ("byte_count", "connection", "plan", "queue", "request", "tick", "version")

    def __init__(
        self, request: PullRequest, connection: Connection, plan: PullPlan, *, version: int, queue: ConsumeQueue
    ) -> None:
        self.request = request
        self.connection = connection
        self.plan = plan
        self.version = version
        self.queue = queue
        self.tick = 0  # its deadline; 0 when it does not wait any longer
        # About what it takes in memory: the texts of its header, and a number for each tag that one of them names.
        self.byte_count = PULL_BYTES + 2 * len(request.header.subscription or "")
        if (frame := request.frame) is not None:
            self.byte_count += len(frame.body) + 2 * sum(len(text or "") for text in (frame.ext or {}).values())
        if plan.tag_codes is not None:
            self.byte_count += TAG_BYTES * len(plan.tag_codes)

    def wants(
        self, news: list[Arrival], tag_codes: AbstractSet[int], is_over: Callable[[], bool] = lambda: False
    ) -> bool:
        """Whether there may be something for it among these messages of its queue, which have these tags.

        When it `is_over`, asking its filter takes too long: there may be something.
        """
        if news[-1].max_offset <= (self.request.header.queue_offset or 0):
            return False
        filter_, own_codes = self.plan.filter, self.plan.tag_codes
        if filter_ is None:
            return own_codes is None or not own_codes.isdisjoint(tag_codes)
        # More than a pull looks at are not asked here: it is run, and goes on from where it stops.
        wants = filter_.wants
        return len(news) > filter_.scan_max or any(wants(each.properties) or is_over() for each in news)


class _Waiting:
    """The pulls of one connection."""

    __slots__ = ("byte_count", "pulls")

    def __init__(self) -> None:
        self.byte_count = 0
        self.pulls: dict[HeldPull, None] = {}


class HeldPulls:
    """All pulls that wait, by queue and by connection. `run_again` is given each pull that need not wait any longer."""

    def __init__(
        self, clock: Clock, run_again: Callable[[HeldPull], object], *, count_max: int = HELD_COUNT_MAX
    ) -> None:
        self._clock = clock
        self._run_again = run_again
        self._count_max = count_max
        self._by_place: dict[_Place, dict[HeldPull, None]] = {}
        self._by_connection: dict[Connection, _Waiting] = {}
        self._by_tick: dict[int, dict[HeldPull, None]] = {}
        self._ticks: list[int] = []  # of `_by_tick`, a heap
        self._timer: Timer | None = None
        self._timer_tick = 0  # when the timer goes off
        self._count = 0
        self._byte_count = 0
        self._window_s = 0.0  # when the pulls of this turn began to be run
        self._waiting_turn: deque[Callable[[], object]] = deque()

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull, *, timeout_s: float, connection_max: int = HELD_COUNT_MAX) -> bool:
        """Let a pull wait; False if too many do already, of all or of this connection."""
        waiting = self._by_connection.get(pull.connection)
        if waiting is None:
            waiting = self._by_connection[pull.connection] = _Waiting()
        if (
            self._count >= self._count_max
            or self._byte_count + pull.byte_count > HELD_BYTES_MAX
            or waiting.byte_count + pull.byte_count > CONNECTION_BYTES_MAX
            or len(waiting.pulls) >= connection_max
        ):
            if not waiting.pulls:
                del self._by_connection[pull.connection]
            return False
        waiting.pulls[pull] = None
        waiting.byte_count += pull.byte_count
        self._byte_count += pull.byte_count
        self._count += 1
        queue = pull.queue
        queue.is_watched = True
        place = (queue.topic, queue.queue_id)
        at_place = self._by_place.get(place)
        if at_place is None:
            at_place = self._by_place[place] = {}
        at_place[pull] = None
        pull.tick = tick = ceil((self._clock.monotonic() + timeout_s) / TICK_S)
        at_tick = self._by_tick.get(tick)
        if at_tick is None:
            at_tick = self._by_tick[tick] = {}
            heappush(self._ticks, tick)
            if self._timer is None or tick < self._timer_tick:
                self._set_timer()
        at_tick[pull] = None
        return True

    def _set_timer(self) -> None:
        """Let the timer go off at the next deadline."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_tick = self._ticks[0]
        delay_s = max(0.0, self._timer_tick * TICK_S - self._clock.monotonic())
        self._timer = self._clock.call_later(delay_s, self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        due: list[HeldPull] = []
        while self._ticks and self._ticks[0] * TICK_S <= now:
            due += self._by_tick.pop(heappop(self._ticks))
        if self._ticks:
            self._set_timer()
        for pull in due:
            self._take(pull)
        self._run_all(due)

    def _run_all(self, pulls: list[HeldPull]) -> None:
        """Run pulls that wait no longer: as many as a turn has time for, then the rest."""
        for number, pull in enumerate(pulls):
            if number and self._is_turn_over():
                self._later(partial(self._run_all, pulls[number:]))
                return
            self._run(pull)

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Messages have come: run the pulls again that want one of them."""
        news: dict[_Place, list[Arrival]] = {}
        for arrival in arrivals:
            place = (arrival.topic, arrival.queue_id)
            if place in self._by_place:
                # Each waiting pull is looked at once, however many messages have come together.
                news.setdefault(place, []).append(arrival)
        for place, messages in news.items():
            tag_codes = {message.tags_code for message in messages}
            self._wake(list(self._by_place.get(place, ())), messages, tag_codes)

    def _wake(self, pulls: list[HeldPull], messages: list[Arrival], tag_codes: AbstractSet[int]) -> None:
        """Run those of them again that want one of the messages: as many as a turn has time for, then the rest."""
        for number, pull in enumerate(pulls):
            if not pull.tick:
                continue  # it was answered meanwhile
            if number and self._is_turn_over():
                self._later(partial(self._wake, pulls[number:], messages, tag_codes))
                return
            if pull.wants(messages, tag_codes, self._is_turn_over):
                self._take(pull)
                self._run(pull)

    def forget(self, connection: Connection) -> None:
        """A connection has ended: nobody waits for the answers of its pulls."""
        waiting = self._by_connection.get(connection)
        for pull in list(waiting.pulls) if waiting is not None else ():
            self._take(pull)

    def release_all(self) -> None:
        """Answer everyone now: the broker is stopping."""
        while self._waiting_turn:
            self._waiting_turn.popleft()()
        for pulls in list(self._by_place.values()):
            for pull in list(pulls):
                self._take(pull)
                self._run(pull)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self, pull: HeldPull) -> None:
        if not pull.connection.is_closed:
            self._run_again(pull)

    def _is_turn_over(self) -> bool:
        """Whether pulls have been run for a slice without a pause. A while after that a new turn begins anyway."""
        now_s = self._clock.monotonic()
        if now_s - self._window_s > WINDOW_S and not self._waiting_turn:
            self._window_s = now_s
        return now_s - self._window_s > SLICE_S or bool(self._waiting_turn)

    def _later(self, work: Callable[[], object]) -> None:
        if not self._waiting_turn:
            self._clock.call_later(0, self._next_turn)
        self._waiting_turn.append(work)

    def _next_turn(self) -> None:
        """Others have had theirs."""
        self._window_s = self._clock.monotonic()
        waiting, self._waiting_turn = self._waiting_turn, deque()
        while waiting:
            waiting.popleft()()
            if waiting and self._is_turn_over():
                waiting.extend(self._waiting_turn)
                self._waiting_turn = waiting
                self._clock.call_later(0, self._next_turn)
                return

    def _take(self, pull: HeldPull) -> None:
        place = (pull.queue.topic, pull.queue.queue_id)
        at_place = self._by_place[place]
        del at_place[pull]
        if not at_place:
            del self._by_place[place]
            pull.queue.is_watched = False
        waiting = self._by_connection[pull.connection]
        del waiting.pulls[pull]
        waiting.byte_count -= pull.byte_count
        if not waiting.pulls:
            del self._by_connection[pull.connection]
        self._count -= 1
        self._byte_count -= pull.byte_count
        at_tick = self._by_tick.get(pull.tick)
        if at_tick is not None:  # an empty one stays until its time has come
            at_tick.pop(pull, None)
        pull.tick = 0
