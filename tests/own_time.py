"""Time less what others took: promises in seconds are about this program, not about who else keeps the machine busy.

    timer = OwnTime()
    ...
    assert timer.seconds() < 0.1

Linux counts how long a thread was ready to run while others had the processors. Where nobody counts that, it is 0, and
the time is that of the clock. On an idle machine nothing is taken off; on a busy one it may be too much, when several
threads wait at once: then a test sees less than it could, and does not fail for the work of others.
"""

from __future__ import annotations

import os
import time
from pathlib import Path


def waited_s(pid: int) -> float:
    """How long the threads of a process have waited for a processor so far."""
    waited_ns = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            waited_ns += int(path.read_text().split()[1])
        except OSError:
            pass  # the thread has ended
    return waited_ns / 1e9


class OwnTime:
    """Seconds since it was made, less those that the threads of this process, and of those that it works with, waited
    for a processor; but never less than this process has worked."""

    def __init__(self, *pids: int) -> None:
        self._pids = (os.getpid(), *pids)
        self._waited_s = self._waited()
        self._worked_s = time.process_time()
        self._started = time.perf_counter()

    def seconds(self) -> float:
        passed = time.perf_counter() - self._started
        return max(passed - (self._waited() - self._waited_s), time.process_time() - self._worked_s)

    def _waited(self) -> float:
        return sum(map(waited_s, self._pids))
