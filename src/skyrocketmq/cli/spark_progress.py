"""How far a job is, as one line on the terminal that is written over: rows, rate, and the tasks of what runs now."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from skyrocketmq.ports import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skyrocketmq.spark.jobs import Control

__all__ = ["progress_line", "shown_progress"]

EVERY_S: Final = 0.5
_CLEAR: Final = "\r\x1b[K"  # to the beginning of the line, and empty it


def progress_line(phase: str, *, rows: int, seconds: float, tasks_done: int, tasks: int) -> str:
    """What is shown: only what is known."""
    parts = [phase]
    if rows:
        parts.append(f"{rows:,} rows, {rows / max(seconds, 0.001):,.0f}/s")
    if tasks:
        parts.append(f"{tasks_done} of {tasks} tasks")
    parts.append(f"{seconds:.0f} s")
    return "  ".join(parts)


@contextmanager
def shown_progress(running: SparkSession, control: Control, *, quiet: bool) -> Iterator[None]:
    """Show it while the body runs, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    over = threading.Event()

    def show() -> None:
        clock = SystemClock()
        begun = clock.monotonic()
        while not over.wait(EVERY_S):
            done, tasks = _tasks(running)
            seconds = clock.monotonic() - begun
            line = progress_line(control.phase, rows=control.row_count, seconds=seconds, tasks_done=done, tasks=tasks)
            print(f"{_CLEAR}{line}", end="", file=sys.stderr, flush=True)

    shower = threading.Thread(target=show, name="shows progress", daemon=True)
    shower.start()
    try:
        yield
    finally:
        over.set()
        shower.join(timeout=5)
        print(_CLEAR, end="", file=sys.stderr, flush=True)


def _tasks(running: SparkSession) -> tuple[int, int]:
    """How many tasks of the stages that run now are done, and how many there are."""
    tracker = running.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
