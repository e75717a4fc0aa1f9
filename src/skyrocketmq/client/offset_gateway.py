"""The brokers as a place for a group's offsets: see `offset_store`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from skyrocketmq.client.broker_calls import BrokerCalls
from skyrocketmq.errors import NetError
from skyrocketmq.model import MessageQueue, QueueOffset

__all__ = ["BrokerOffsets"]


class BrokerOffsets:
    """Stores the offsets of one group: every few seconds without waiting for an answer, the last ones with one."""

    def __init__(self, calls: BrokerCalls, group: str) -> None:
        self._calls = calls
        self._group = group
        self._is_answered = False
        self._unreached: set[str] = set()

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Wait for answers inside this block: the next owner of a queue begins where the last offset says.

        A broker that cannot be reached is tried once in it, not once for each of its queues.
        """
        self._is_answered = True
        self._unreached.clear()
        try:
            yield
        finally:
            self._is_answered = False

    async def fetch_offset(self, queue: MessageQueue) -> QueueOffset | None:
        return await self._calls.query_offset(self._group, queue)

    async def send_offset(self, queue: MessageQueue, offset: QueueOffset) -> None:
        if not self._is_answered:
            await self._calls.update_offset(self._group, queue, offset)
            return
        if queue.broker_name in self._unreached:
            raise NetError(f"the broker {queue.broker_name} could not be reached a moment ago")
        try:
            await self._calls.update_offset(self._group, queue, offset, wait_for_answer=True)
        except NetError:
            self._unreached.add(queue.broker_name)
            raise
