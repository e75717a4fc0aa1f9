"""What a stretch of load cost whom: the server, the generator, and everybody else on the machine."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field

from benchmarks import observe


@dataclass(frozen=True)
class Costs:
    """Shares are parts of one core."""

    seconds: float
    server_cpu_s: float
    generator_share: float
    others_share: float  # what neither of the two used: if it is large, the figures are not worth much


class Meter:
    """`start`, then `stop`. The generator is this process unless another is named."""

    def __init__(self, server_pid: int, *, generator_pid: int | None = None) -> None:
        self._server_pid = server_pid
        self._generator_pid = os.getpid() if generator_pid is None else generator_pid

    def start(self) -> None:
        self._before = self._read()

    def stop(self) -> Costs:
        seconds, server, generator, busy = (now - then for now, then in zip(self._read(), self._before, strict=True))
        return Costs(
            seconds=seconds,
            server_cpu_s=server,
            generator_share=generator / seconds,
            others_share=max(busy - server - generator, 0.0) / seconds,
        )

    def _read(self) -> tuple[float, float, float, float]:
        return (
            time.perf_counter(),
            observe.cpu_s(self._server_pid),
            observe.cpu_s(self._generator_pid),
            observe.busy_s(),
        )


@dataclass
class Outcome:
    """What a stretch of load came to."""

    count: int  # acknowledged
    costs: Costs
    refused: Counter[int] = field(default_factory=Counter)  # by code
    latencies_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.count / self.costs.seconds

    @property
    def server_cpu_us(self) -> float:
        """CPU time of the server for one message."""
        return self.costs.server_cpu_s * 1e6 / max(self.count, 1)

    def latency_ms(self, quantile: float) -> float:
        ordered = sorted(self.latencies_s)
        return ordered[min(int(len(ordered) * quantile), len(ordered) - 1)] * 1000

    def __str__(self) -> str:
        costs = self.costs
        text = (
            f"{self.rate:,.0f} /s, {self.server_cpu_us:.2f} us; cores: "
            f"server {costs.server_cpu_s / costs.seconds:.2f}, "
            f"generator {costs.generator_share:.2f}, others {costs.others_share:.2f}"
        )
        return f"{text}; REFUSED {dict(self.refused)}" if self.refused else text
