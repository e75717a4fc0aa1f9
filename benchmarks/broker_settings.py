"""What of the broker is measured, and for how long."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PARTS = ("ready", "memory", "pull", "send", "latency", "java", "delivery")
JVM_WARM_UP_S = 5.0
JAVA_WARM_UP_S = 4.0


@dataclass(frozen=True)
class Settings:
    parts: Sequence[str]
    servers: Sequence[str]
    rounds: int
    seconds: float
    warm_up_s: float
    jvm_warm_up_s: float
    java_warm_up_s: float
    memory_messages: int
    queue_messages: int
    ready_starts: int
    deliveries: int
    calm_s: float
    directory: Path | None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Settings:
        quick = arguments.quick
        return cls(
            parts=arguments.parts,
            servers=arguments.servers,
            rounds=1 if quick else arguments.rounds,
            seconds=0.5 if quick else arguments.seconds,
            warm_up_s=0.2 if quick else arguments.warm_up,
            jvm_warm_up_s=0.2 if quick else JVM_WARM_UP_S,
            java_warm_up_s=0.5 if quick else JAVA_WARM_UP_S,
            memory_messages=10_000 if quick else arguments.memory_messages,
            queue_messages=2_000 if quick else arguments.queue_messages,
            ready_starts=1 if quick else arguments.rounds + 1,
            deliveries=10 if quick else 300,
            calm_s=0.0 if quick else arguments.calm,
            directory=arguments.directory,
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("broker")
    group.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what is measured (everything)")
    group.add_argument("--quick", action="store_true", help="a few seconds in all: to see that it runs")
    group.add_argument("--memory-messages", type=int, default=2_000_000, help="before memory is read (2,000,000)")
    group.add_argument("--queue-messages", type=int, default=32_768, help="in a queue that is pulled (32,768)")
    group.add_argument("--calm", type=float, default=0.0, metavar="SECONDS", help="wait so long for a machine at rest")
    group.add_argument("--directory", type=Path, help="where stores are put (the system's directory for such)")
