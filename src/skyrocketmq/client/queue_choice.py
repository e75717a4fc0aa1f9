"""Which queue the next message goes to, when its sender does not say.

Queues take turns. After a failed attempt another broker's queue is preferred; where latencies are watched, queues of
brokers that answer slowly are passed over instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocketmq.client.fault_table import FaultTable
from skyrocketmq.model import MessageQueue

__all__ = ["QueueChoice"]

INDEX_MASK: Final = 0x7FFF_FFFF  # the index is a Java int that never turns negative


class QueueChoice:
    """The turns of one topic's queues; `start` is any number, a random one spreads the producers.

    It outlives the list of queues: a new route does not begin the turns anew. `queues` must not be empty.
    """

    __slots__ = ("_index",)

    def __init__(self, *, start: int) -> None:
        self._index = start

    def choose(self, queues: Sequence[MessageQueue], *, avoid_broker: str | None = None) -> MessageQueue:
        """The next queue, and on a retry the next that is not on the broker that failed, if there is one."""
        if avoid_broker is not None:
            for _ in queues:
                queue = queues[self._next_index() % len(queues)]
                if queue.broker_name != avoid_broker:
                    return queue
        index = self._index = (self._index + 1) & INDEX_MASK
        return queues[index % len(queues)]

    def choose_healthy(
        self, queues: Sequence[MessageQueue], faults: FaultTable, *, now_ms: int, avoid_broker: str | None = None
    ) -> MessageQueue:
        """The next queue of a broker that is available; if none is, one of a broker that is least bad.

        On a retry not that of the broker that failed, if there is another.
        """
        start = self._next_index()
        for step in range(len(queues)):
            queue = queues[(start + step) % len(queues)]
            if queue.broker_name != avoid_broker and faults.is_available(queue.broker_name, now_ms=now_ms):
                return queue
        if avoid_broker is not None:
            return self.choose(queues, avoid_broker=avoid_broker)
        broker_name = faults.take_turn(now_ms=now_ms)
        assert broker_name is not None, "a broker that is not available is in the table"
        own = [queue for queue in queues if queue.broker_name == broker_name]
        if own:
            return own[start % len(own)]
        faults.forget(broker_name)  # the topic is not there: another topic's calls have left it in the table
        return self.choose(queues)

    def _next_index(self) -> int:
        self._index = (self._index + 1) & INDEX_MASK
        return self._index
