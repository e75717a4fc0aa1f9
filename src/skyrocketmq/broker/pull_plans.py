"""The plans of pulls, kept until a table changes: a consumer asks for the same again and again.

Rule 1: whatever a plan was made of says so when it changes, and then all plans are dropped: topics, groups,
subscriptions, filters, configuration. What changes often must not be part of a plan.
Rule 2: only what passed its checks is kept, and no more than `BYTES_MAX` in all: the oldest plan makes room.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from skyrocketmq.broker.pull_rules import PullPlan

__all__ = ["PullPlans"]

BYTES_MAX: Final = 16 * 1024 * 1024
PLAN_BYTES_MAX: Final = 256 * 1024  # of a plan that is kept: larger ones, of thousands of tags, are made each time
PLAN_BYTES: Final = 1_000  # of one without tags and filter
TAG_BYTES: Final = 100
CHARACTER_BYTES: Final = 50  # of an expression, once it is compiled


class PullPlans:
    """Plans by what decides them. `version` is another number after each change of a table."""

    def __init__(self) -> None:
        self.version = 0
        self._plans: dict[Hashable, PullPlan] = {}
        self.find: Final = self._plans.get
        self._sizes: dict[Hashable, int] = {}
        self._byte_count = 0

    def __len__(self) -> int:
        return len(self._plans)

    def keep(self, key: Hashable, plan: PullPlan, *, expression_chars: int) -> None:
        """Keep a plan that was made since the last change, of a pull with an expression of this length."""
        size = PLAN_BYTES + TAG_BYTES * len(plan.tag_codes or ()) + CHARACTER_BYTES * expression_chars
        if size > PLAN_BYTES_MAX or key in self._plans:
            return
        self._plans[key] = plan
        self._sizes[key] = size
        self._byte_count += size
        while self._byte_count > BYTES_MAX:
            oldest = next(iter(self._plans))
            del self._plans[oldest]
            self._byte_count -= self._sizes.pop(oldest)

    def forget(self, change: object = None) -> None:
        """A table has changed. Whatever it says about the change does not matter."""
        self.version += 1
        self._plans.clear()
        self._sizes.clear()
        self._byte_count = 0
