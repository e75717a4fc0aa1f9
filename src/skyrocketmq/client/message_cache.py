"""The messages of one queue that a consumer has fetched and not yet finished.

Messages arrive in the order of their offsets, and are finished in any order when consumed concurrently. What may be
committed is the smallest offset that is not finished: offsets are kept in a deque in order, finished ones leave it only
at its ends, so that each step costs the same however many wait. Hot: every consumed message passes here twice.

An orderly consumer takes messages from the head, and then either commits them or puts them back; until then they count.

Rule 1: no clock in here. Who calls says what time it is: by both clocks where a lease is at stake (see `moments`).
Rule 2: a cache that is dropped is left to its workers; they see the flag and let the rest of their work lie.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import lt
from typing import Final

from skyrocketmq.client.moments import Moment
from skyrocketmq.model import MessageView, QueueOffset
from skyrocketmq.wire.bodies_clients import ProcessQueueInfo

__all__ = ["MessageCache"]

MIB: Final = 1024 * 1024
LOCK_LIFE_MS: Final = 30_000  # how long a consumer trusts a lock; the broker keeps it for twice as long
PULL_IDLE_S: Final = 120.0  # a queue without a pull for so long is stuck, and begun anew


class MessageCache:
    """The unfinished messages of one queue, in order, and what else is known of the queue while it is held."""

    __slots__ = (
        "_highest_offset",
        "_messages",
        "_order",
        "_started_s",
        "_taken",
        "backlog_count",
        "body_bytes",
        "is_dropped",
        "is_locked",
        "last_consume_ms",
        "locked_at",
        "pulled_at",
        "unlock_attempt_count",
    )

    def __init__(self, now: Moment) -> None:
        self.body_bytes = 0  # of all unfinished messages, taken ones too
        self.backlog_count = 0  # messages of the queue that follow the last pull
        self.is_dropped = False
        self.is_locked = False
        self.locked_at = now
        self.pulled_at = now
        self.last_consume_ms = now.wall_ms
        self.unlock_attempt_count = 0
        self._order: deque[int] = deque()  # offsets, ascending; finished ones may still lie between the ends
        self._messages: dict[int, MessageView] = {}
        self._taken: dict[int, MessageView] = {}
        self._started_s: dict[int, float] = {}
        self._highest_offset = -1

    # What is there ----------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Unfinished messages, those taken by an orderly worker too."""
        return len(self._messages) + len(self._taken)

    @property
    def waiting_count(self) -> int:
        """Unfinished messages that nobody has taken."""
        return len(self._messages)

    @property
    def first_offset(self) -> QueueOffset | None:
        return QueueOffset(self._order[0]) if self._order else None

    @property
    def last_offset(self) -> QueueOffset | None:
        return QueueOffset(self._order[-1]) if self._order else None

    @property
    def span(self) -> int:
        """How far the first and the last waiting message are apart: one slow message must not let it grow for ever."""
        return self._order[-1] - self._order[0] if self._order else 0

    def is_lock_expired(self, now: Moment) -> bool:
        return now.passed_ms(self.locked_at) > LOCK_LIFE_MS

    def has_lock(self, now: Moment) -> bool:
        """Whether the broker has confirmed the lock lately: nobody else reads the queue."""
        return self.is_locked and not self.is_lock_expired(now)

    def is_pull_expired(self, now_s: float) -> bool:
        """By monotonic time: a clock that is set forward makes no queue stuck."""
        return now_s - self.pulled_at.monotonic_s > PULL_IDLE_S

    # In and out, concurrently -----------------------------------------------------------------------------------------

    def put(self, messages: Sequence[MessageView], *, queue_end: int | None = None) -> None:
        """Add what a pull brought; a message that is here already is not added again.

        `queue_end` is the queue's largest offset, as the broker said with the pull.
        """
        offsets = [message.queue_offset for message in messages]
        if offsets and offsets[0] > self._highest_offset and all(map(lt, offsets, islice(offsets, 1, None))):
            # As nearly always: all are new, and follow what is here in order.
            self._messages.update(zip(offsets, messages, strict=True))
            self._order.extend(offsets)
            self.body_bytes += sum([len(message.body) for message in messages])
            self._highest_offset = offsets[-1]
        elif offsets:
            self._put_unordered(messages)
        if messages and queue_end is not None:
            self.backlog_count = max(0, queue_end - messages[-1].queue_offset)

    def _put_unordered(self, messages: Sequence[MessageView]) -> None:
        known = self._messages
        for message in messages:
            offset = message.queue_offset
            if offset in known or offset in self._taken:
                continue
            known[offset] = message
            self.body_bytes += len(message.body)
            if offset > self._highest_offset:
                self._highest_offset = offset
        self._sort()

    def remove(self, messages: Iterable[MessageView], *, now_ms: int) -> int | None:
        """Drop finished messages. Returns the offset to commit: the smallest that is not finished, else the one after
        the highest seen; None if nothing was here before."""
        self.last_consume_ms = now_ms
        known = self._messages
        if not known:
            return None
        started, finish = self._started_s, known.pop
        removed_bytes = 0
        for message in messages:
            offset = message.queue_offset
            if finish(offset, None) is not None:
                removed_bytes += len(message.body)
                if started:
                    started.pop(offset, None)
        self.body_bytes -= removed_bytes
        order = self._order
        if not known:
            order.clear()
            return self._highest_offset + 1
        if order[0] not in known or order[-1] not in known:
            self._trim()
        return order[0]

    def has(self, message: MessageView) -> bool:
        """Whether the message is not finished."""
        return message.queue_offset in self._messages

    def mark_started(self, messages: Iterable[MessageView], *, now_s: float) -> None:
        """Note that a handler has begun with these messages."""
        started = self._started_s
        for message in messages:
            started[message.queue_offset] = now_s

    def find_overdue(self, *, now_s: float, timeout_s: float) -> MessageView | None:
        """The first message, if a handler has had it for longer than `timeout_s`: it holds up the offset."""
        if not self._order:
            return None
        started_s = self._started_s.get(self._order[0])
        if started_s is None or now_s - started_s <= timeout_s:
            return None
        return self._messages[self._order[0]]

    # In and out, in order ---------------------------------------------------------------------------------------------

    def take_for_order(self, count: int, *, now_ms: int) -> list[MessageView]:
        """Take up to `count` messages from the head; `commit` or `put_back` says what became of them."""
        self.last_consume_ms = now_ms
        batch: list[MessageView] = []
        while self._order and len(batch) < count:
            offset = self._order.popleft()
            message = self._messages.pop(offset)
            self._taken[offset] = message
            batch.append(message)
            self._trim()
        return batch

    def put_back(self, messages: Sequence[MessageView] | None = None) -> None:
        """Return taken messages (all, or these, maybe with another count of attempts) to the head."""
        returned = list(self._taken.values()) if messages is None else messages
        for message in returned:
            if self._taken.pop(message.queue_offset, None) is not None:
                self._messages[message.queue_offset] = message
        self._sort()

    def commit(self) -> QueueOffset | None:
        """Finish all taken messages. Returns the offset after the last of them; None if none were taken."""
        if not self._taken:
            return None
        following = max(self._taken) + 1
        self.body_bytes -= sum(len(message.body) for message in self._taken.values())
        self._taken.clear()
        return QueueOffset(following)

    def clear(self) -> None:
        """Forget every message, as after a reset of the offset."""
        self._order.clear()
        self._messages.clear()
        self._taken.clear()
        self._started_s.clear()
        self.body_bytes = 0
        self._highest_offset = -1

    def to_info(self, *, commit_offset: int) -> ProcessQueueInfo:
        """What the consumer tells an administrator about this queue."""
        return ProcessQueueInfo(
            cached_msg_count=self.waiting_count,
            cached_msg_min_offset=self.first_offset or 0,
            cached_msg_max_offset=self.last_offset or 0,
            cached_msg_size_mib=self.body_bytes // MIB,
            commit_offset=commit_offset,
            dropped=self.is_dropped,
            last_consume_timestamp=self.last_consume_ms,
            last_lock_timestamp=self.locked_at.wall_ms,
            last_pull_timestamp=self.pulled_at.wall_ms,
            locked=self.is_locked,
            transaction_msg_count=len(self._taken),
            transaction_msg_min_offset=min(self._taken, default=0),
            transaction_msg_max_offset=max(self._taken, default=0),
            try_unlock_times=self.unlock_attempt_count,
        )

    def _trim(self) -> None:
        """Let finished offsets leave the ends, so that both ends name messages that are here."""
        order, known = self._order, self._messages
        while order and order[0] not in known:
            order.popleft()
        while order and order[-1] not in known:
            order.pop()

    def _sort(self) -> None:
        self._order = deque(sorted(self._messages))
