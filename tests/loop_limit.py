"""How long the loop's thread computes for one request: the loop's watch, with the thread's CPU time for a clock.

CPU time, because a machine that tests share makes wall time a lottery, and the best of a few attempts. The collector of
garbage is off meanwhile: a full pass looks at everything that the process has, whoever happens to set it off. What such
passes cost, and when they come, is said in docs/scaling.md.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable

from skyrocketmq.loop_watch import LoopWatch

LIMIT_S = 0.05
ATTEMPTS = 3


def by_cpu_time(watch: LoopWatch) -> LoopWatch:
    """Let a server's watch measure CPU time from now on, and count from a fifth of the limit."""
    watch.now = time.thread_time
    watch.limit_s = LIMIT_S / 5
    gc.disable()
    return watch


async def worst_s(watch: LoopWatch, ask: Callable[[int], Awaitable[object]]) -> tuple[float, str]:
    """The longest piece of work while something is asked for, in the best of a few attempts, and what it was."""
    best: tuple[float, str] | None = None
    for attempt in range(ATTEMPTS):
        watch.wall_s_max, watch.last_cause = 0.0, {}
        await ask(attempt)
        found = (watch.wall_s_max, str(dict(watch.last_cause)))
        best = found if best is None else min(best, found)
        if best[0] <= LIMIT_S:
            break
    assert best is not None
    return best
