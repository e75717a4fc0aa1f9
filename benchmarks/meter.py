"""What load cost whom: the server, the generator, and everybody else on the machine.

A stretch of load is cut into slices. On a machine that others use too, the slices in which they did little tell more
than the rest; which those are has nothing to do with how the server did.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks import observe

SLICE_S = 0.5


@dataclass(frozen=True)
class Slice:
    """A part of a stretch of load."""

    count: int  # acknowledged
    seconds: float
    server_cpu_s: float
    generator_cpu_s: float
    others_cpu_s: float  # what neither of the two used
    refused: Counter[int] = field(default_factory=Counter)  # by code
    latencies_s: list[float] = field(default_factory=list)

    @property
    def others_share(self) -> float:
        """Of one core."""
        return self.others_cpu_s / self.seconds


class Meter:
    """`start`, then `cut` at the end of each slice. The generator is this process unless another is named."""

    def __init__(self, server_pid: int, *, generator_pid: int | None = None) -> None:
        self._server_pid = server_pid
        self._generator_pid = os.getpid() if generator_pid is None else generator_pid

    def start(self) -> None:
        self._before = self._read()

    def cut(self, count: int, *, refused: Counter[int] | None = None, latencies_s: Iterable[float] = ()) -> Slice:
        """What happened since the start, or since the last cut."""
        now = self._read()
        seconds, server, generator, busy = (after - before for after, before in zip(now, self._before, strict=True))
        self._before = now
        others = max(busy - server - generator, 0.0)
        return Slice(count, seconds, server, generator, others, refused or Counter(), list(latencies_s))

    def _read(self) -> tuple[float, float, float, float]:
        return (
            time.perf_counter(),
            observe.cpu_s(self._server_pid),
            observe.cpu_s(self._generator_pid),
            observe.busy_s(),
        )


def slice_ends(start: float, seconds: float) -> list[float]:
    """When the slices of a stretch that begins now end."""
    count = max(round(seconds / SLICE_S), 1)
    return [start + seconds * number / count for number in range(1, count + 1)]


class Outcome:
    """What slices came to, together."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self.slices = list(slices)
        self.count = sum(each.count for each in self.slices)
        self.seconds = sum(each.seconds for each in self.slices)
        self.refused: Counter[int] = sum((each.refused for each in self.slices), Counter())
        self._latencies_s = sorted(latency for each in self.slices for latency in each.latencies_s)

    def calmest(self, seconds: float) -> Outcome:
        """The slices in which others did least, as many as make up so many seconds."""
        chosen: list[Slice] = []
        for each in sorted(self.slices, key=lambda each: each.others_share):
            if chosen and sum(one.seconds for one in chosen) + each.seconds / 2 > seconds:
                break
            chosen.append(each)
        return Outcome(chosen)

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def server_cpu_us(self) -> float:
        """CPU time of the server for one message."""
        return sum(each.server_cpu_s for each in self.slices) * 1e6 / max(self.count, 1)

    @property
    def server_share(self) -> float:
        """Of one core, as the following two."""
        return sum(each.server_cpu_s for each in self.slices) / self.seconds

    @property
    def generator_share(self) -> float:
        return sum(each.generator_cpu_s for each in self.slices) / self.seconds

    @property
    def others_share(self) -> float:
        return sum(each.others_cpu_s for each in self.slices) / self.seconds

    @property
    def latency_count(self) -> int:
        return len(self._latencies_s)

    def latency_ms(self, quantile: float) -> float:
        latencies = self._latencies_s
        return latencies[min(int(len(latencies) * quantile), len(latencies) - 1)] * 1000

    def __str__(self) -> str:
        text = (
            f"{self.rate:,.0f} /s, {self.server_cpu_us:.2f} us; cores: server {self.server_share:.2f}, "
            f"generator {self.generator_share:.2f}, others {self.others_share:.2f}"
        )
        return f"{text}; REFUSED {dict(self.refused)}" if self.refused else text
