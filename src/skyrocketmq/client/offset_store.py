"""How far a consumer group has got in each queue.

A consumer notes offsets in memory as it finishes messages and persists them every few seconds. Members that share
their group's messages keep them at the broker (`RemoteOffsets`, here); a broadcasting consumer reads everything alone
and keeps its own in a file (`local_offsets.LocalOffsets`).

Rule 1: None means that nothing is stored. That nothing could be found out is an exception: beginning a queue at the
wrong place because a broker was slow to answer would lose messages or repeat millions of them.
Rule 2: to persist is best effort. What fails is logged and goes with the next round. To `store` is not: it raises.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from skyrocketmq.errors import MQError, NetError
from skyrocketmq.model import MessageQueue, QueueOffset

__all__ = ["OffsetGateway", "OffsetStore", "OffsetTable", "RemoteOffsets"]

logger = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """What a consumer needs of either store."""

    async def load(self) -> None:
        """Read what is needed before the consumer starts; raises if it cannot be read."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        """Note an offset in memory; with `only_up` a smaller one than the known is ignored."""
        ...

    def find(self, queue: MessageQueue) -> QueueOffset | None:
        """What memory knows."""
        ...

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        """What memory knows, else what is stored."""
        ...

    async def read_stored(self, queue: MessageQueue) -> QueueOffset | None:
        """What is stored; memory takes it over."""
        ...

    async def persist(self, queue: MessageQueue, *, wait_for_answer: bool = False) -> None:
        """Store the offset of a queue that is being given up."""
        ...

    async def persist_all(self, held: Collection[MessageQueue], *, wait_for_answer: bool = False) -> None:
        """Store the offsets of the queues that the consumer holds now."""
        ...

    async def store(self, held: Collection[MessageQueue]) -> None:
        """The same, and raise an `MQError` unless all of them are stored."""
        ...

    def forget(self, queue: MessageQueue) -> None:
        """Drop the memory of a queue that another member may go on with."""
        ...

    def of_topic(self, topic: str) -> dict[MessageQueue, QueueOffset]:
        """What memory knows of a topic, as a new dict."""
        ...


class OffsetTable:
    """The memory of both stores."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, QueueOffset] = {}

    def update(self, queue: MessageQueue, offset: int, *, only_up: bool = False) -> None:
        # Hot, and to call a NewType costs as much as the rest: a consumer notes an offset with every message.
        if not only_up or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset  # type: ignore[assignment]

    def find(self, queue: MessageQueue) -> QueueOffset | None:
        return self._offsets.get(queue)

    def of_topic(self, topic: str) -> dict[MessageQueue, QueueOffset]:
        return {queue: offset for queue, offset in self._offsets.items() if queue.topic == topic}


class OffsetGateway(Protocol):
    """The way to the brokers, for one group."""

    async def fetch_offset(self, queue: MessageQueue) -> QueueOffset | None:
        """The stored offset, None if the broker has none; raises an `MQError` if it cannot be found out."""
        ...

    async def send_offset(self, queue: MessageQueue, offset: QueueOffset, *, wait_for_answer: bool) -> None:
        """Store an offset at the queue's broker; may raise an `MQError`."""
        ...


class RemoteOffsets(OffsetTable):
    """Offsets at the brokers, one entry a queue and group."""

    def __init__(self, gateway: OffsetGateway) -> None:
        super().__init__()
        self._gateway = gateway

    async def load(self) -> None:
        """Nothing to do: each offset is fetched when its queue is taken over."""

    async def read(self, queue: MessageQueue) -> QueueOffset | None:
        known = self._offsets.get(queue)
        return known if known is not None else await self.read_stored(queue)

    async def read_stored(self, queue: MessageQueue) -> QueueOffset | None:
        offset = await self._gateway.fetch_offset(queue)
        if offset is not None:
            self._offsets[queue] = offset
        return offset

    async def persist(self, queue: MessageQueue, *, wait_for_answer: bool = False) -> None:
        await self.persist_all([queue], wait_for_answer=wait_for_answer)

    async def persist_all(self, held: Collection[MessageQueue], *, wait_for_answer: bool = False) -> None:
        """All of them, changed or not: a broker may have lost its last seconds."""
        for queue, error in await self._send(held, wait_for_answer=wait_for_answer):
            extra = {"queue": str(queue), "offset": self._offsets.get(queue), "error": str(error)}
            logger.warning("offset not persisted", extra=extra)

    async def store(self, held: Collection[MessageQueue]) -> None:
        failed = await self._send(held, wait_for_answer=True)
        if failed:
            error = failed[0][1]
            error.add_note(
                f"offsets not stored: {', '.join(str(queue) for queue, _ in failed)}. Commit them once more."
            )
            raise error

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)

    async def _send(
        self, queues: Collection[MessageQueue], *, wait_for_answer: bool
    ) -> list[tuple[MessageQueue, MQError]]:
        """Send what is known of these queues; those that failed. A broker that does not answer is waited for once."""
        failed: list[tuple[MessageQueue, MQError]] = []
        silent: dict[str, NetError] = {}
        for queue in queues:
            offset = self._offsets.get(queue)
            if offset is None:
                continue
            if queue.broker_name in silent:
                failed.append((queue, silent[queue.broker_name]))
                continue
            try:
                await self._gateway.send_offset(queue, offset, wait_for_answer=wait_for_answer)
            except MQError as error:
                failed.append((queue, error))
                if wait_for_answer and isinstance(error, NetError):
                    silent[queue.broker_name] = error
        return failed
