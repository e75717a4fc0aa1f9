"""What a replay sends, and in which steps. Pure: values in, values out.

A plan is made once, from what each queue has of the chosen messages, and kept in the checkpoint: a step that is
repeated has the same messages, whatever has come since.

Rule: the steps together are exactly what was found, in each queue one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.jobs.copying import Routes
from skyrocketmq.spark.jobs.following import Span

__all__ = ["QueueCount", "ReplayPlan", "Selection"]


@dataclass(frozen=True)
class Selection:
    """Which messages are meant."""

    topics: tuple[str, ...]
    path: str | None = None  # of an archive; none: the cluster has them
    since_ms: int | None = None
    until_ms: int | None = None
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def check(self) -> None:
        if not self.topics:
            raise IllegalArgument("no topic is given whose messages are to be replayed")
        if self.since_ms is not None and self.until_ms is not None and self.since_ms >= self.until_ms:
            raise IllegalArgument("the time that is chosen ends before it begins: since has to be before until")


@dataclass(frozen=True)
class QueueCount:
    """The chosen messages of a queue lie from `start` up to but not including `end`, and are so many."""

    start: int
    end: int
    count: int


@dataclass(frozen=True)
class ReplayPlan:
    """The steps, and how many of them are done."""

    name: str  # of this replay; one that is begun anew in the same place is another
    chosen: Mapping[str, Any]  # what was asked for: a checkpoint is for this and nothing else
    whole: Span
    step_count: int
    routes: Routes
    steps_done: int = 0

    @classmethod
    def make(
        cls,
        selection: Selection,
        to: str,
        counts: Mapping[MessageQueue, QueueCount],
        *,
        name: str,
        targets: Routes,
        step_rows: int | None,
    ) -> ReplayPlan:
        total = sum(one.count for one in counts.values())
        whole = Span(
            {queue: one.start for queue, one in counts.items()}, {queue: one.end for queue, one in counts.items()}
        )
        step_count = min(total, 1) if step_rows is None else -(-total // step_rows)
        return cls(name, _chosen(selection, to), whole, step_count, targets.with_queues(list(counts)))

    @property
    def is_done(self) -> bool:
        return self.steps_done >= self.step_count

    def next(self) -> ReplayPlan:
        return replace(self, steps_done=self.steps_done + 1)

    def span(self) -> Span:
        """The step that is next: of each queue the same share."""
        return Span(
            {queue: self._cut(queue, self.steps_done) for queue in self.whole.ends},
            {queue: self._cut(queue, self.steps_done + 1) for queue in self.whole.ends},
        )

    def _cut(self, queue: MessageQueue, step: int) -> int:
        start = self.whole.starts[queue]
        return start + (self.whole.ends[queue] - start) * step // self.step_count

    def check(self, selection: Selection, to: str) -> None:
        """Raises `IllegalArgument` if the plan is not for this."""
        asked = _chosen(selection, to)
        changed = sorted(name for name in asked if asked[name] != self.chosen.get(name))
        if changed:
            raise IllegalArgument(
                f"the checkpoint belongs to another replay: {', '.join(changed)} changed. "
                f"Give what it was begun with, or another checkpoint"
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "chosen": dict(self.chosen),
            "whole": self.whole.to_json() if self.whole.ends else None,
            "stepCount": self.step_count,
            "stepsDone": self.steps_done,
            "routes": {"targets": list(self.routes.targets), "chosen": dict(self.routes.chosen)},
        }

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> ReplayPlan:
        return cls(
            tree["name"],
            tree["chosen"],
            Span({}, {}) if tree["whole"] is None else Span.from_json(tree["whole"]),
            tree["stepCount"],
            Routes(tree["routes"]["targets"], tree["routes"]["chosen"]),
            tree["stepsDone"],
        )


def _chosen(selection: Selection, to: str) -> dict[str, Any]:
    """As JSON gives it back."""
    texts = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(selection).items()}
    return texts | {"to": to}
