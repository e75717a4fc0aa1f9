"""Sends of every shape at full speed: two connections with 128 messages in flight each.

Promised beside Apache's broker: 5 times its rate at 1 KB, at 128 B 4 times (JSON) and 6 times (binary), a sixth of its
CPU time a message, and no shape that is slower than 0.45 of the fastest of its size.
"""

from __future__ import annotations

import argparse

from benchmarks.report import Better, Report
from benchmarks.send_shapes import SHAPES, SIZES, Encoding, SendShape, size_name
from benchmarks.stage import PIPELINED, Stage, add_turn

NAME = "sends"
GOAL_LARGE, GOAL_SMALL, GOAL_SMALL_BINARY = 5.0, 4.0, 6.0
GOAL_CPU = 1 / 6
LEAST_OF_BEST = 0.45


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(NAME)
    group.add_argument("--shapes", nargs="+", default=[], metavar="TEXT", help="only those with a TEXT in their name")


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME, connections=str(PIPELINED.connections), in_flight=str(PIPELINED.window))
    for shape in chosen(arguments.shapes):
        print(f"  {shape.name}", flush=True)
        with stage.targets() as targets:
            deck = stage.decks.deck(shape)
            for target in stage.turns(targets):
                turn = stage.run(target, deck, PIPELINED)
                add_turn(report, row_name(shape), target, turn, goal=goal(shape), goal_cpu=GOAL_CPU)
    for size in SIZES:
        _compare(report, size)
    return report


def chosen(texts: list[str]) -> list[SendShape]:
    return [shape for shape in SHAPES if not texts or any(text in shape.name for text in texts)]


def row_name(shape: SendShape) -> str:
    return f"send {shape.name}"


def goal(shape: SendShape) -> float:
    if shape.body_bytes >= 1024:
        return GOAL_LARGE
    return GOAL_SMALL_BINARY if shape.encoding is Encoding.BINARY else GOAL_SMALL


def _compare(report: Report, size: int) -> None:
    """The slowest shape of a size beside the fastest."""
    named = {row.name: row for row in report.rows}
    rows = [named[row_name(shape)] for shape in SHAPES if shape.body_bytes == size and row_name(shape) in named]
    for server in {server for row in rows for server in row.values}:
        rates = [rate for row in rows if (rate := row.median_of(server)) is not None]
        slowest = report.row(
            f"slowest shape of {size_name(size)}, of the fastest", "times", Better.MORE, limit=LEAST_OF_BEST
        )
        slowest.add(server, min(rates) / max(rates))
