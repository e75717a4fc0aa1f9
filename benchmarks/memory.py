"""Memory of its own that a broker has after two million messages: `RssAnon`. Promised is a twentieth of Apache's."""

from __future__ import annotations

import argparse

from benchmarks import observe
from benchmarks.report import Better, Report
from benchmarks.send_shapes import Encoding, SendShape
from benchmarks.stage import PIPELINED, Stage

NAME = "memory"
GOAL = 1 / 20
SHAPES = [SendShape(128), SendShape(128, Encoding.BINARY)]
MIB = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(NAME)
    group.add_argument("--memory-messages", type=int, default=2_000_000, help="before memory is read (2,000,000)")


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    messages = 10_000 if arguments.quick else arguments.memory_messages
    report = stage.report(NAME, messages=f"{messages:,}")
    with stage.targets() as targets:
        for target in targets:
            for shape in SHAPES:
                turn = stage.run(target, stage.decks.deck(shape), PIPELINED, count=messages // len(SHAPES))
                print(f"    {target.name}, {shape.name}: {turn}", flush=True)
            used = observe.rss_anon_bytes(target.pid) / MIB
            report.row("RssAnon", "MiB", Better.LESS, GOAL).add(target.name, used)
    return report
