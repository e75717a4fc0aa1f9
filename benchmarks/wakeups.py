"""One message a wake-up: 64 connections with one message in flight each, so that nothing comes in crowds by itself.

Promised is 3 times Apache's rate.
"""

from __future__ import annotations

import argparse

from benchmarks.report import Report
from benchmarks.send_shapes import SIZES, Encoding, SendShape
from benchmarks.stage import ALONE, Stage, add_turn

NAME = "wakeups"
GOAL = 3.0
SHAPES = [SendShape(size, encoding) for size in SIZES for encoding in (Encoding.JAVA, Encoding.BINARY)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME, connections=str(ALONE.connections), in_flight=str(ALONE.window))
    for shape in SHAPES:
        row = f"{ALONE.connections} senders, {shape.name}"
        print(f"  {row}", flush=True)
        with stage.targets() as targets:
            for target in stage.turns(targets):
                turn = stage.run(target, stage.decks.deck(shape), ALONE)
                add_turn(report, row, target, turn, goal=GOAL)
    return report
