"""The brokers as a place for a group's offsets: see `offset_store`."""

from __future__ import annotations

from skyrocketmq.client.broker_calls import BrokerCalls
from skyrocketmq.model import MessageQueue, QueueOffset

__all__ = ["BrokerOffsets"]


class BrokerOffsets:
    """Stores the offsets of one group: every few seconds without waiting for an answer, the last ones with one."""

    def __init__(self, calls: BrokerCalls, group: str) -> None:
        self._calls = calls
        self._group = group

    async def fetch_offset(self, queue: MessageQueue) -> QueueOffset | None:
        return await self._calls.query_offset(self._group, queue)

    async def send_offset(self, queue: MessageQueue, offset: QueueOffset, *, wait_for_answer: bool) -> None:
        await self._calls.update_offset(self._group, queue, offset, wait_for_answer=wait_for_answer)
