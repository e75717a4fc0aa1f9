"""Pulls that found nothing and wait at the broker until something comes: long polling.

Rule 1: a held pull is answered once: by a message it wants, by its deadline, or by the end of its connection.
Rule 2: while nobody waits at a queue, an arriving message costs nothing here: the queue's `is_watched` is off.
Rule 3: what a woken pull is answered with is not decided here. It is run again, from its checks on, and may not be held
a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from skyrocketmq.broker.pull_filters import PullFilter
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock, Timer
from skyrocketmq.store.appender import Arrival
from skyrocketmq.store.consume_queue import ConsumeQueue
from skyrocketmq.wire.frames import Frame

__all__ = ["HELD_COUNT_MAX", "HeldPull", "HeldPulls"]

HELD_COUNT_MAX: Final = 100_000  # pulls: above, a pull that finds nothing is answered at once

_Place = tuple[str, int]  # topic, queue id


class HeldPull:
    """One pull that waits. `tag_codes` are the hashes of the tags it wants; None for all messages."""

    __slots__ = ("connection", "filter", "frame", "offset", "queue", "tag_codes", "timer")

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

    def wants(self, news: list[Arrival], tag_codes: AbstractSet[int]) -> bool:
        """Whether there may be something for it among these messages of its queue, which have these tags."""
        if news[-1].max_offset <= self.offset:
            return False
        if self.filter is None:
            return self.tag_codes is None or not self.tag_codes.isdisjoint(tag_codes)
        # More than a pull looks at are not asked here: it is run, and goes on from where it stops.
        return len(news) > self.filter.scan_max or any(self.filter.wants(each.properties) for each in news)


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
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull, *, timeout_s: float) -> bool:
        """Let a pull wait; False if too many do already."""
        if self._count >= self._count_max:
            return False
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
            waiting = self._by_place.get(place, {})
            tag_codes = {message.tags_code for message in messages}
            for pull in [pull for pull in waiting if pull.wants(messages, tag_codes)]:
                self._release(pull)

    def forget(self, connection: Connection) -> None:
        """A connection has ended: nobody waits for the answers of its pulls."""
        for pull in list(self._by_connection.get(connection, ())):
            self._take(pull)

    def release_all(self) -> None:
        """Answer everyone now: the broker is stopping."""
        for pulls in list(self._by_place.values()):
            for pull in list(pulls):
                self._release(pull)

    def _release(self, pull: HeldPull) -> None:
        self._take(pull)
        if not pull.connection.is_closed:
            self._run_again(pull)

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
        assert pull.timer is not None, "a held pull has a deadline"
        pull.timer.cancel()
