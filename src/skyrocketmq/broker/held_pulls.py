"""Pulls that found nothing and wait at the broker until something comes: long polling.

Rule 1: a held pull is answered once: by a message it wants, by its deadline, or by the end of its connection.
Rule 2: while nobody waits at a queue, an arriving message costs nothing here: the queue's `is_watched` is off.
Rule 3: what one connection may let wait is limited, in number, bytes and time; so is the sum.
Rule 4: thousands that wait for one message, or whose time is over in the same moment, are run again in slices: each
looks like a new request, and the requests of others come in between.
Rule 5: what a woken pull is answered with is not decided here. It is run again, from its checks on, and may not be held
a second time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from skyrocketmq.broker.pull_filters import PullFilter
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock, Timer
from skyrocketmq.store import Arrival
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.wire.frames import Frame

__all__ = ["HELD_COUNT_MAX", "HeldPull", "HeldPulls"]

HELD_COUNT_MAX: Final = 100_000  # pulls: above, a pull that finds nothing is answered at once
HELD_BYTES_MAX: Final = 512 * 1024 * 1024  # of all, with the same outcome
CONNECTION_BYTES_MAX: Final = 64 * 1024 * 1024  # of those of one connection
PULL_BYTES: Final = 2_000
TAG_BYTES: Final = 100
SLICE_S: Final = 0.005  # for so long pulls are run again before others have their turn
WINDOW_S: Final = 0.01

_Place = tuple[str, int]  # topic, queue id


class HeldPull:
    """One pull that waits. `tag_codes` are the hashes of the tags it wants; None for all messages."""

    __slots__ = ("byte_count", "connection", "filter", "frame", "offset", "queue", "tag_codes", "timer")

    def __init__(
        self,
        frame: Frame,
        connection: Connection,
        *,
        queue: ConsumeQueue,
        offset: int,
        tag_codes: AbstractSet[int] | None,
        filter: PullFilter | None = None,
    ) -> None:
        self.frame = frame
        self.connection = connection
        self.queue = queue
        self.offset = offset
        self.tag_codes = tag_codes
        self.filter = filter
        self.timer: Timer | None = None
        # About what it takes in memory: the texts of its header, and a number for each tag that one of them names.
        self.byte_count = PULL_BYTES + 2 * sum(len(text or "") for text in (frame.ext or {}).values())
        if tag_codes is not None:
            self.byte_count += TAG_BYTES * len(tag_codes)

    def wants(
        self, news: list[Arrival], tag_codes: AbstractSet[int], is_over: Callable[[], bool] = lambda: False
    ) -> bool:
        """Whether there may be something for it among these messages of its queue, which have these tags.

        When it `is_over`, asking its filter takes too long: there may be something.
        """
        if news[-1].max_offset <= self.offset:
            return False
        if self.filter is None:
            return self.tag_codes is None or not self.tag_codes.isdisjoint(tag_codes)
        # More than a pull looks at are not asked here: it is run, and goes on from where it stops.
        wants = self.filter.wants
        return len(news) > self.filter.scan_max or any(wants(each.properties) or is_over() for each in news)


class HeldPulls:
    """All pulls that wait, by queue and by connection. `run_again` is given each pull that need not wait any longer."""

    def __init__(
        self, clock: Clock, run_again: Callable[[HeldPull], object], *, count_max: int = HELD_COUNT_MAX
    ) -> None:
        self._clock = clock
        self._run_again = run_again
        self._count_max = count_max
        self._by_place: dict[_Place, dict[HeldPull, None]] = {}
        self._by_connection: dict[Connection, set[HeldPull]] = {}
        self._bytes_of: dict[Connection, int] = {}
        self._count = 0
        self._byte_count = 0
        self._window_s = 0.0  # when the pulls of this turn began to be run
        self._waiting_turn: deque[Callable[[], object]] = deque()

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull, *, timeout_s: float, connection_max: int = HELD_COUNT_MAX) -> bool:
        """Let a pull wait; False if too many do already, of all or of this connection."""
        of_connection = self._bytes_of.get(pull.connection, 0) + pull.byte_count
        if (
            self._count >= self._count_max
            or self._byte_count + pull.byte_count > HELD_BYTES_MAX
            or of_connection > CONNECTION_BYTES_MAX
            or len(self._by_connection.get(pull.connection, ())) >= connection_max
        ):
            return False
        self._bytes_of[pull.connection] = of_connection
        self._byte_count += pull.byte_count
        queue = pull.queue
        self._by_place.setdefault((queue.topic, queue.queue_id), {})[pull] = None
        self._by_connection.setdefault(pull.connection, set()).add(pull)
        self._count += 1
        queue.is_watched = True
        pull.timer = self._clock.call_later(timeout_s, lambda: self._release(pull))
        return True

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
            if pull.timer is None:
                continue  # it was answered meanwhile
            if number and self._is_turn_over():
                self._later(partial(self._wake, pulls[number:], messages, tag_codes))
                return
            if pull.wants(messages, tag_codes, self._is_turn_over):
                self._take(pull)
                self._run(pull)

    def forget(self, connection: Connection) -> None:
        """A connection has ended: nobody waits for the answers of its pulls."""
        for pull in list(self._by_connection.get(connection, ())):
            self._take(pull)

    def release_all(self) -> None:
        """Answer everyone now: the broker is stopping."""
        while self._waiting_turn:
            self._waiting_turn.popleft()()
        for pulls in list(self._by_place.values()):
            for pull in list(pulls):
                self._take(pull)
                self._run(pull)

    def _release(self, pull: HeldPull) -> None:
        self._take(pull)
        if self._is_turn_over():
            self._later(lambda: self._run(pull))
        else:
            self._run(pull)

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
        waiting = self._by_place[place]
        del waiting[pull]
        if not waiting:
            del self._by_place[place]
            pull.queue.is_watched = False
        of_connection = self._by_connection[pull.connection]
        of_connection.discard(pull)
        if not of_connection:
            del self._by_connection[pull.connection]
        self._count -= 1
        self._byte_count -= pull.byte_count
        if of_connection:
            self._bytes_of[pull.connection] -= pull.byte_count
        else:
            del self._bytes_of[pull.connection]
        assert pull.timer is not None, "a held pull has a deadline"
        pull.timer.cancel()
        pull.timer = None
