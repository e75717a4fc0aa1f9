"""What a stretch of load cost whom: the server, the generator, and everybody else on the machine."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from benchmarks import observe


@dataclass(frozen=True)
class Slice:
    """A stretch of load."""

    count: int  # acknowledged
    seconds: float
    server_cpu_s: float
    generator_cpu_s: float
    others_cpu_s: float  # what neither of the two used


class Meter:
    """`start`, then `cut` at the end of each stretch. The generator is this process unless another is named."""

    def __init__(self, server_pid: int, *, generator_pid: int | None = None) -> None:
        self._server_pid = server_pid
        self._generator_pid = os.getpid() if generator_pid is None else generator_pid

    def start(self) -> None:
        self._before = self._read()

    def cut(self, count: int) -> Slice:
        """What happened since the start, or since the last cut."""
        now = self._read()
        seconds, server, generator, busy = (after - before for after, before in zip(now, self._before, strict=True))
        self._before = now
        return Slice(count, seconds, server, generator, max(busy - server - generator, 0.0))

    def _read(self) -> tuple[float, float, float, float]:
        return (
            time.perf_counter(),
            observe.cpu_s(self._server_pid),
            observe.cpu_s(self._generator_pid),
            observe.busy_s(),
        )
