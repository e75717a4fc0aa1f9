"""What the checkpoint of a mirror says: how far each queue is, what is being copied, and where it goes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.jobs.copying import Routes
from skyrocketmq.spark.jobs.following import Span

__all__ = ["MirrorProgress"]


@dataclass(frozen=True)
class MirrorProgress:
    """What the checkpoint says."""

    name: str  # of this mirror; one that is begun anew in the same place is another
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)
    pending: Span | None = None  # being copied: perhaps in part
    epochs: Mapping[str, int] = field(default_factory=dict)  # how many times each topic was written to
    routes: Mapping[str, Routes] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        from skyrocketmq.spark.places import offsets_to_json

        return {
            "name": self.name,
            "offsets": offsets_to_json(self.offsets),
            "pending": None if self.pending is None else self.pending.to_json(),
            "epochs": dict(self.epochs),
            "routes": {
                topic: {"targets": list(routes.targets), "chosen": dict(routes.chosen)}
                for topic, routes in self.routes.items()
            },
        }

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> MirrorProgress:
        from skyrocketmq.spark.places import offsets_from_json

        return cls(
            tree["name"],
            offsets_from_json(tree["offsets"]) if tree["offsets"] else {},
            None if tree["pending"] is None else Span.from_json(tree["pending"]),
            tree["epochs"],
            {topic: Routes(one["targets"], one["chosen"]) for topic, one in tree["routes"].items()},
        )
