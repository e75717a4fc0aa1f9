"""How a push consumer works, with the defaults and ranges of Apache's client. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from skyrocketmq.client.allocation import AllocationStrategy, average
from skyrocketmq.client.flow_control import FlowLimits
from skyrocketmq.client.send_back import RETRY_COUNT_MAX
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model.numbers import INT32_MAX

__all__ = ["PushOptions"]

RANGES: Final[dict[str, tuple[float, float]]] = {
    "concurrency": (1, 1000),
    "pull_batch_size": (1, 1024),
    "pull_interval_s": (0, 65.535),
    "cache_count_max": (1, 65_535),
    "cache_mib_max": (1, 1024),
    "cache_span_max": (1, 65_535),
    "topic_cache_count_max": (1, 6_553_500),
    "topic_cache_mib_max": (1, 102_400),
    "consume_timeout_s": (0.001, INT32_MAX),
    "retry_count_max": (-1, INT32_MAX),
    "pause_s": (0, INT32_MAX),
    "stop_grace_s": (0, INT32_MAX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """The choices of a push consumer, checked."""

    orderly: bool = False
    broadcasting: bool = False
    allocation: AllocationStrategy = field(default=average)
    concurrency: int = 20  # calls of handlers at a time
    pull_batch_size: int = 32
    pull_interval_s: float = 0.0
    cache_count_max: int = 1_000  # messages of one queue that are fetched and not finished
    cache_mib_max: int = 100  # their bodies
    cache_span_max: int = 2_000  # from the first of them to the last
    topic_cache_count_max: int | None = None  # of all queues together
    topic_cache_mib_max: int | None = None
    consume_timeout_s: float = 900.0  # a message that a handler has for so long is sent back
    retry_count_max: int | None = None  # None, or -1 as in Java: 16, and without end in order
    pause_s: float = 1.0  # in order: before a message is tried again
    auto_commit: bool = True
    post_subscription: bool = False  # send the expression with each pull
    stop_grace_s: float = 30.0  # closing waits so long for handlers, then cancels them

    def __post_init__(self) -> None:
        for name, (lowest, highest) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not lowest <= value <= highest:
                raise IllegalArgument(f"{name} = {value!r} is not from {lowest:g} to {highest:g}")

    @property
    def retries(self) -> int:
        """How often a message is tried again."""
        if self.retry_count_max is not None and self.retry_count_max >= 0:
            return self.retry_count_max
        return INT32_MAX if self.orderly else RETRY_COUNT_MAX

    @property
    def limits(self) -> FlowLimits:
        return FlowLimits(
            queue_count_max=self.cache_count_max,
            queue_mib_max=self.cache_mib_max,
            span_max=self.cache_span_max,
            topic_count_max=self.topic_cache_count_max,
            topic_mib_max=self.topic_cache_mib_max,
        )
