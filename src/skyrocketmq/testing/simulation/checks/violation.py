"""A promise that a run has broken, with what one needs to find the place in its history."""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.testing.simulation.history import QueueId

__all__ = ["Violation"]


@dataclass(frozen=True, slots=True)
class Violation:
    """`check` names the promise; the rest says where to look. Events with one of these names matter to it."""

    check: str
    text: str
    order: int = -1  # the event that broke it; -1: what is missing at the end
    messages: tuple[str, ...] = ()
    queue: QueueId | None = None
    group: str = ""
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.check}: {self.text}"
