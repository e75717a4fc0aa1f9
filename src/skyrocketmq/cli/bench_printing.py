"""When a benchmark looks at its figures, and when it prints them: as Apache's programs do."""

from __future__ import annotations

from typing import Final, Protocol

from skyrocketmq.background import Background
from skyrocketmq.ports import Clock

__all__ = ["Figures", "print_regularly"]

SNAPSHOT_INTERVAL_S: Final = 1.0
PRINT_INTERVAL_S: Final = 10.0
PRINT_FIRST_AFTER_S: Final = 10.5  # just after the tenth snapshot


class Figures(Protocol):
    """What a benchmark counts."""

    def snapshot(self, now_ms: int) -> None: ...

    def line(self, now_ms: int) -> str | None: ...


def print_regularly(figures: Figures, background: Background, *, clock: Clock) -> None:
    """Take a snapshot every second and print a line every ten, for as long as the block of `background` lasts."""

    def print_line() -> None:
        line = figures.line(clock.now_ms())
        if line is not None:
            print(line, flush=True)

    background.every(SNAPSHOT_INTERVAL_S, lambda: figures.snapshot(clock.now_ms()))
    background.every(PRINT_INTERVAL_S, print_line, first_after=PRINT_FIRST_AFTER_S)
