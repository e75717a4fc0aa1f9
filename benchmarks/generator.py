"""The load generator: a program in C, so that it is not what limits a server.

It needs some 0.3 to 0.7 us for a message that is in flight together with others. What it did is a `Turn`: messages
acknowledged, latencies, and the CPU time of everybody concerned.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.c_programs import build_program
from benchmarks.decks import Deck
from benchmarks.load import BadAnswer

EXIT_TIMEOUT_S = 60.0
PROCESSES = 1 << 16  # as many as four digits can name


@dataclass(frozen=True)
class Turn:
    """What a stretch of load came to."""

    count: int
    seconds: float
    server_cpu_s: float
    generator_cpu_s: float
    busy_s: float  # of everything on the machine
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    total: int  # acknowledged, the warm-up included

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def server_cpu_us(self) -> float:
        """CPU time of the server for one message."""
        return self.server_cpu_s * 1e6 / max(self.count, 1)

    @property
    def generator_cpu_us(self) -> float:
        return self.generator_cpu_s * 1e6 / max(self.count, 1)

    @property
    def server_share(self) -> float:
        """Of one core, as the following two."""
        return self.server_cpu_s / self.seconds

    @property
    def generator_share(self) -> float:
        return self.generator_cpu_s / self.seconds

    @property
    def others_share(self) -> float:
        return max(self.busy_s - self.server_cpu_s - self.generator_cpu_s, 0.0) / self.seconds

    def __str__(self) -> str:
        shares = {"server": self.server_share, "generator": self.generator_share, "others": self.others_share}
        return (
            f"{self.rate:,.0f} /s, {self.server_cpu_us:.2f} us, p50 {self.p50_ms:.2f}, p99 {self.p99_ms:.2f} ms; "
            f"cores: {', '.join(f'{name} {share:.2f}' for name, share in shares.items())}"
        )


@dataclass(frozen=True)
class Load:
    """How a deck is sent: so many in flight on each connection, or at a rate of requests a second."""

    connections: int = 2
    window: int = 128
    rate: float = 0.0
    records: int = 0  # in the body of every answer; 0: bodies are not looked at
    weight: int = 1  # messages that an answer without records stands for
    tls: bool = False


class Generator:
    """Runs the generator; ids of one run never come again in another."""

    def __init__(self, directory: Path) -> None:
        """Raises `NoCompiler`."""
        self._program = build_program("load", directory)
        self._next_process = 1

    def run(self, deck: Deck, load: Load, target: Sequence[str], pids: Sequence[int], **timing: float) -> Turn:
        """Load for `seconds` after a `warm_up`, or for a `count` of requests, at one address or several.

        Raises `BadAnswer` if one request was not acknowledged.
        """
        settings = {
            "address": ",".join(target),
            "pid": ",".join(map(str, pids)),
            "connections": load.connections,
            "window": load.window,
            "rate": load.rate,
            "records": load.records,
            "weight": load.weight,
            "tls": int(load.tls),
            "process": self._next_process,
            **timing,
        }
        self._next_process = (self._next_process + load.connections) % PROCESSES
        command = [str(self._program), str(deck.path), *(f"{key}={value}" for key, value in settings.items())]
        timeout_s = timing.get("seconds", 0) + timing.get("warm_up", 0) + EXIT_TIMEOUT_S
        timeout_s += timing.get("count", 0) / 1_000
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False, env=_environ()
        )
        if done.returncode != 0:
            raise BadAnswer(done.stderr.strip() or f"the load generator ended with {done.returncode}")
        return Turn(**json.loads(done.stdout.splitlines()[-1]))


def _environ() -> dict[str, str]:
    """Without what a benchmark puts before the programs of others."""
    return {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
