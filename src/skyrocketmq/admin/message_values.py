"""What the administration shows of messages besides the messages themselves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from skyrocketmq.client.send_result import SendStatus
from skyrocketmq.errors import MQError
from skyrocketmq.model import MessageQueue
from skyrocketmq.wire.trace import EndTransaction, Pub, SubAfter, SubBefore

__all__ = ["ConsumeTrace", "ConsumerTrack", "MessageTrace", "Probe", "TrackState"]


class TrackState(Enum):
    """What became of a message in one group."""

    CONSUMED = "consumed"
    FILTERED = "consumed but filtered"  # passed over, because the group does not subscribe to its tag
    NOT_CONSUMED = "not consumed yet"
    PULLED = "pull"  # the group pulls by itself, and nobody can tell
    BROADCAST = "broadcast"  # every member keeps its own offsets
    NOT_ONLINE = "not online"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTrack:
    """A group that consumes a message's topic, and what became of the message there."""

    group: str
    state: TrackState
    failure: MQError | None = None  # why it is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeTrace:
    """One time that a handler was called with a message; what comes after is missing while it runs."""

    group: str | None
    before: SubBefore | None
    after: SubAfter | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTrace:
    """What producers and consumers that trace have written about a message."""

    msg_id: str
    sent: tuple[Pub, ...]
    transactions: tuple[EndTransaction, ...]
    consumed: tuple[ConsumeTrace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How a test message went: how long it took, and its status or what went wrong."""

    queue: MessageQueue
    took_ms: float
    status: SendStatus | None
    failure: MQError | None = None
