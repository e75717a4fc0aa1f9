"""How long an acknowledgement takes at half load: half of what Apache's broker takes at most, for both.

A message's latency counts from the time at which it was due. Promised is a fifth of Apache's p99.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median

from benchmarks.broker_servers import Target
from benchmarks.report import APACHE, Better, Report
from benchmarks.send_shapes import Encoding, SendShape
from benchmarks.stage import PIPELINED, Stage

NAME = "latency"
GOAL_P99 = 0.2
SHAPES = [SendShape(1024), SendShape(1024, Encoding.BINARY)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(NAME)
    group.add_argument("--rate", type=float, help="messages a second, instead of half of Apache's most")


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME, connections=str(PIPELINED.connections))
    for shape in SHAPES:
        with stage.targets() as targets:
            rate = arguments.rate or _half_of_most(stage, targets, shape)
            if rate is None:
                print("  left out: it needs Apache's broker, or a rate (--rate)")
                continue
            print(f"  {shape.name}, {rate:,.0f} a second", flush=True)
            for target in stage.turns(targets):
                turn = stage.run(target, stage.decks.deck(shape), replace(PIPELINED, rate=rate))
                print(f"    {target.name}: {turn}", flush=True)
                for label, value, goal in (("p50", turn.p50_ms, None), ("p99", turn.p99_ms, GOAL_P99)):
                    report.row(f"{label} at half load, {shape.name}", "ms", Better.LESS, goal).add(target.name, value)
                for label, value in (("p99.9", turn.p999_ms), ("most", turn.max_ms)):
                    row = report.row(f"{label} at half load, {shape.name}", "ms", Better.LESS, is_detail=True)
                    row.add(target.name, value)
    return report


def _half_of_most(stage: Stage, targets: list[Target], shape: SendShape) -> float | None:
    apaches = [target for target in targets if target.name == APACHE]
    if not apaches:
        return None
    return median(stage.run(target, stage.decks.deck(shape), PIPELINED).rate for target in stage.turns(apaches)) / 2
