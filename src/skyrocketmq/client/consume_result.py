"""What a handler can say about the messages it was given.

Returning nothing, or any value that is no `ConsumeResult`, means consumed. Raising means: again later, like
`ConsumeResult.RETRY`, and is logged once. What can only be a slip (a method that was not called, a bare `Verdict`)
counts as raising: see `handlers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from skyrocketmq.errors import IllegalArgument

__all__ = ["ConsumeResult", "Verdict"]


class Verdict(Enum):
    CONSUMED = "consumed"
    RETRY = "again later"
    COMMIT = "commit"
    ROLLBACK = "roll back"


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """The outcome of a handler's call.

    | result | a message consumed concurrently | a queue consumed in order |
    |---|---|---|
    | `SUCCESS` | consumed | consumed, offset moves on |
    | `RETRY` | sent back to the broker, comes again after a delay that grows | comes again after a pause |
    | `retry(delay_level=5)` | comes again after that level's delay; -1: to the dead letters at once | as `RETRY` |
    | `retry(pause_s=0.5)` | as `RETRY` | comes again after that pause |
    | `consumed(3)` | of a list, the first three are consumed, the rest comes again | all consumed, with a warning |
    | `COMMIT`, `ROLLBACK` | consumed | with `auto_commit=False`: all so far is consumed, or comes again |
    """

    verdict: Verdict = Verdict.CONSUMED
    delay_level: int = 0  # 0: the broker decides
    pause_s: float | None = None
    consumed_count: int | None = None  # None: all

    SUCCESS: ClassVar[ConsumeResult]
    RETRY: ClassVar[ConsumeResult]
    COMMIT: ClassVar[ConsumeResult]
    ROLLBACK: ClassVar[ConsumeResult]

    def __post_init__(self) -> None:
        if not -1 <= self.delay_level <= 18:
            raise IllegalArgument(f"the delay level {self.delay_level} is not one of -1 to 18")
        if self.pause_s is not None and not self.pause_s >= 0:
            raise IllegalArgument(f"the pause of {self.pause_s!r} s is no time to wait")
        count = self.consumed_count
        if count is not None and (not isinstance(count, int) or count < 0):
            raise IllegalArgument(f"consumed({count!r}): say how many messages, in whole numbers from 0")

    @classmethod
    def retry(cls, *, delay_level: int = 0, pause_s: float | None = None) -> ConsumeResult:
        """Again later: after the delay of a level (1 to 18; -1 for the dead letters), or in order after a pause."""
        return cls(Verdict.RETRY, delay_level, pause_s)

    @classmethod
    def consumed(cls, count: int) -> ConsumeResult:
        """The first `count` messages of the list are consumed, the others come again."""
        return cls(Verdict.CONSUMED, consumed_count=count)


ConsumeResult.SUCCESS = ConsumeResult()
ConsumeResult.RETRY = ConsumeResult(Verdict.RETRY)
ConsumeResult.COMMIT = ConsumeResult(Verdict.COMMIT)
ConsumeResult.ROLLBACK = ConsumeResult(Verdict.ROLLBACK)
