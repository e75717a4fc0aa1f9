"""What the administration shows of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skyrocketmq.admin.nodes import BrokerNode
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue, TopicConfig
from skyrocketmq.model.names import PERM_INHERIT, PERM_READ, PERM_READ_WRITE, PERM_WRITE

__all__ = ["QueueStats", "TopicChange", "TopicStats", "TopicTraffic", "TopicUse", "permission_bits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """The bounds of one queue: its first message still stored, the number that its next one gets."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_stored_at: datetime | None  # of its last message

    @property
    def message_count(self) -> int:
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """The bounds of every queue of a topic, sorted."""

    topic: str
    queues: tuple[QueueStats, ...]

    @property
    def message_count(self) -> int:
        return sum(queue.message_count for queue in self.queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """A topic on one broker, before and after; nothing before if it was made just now."""

    node: BrokerNode
    before: TopicConfig | None
    after: TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """Where a topic is, and which groups consume it."""

    topic: str
    clusters: tuple[str, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTraffic:
    """How much comes in and goes out: a topic, and one group that consumes it. Without any, `group` is None."""

    topic: str
    group: str | None
    lag: int  # messages that the group has not consumed
    in_tps: float
    out_tps: float
    in_count_24h: int
    out_count_24h: int


_NAMED: Final[Mapping[str, int]] = {
    "": 0,
    "R": PERM_READ,
    "W": PERM_WRITE,
    "RW": PERM_READ_WRITE,
    "RWX": PERM_READ_WRITE | PERM_INHERIT,
}


def permission_bits(permission: str | int) -> int:
    """The bits of a permission that is given as `R`, `W`, `RW`, or as the number 4, 2, 6."""
    if isinstance(permission, str):
        bits = _NAMED.get(permission.upper().replace("-", ""))
        if bits is None:
            raise IllegalArgument(f"the permission {permission!r} is none of R, W, RW")
        return bits
    if permission not in _NAMED.values():
        raise IllegalArgument(f"the permission {permission} is none of 2 (write), 4 (read), 6 (both)")
    return permission
