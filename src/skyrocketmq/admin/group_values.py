"""What the administration shows of consumer groups and their members."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from skyrocketmq.admin.nodes import BrokerNode
from skyrocketmq.model import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    MessageQueue,
    SubscriptionData,
    SubscriptionGroupConfig,
)

__all__ = [
    "ClientInfo",
    "GroupChange",
    "GroupConnections",
    "GroupFinding",
    "GroupProgress",
    "GroupSummary",
    "QueueProgress",
    "TimeSpan",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """A connected client, as the brokers know it."""

    client_id: str
    address: str
    language: str
    version: str
    nodes: tuple[BrokerNode, ...]  # the brokers that it is connected to


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConnections:
    """The members of a consumer group and what they subscribe to; all is empty while nobody is connected."""

    group: str
    members: tuple[ClientInfo, ...]
    subscriptions: tuple[SubscriptionData, ...]
    consume_type: ConsumeType | None
    message_model: MessageModel | None
    consume_from: ConsumeFromWhere | None

    @property
    def is_online(self) -> bool:
        return bool(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """How far a group is in one queue."""

    queue: MessageQueue
    broker_offset: int  # what the next message gets
    consumer_offset: int  # what the group consumes next
    last_consumed_at: datetime | None  # when the last message that it consumed had been stored
    client_id: str | None = None  # who holds the queue, where that was asked for

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """How far a group is in all its queues, sorted."""

    group: str
    queues: tuple[QueueProgress, ...]
    consume_tps: float

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in one line. Without members it has neither version nor type nor model."""

    group: str
    member_count: int
    version: str | None  # the oldest of its members'
    consume_type: ConsumeType | None
    message_model: MessageModel | None
    consume_tps: float
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A group on one broker, before and after."""

    node: BrokerNode
    before: SubscriptionGroupConfig
    after: SubscriptionGroupConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan:
    """When the first and last message of a queue were stored, the one that a group consumed last, and its delay."""

    queue: MessageQueue
    first_at: datetime | None
    last_at: datetime | None
    consumed_at: datetime | None
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFinding:
    """Something that is wrong with a member of a group, and with which queue or topic."""

    client_id: str
    text: str
