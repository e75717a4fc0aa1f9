"""The plain form of ours, without compiled modules, beside our code at an earlier commit: sends of every shape.

Promised of the earlier rate: JSON 70 % for usual messages, and all of it for keys, properties and blanks; binary 40 %,
and 65 % with keys and properties.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.broker_servers import create_topics
from benchmarks.earlier import COMMIT, earlier_sources
from benchmarks.report import BEFORE, PLAIN, Better, Report
from benchmarks.send_shapes import Encoding, Properties, SendShape
from benchmarks.sends import chosen, row_name
from benchmarks.stage import PIPELINED, Stage

NAME = "plain"
GOAL_JSON, GOAL_BINARY, GOAL_BINARY_MORE = 0.7, 0.4, 0.65


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = replace(stage.report(NAME), others=COMMIT, ours="plain form")
    servers = stage.starter(before=earlier_sources(stage.directory))
    with ExitStack() as running:
        targets = [running.enter_context(servers.started(name)) for name in (BEFORE, PLAIN)]
        for target in targets:
            create_topics(target, stage.decks.topics)
        for shape in chosen(arguments.shapes):
            row = row_name(shape)
            print(f"  {row}", flush=True)
            for target in stage.turns(targets):
                turn = stage.run(target, stage.decks.deck(shape), PIPELINED)
                print(f"    {target.name}: {turn}", flush=True)
                rate = report.row(row, "1/s", Better.MORE, goal(shape), beside=BEFORE, subject=PLAIN)
                rate.add(target.name, turn.rate)
                cost = report.row(f"CPU time, {row}", "us", Better.LESS, beside=BEFORE, subject=PLAIN)
                cost.add(target.name, turn.server_cpu_us)
    return report


def goal(shape: SendShape) -> float:
    is_usual = shape.properties is Properties.USUAL
    if shape.encoding is Encoding.BINARY:
        return GOAL_BINARY if is_usual else GOAL_BINARY_MORE
    return GOAL_JSON if is_usual and shape.encoding is not Encoding.SPACED else 1.0
