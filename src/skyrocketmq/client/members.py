"""What a client instance wants to know of the producers and consumers that use it.

A producer or consumer is a member of an instance from its start to its end. The instance speaks for its members in
heartbeats, keeps the routes of their topics, and hands them what brokers ask of a client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from skyrocketmq.model import ConsumerData, MessageQueue, MessageView
from skyrocketmq.wire.bodies_clients import ConsumeMessageDirectlyResult, ConsumerRunningInfo

__all__ = ["ConsumerMember", "ProducerMember"]


class ProducerMember(Protocol):
    """A producer, under its group's name on the wire."""

    @property
    def wire_group(self) -> str: ...

    def topics(self) -> Iterable[str]:
        """The topics whose routes are to be kept fresh."""
        ...


class ConsumerMember(Protocol):
    """A consumer of any kind, under its group's name on the wire."""

    @property
    def wire_group(self) -> str: ...

    def topics(self) -> Iterable[str]:
        """The topics whose routes are to be kept fresh."""
        ...

    def heartbeat_data(self) -> ConsumerData:
        """What brokers are to know of it."""
        ...

    def route_changed(self, topic: str) -> None:
        """A topic has other queues, or other brokers, than before."""
        ...

    def members_changed(self) -> None:
        """40: somebody has joined or left the group."""
        ...

    async def persist_offsets(self) -> None:
        """Called every few seconds."""
        ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """220: go on elsewhere in these queues, as far as they are held."""
        ...

    def consumed_offsets(self, topic: str) -> dict[MessageQueue, int]:
        """221: how far it is in the queues it holds."""
        ...

    def running_info(self) -> ConsumerRunningInfo:
        """307: how it is doing."""
        ...

    async def consume_directly(self, message: MessageView) -> ConsumeMessageDirectlyResult:
        """309: handle this message now; nothing is committed or sent back."""
        ...
