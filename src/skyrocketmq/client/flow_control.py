"""Whether a consumer may fetch more of a queue now, or why not and how long to wait.

A consumer that is slower than its queue must not fill the memory: it stops pulling while too much of the queue is
cached, and looks again shortly after. The numbers are those of Apache's client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from skyrocketmq.client.message_cache import MIB, MessageCache

__all__ = ["FlowLimits", "PullGate", "cache_gate", "pull_gate"]

FULL_WAIT_MS: Final = 50
STATE_WAIT_MS: Final = 1_000


class PullGate(Enum):
    """The answer: a text for the log, and how long to wait before asking again (None: never, 0: pull now)."""

    OPEN = ("may pull", 0)
    DROPPED = ("the queue belongs to another consumer", None)
    NOT_RUNNING = ("the consumer is not running", STATE_WAIT_MS)
    PAUSED = ("the consumer is paused", STATE_WAIT_MS)
    TOO_MANY_MESSAGES = ("too many messages are cached", FULL_WAIT_MS)
    TOO_MANY_BYTES = ("too many bytes are cached", FULL_WAIT_MS)
    SPAN_TOO_WIDE = ("the first and the last cached message are too far apart", FULL_WAIT_MS)
    NOT_LOCKED = ("the queue is not locked", STATE_WAIT_MS)
    NO_SUBSCRIPTION = ("the topic is not subscribed", STATE_WAIT_MS)

    def __init__(self, text: str, wait_ms: int | None) -> None:
        self.text = text
        self.wait_ms = wait_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """How much of one queue may be cached, and of a topic (None: as much as its queues add up to)."""

    queue_count_max: int = 1_000
    queue_mib_max: int = 100
    span_max: int = 2_000
    topic_count_max: int | None = None
    topic_mib_max: int | None = None

    def shared_by(self, queue_count: int) -> FlowLimits:
        """The same with the topic's limits divided among the queues that the consumer holds now, of all topics."""
        if not queue_count:
            return self
        limits = self
        if self.topic_count_max is not None:
            limits = replace(limits, queue_count_max=max(1, self.topic_count_max // queue_count))
        if self.topic_mib_max is not None:
            limits = replace(limits, queue_mib_max=max(1, self.topic_mib_max // queue_count))
        return limits


def cache_gate(cache: MessageCache, limits: FlowLimits, *, is_orderly: bool = False) -> PullGate:
    """Whether the cache has room. The span is not looked at in order: there is no slow message to run ahead of."""
    if cache.count > limits.queue_count_max:
        return PullGate.TOO_MANY_MESSAGES
    if cache.body_bytes // MIB > limits.queue_mib_max:
        return PullGate.TOO_MANY_BYTES
    if not is_orderly and cache.span > limits.span_max:
        return PullGate.SPAN_TOO_WIDE
    return PullGate.OPEN


def pull_gate(
    cache: MessageCache,
    limits: FlowLimits,
    *,
    is_running: bool,
    is_paused: bool,
    is_orderly: bool,
    is_locked: bool,
    is_subscribed: bool,
) -> PullGate:
    """Whether a push consumer may pull now; of several reasons against it the first in the order of Apache's client.

    `is_locked` is True where no lock is needed. A lock that was confirmed too long ago does not count: another
    member may have the queue, and a pull would store our offset over its own.
    """
    if cache.is_dropped:
        return PullGate.DROPPED
    if not is_running:
        return PullGate.NOT_RUNNING
    if is_paused:
        return PullGate.PAUSED
    gate = cache_gate(cache, limits, is_orderly=is_orderly)
    if gate is not PullGate.OPEN:
        return gate
    if not is_locked:
        return PullGate.NOT_LOCKED
    return PullGate.OPEN if is_subscribed else PullGate.NO_SUBSCRIPTION
