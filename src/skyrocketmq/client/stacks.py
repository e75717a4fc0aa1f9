"""What a client is doing right now: the stacks of its threads and of its event loop's tasks, as text.

Administrators ask for it to see where a consumer hangs (307 with jstackEnable). The innermost frame comes last.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from types import FrameType
from typing import Any, Final

__all__ = ["stacks_text"]

TASK_COUNT_MAX: Final = 500  # further ones are counted only: the text travels in one answer
DEPTH_MAX: Final = 100


def stacks_text() -> str:
    """All threads, then the tasks of the loop that this is called on."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(number, 'unknown')} ({number})\n{''.join(traceback.format_stack(frame))}"
        for number, frame in sys._current_frames().items()
    ]
    tasks = sorted(asyncio.all_tasks(), key=asyncio.Task.get_name)
    parts += [f"task {task.get_name()}\n{_waiting_text(task.get_coro())}" for task in tasks[:TASK_COUNT_MAX]]
    if len(tasks) > TASK_COUNT_MAX:
        parts.append(f"and {len(tasks) - TASK_COUNT_MAX} tasks more\n")
    return "\n".join(parts)


def _waiting_text(awaitable: Any) -> str:
    """Where a coroutine waits, and where that which it waits for does: a task's own stack ends at its outermost."""
    lines: list[str] = []
    while awaitable is not None and len(lines) < DEPTH_MAX:
        frame: FrameType | None = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None)
        if frame is None:
            break
        lines += traceback.format_list(traceback.StackSummary.extract([(frame, frame.f_lineno)]))
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
    return "".join(lines)
