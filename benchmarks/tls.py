"""TLS: what encryption costs a broker that takes messages.

Sends of 1 KB with binary headers, two connections with 128 in flight each, plain and over TLS. Both brokers have the
certificate that they make for themselves, and agree with the generator on the newest protocol that both know. The cost
of TLS is what a message takes of the server's CPU time over TLS, less what it takes without. Promised is 1.5 times
Apache's rate.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from benchmarks.report import Better, Report
from benchmarks.send_shapes import Encoding, SendShape
from benchmarks.stage import PIPELINED, Stage, add_turn

NAME = "tls"
SHAPE = SendShape(1024, Encoding.BINARY)
GOAL_RATE = 1.5
GOAL_COST = 1.0
WAYS = {"plain": PIPELINED, "TLS": replace(PIPELINED, tls=True)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME, message=SHAPE.name)
    deck = stage.decks.deck(SHAPE)
    with stage.targets() as targets:
        for target in targets:
            stage.run(target, deck, WAYS["TLS"], warm_up=0, seconds=stage.timing.jvm_warm_up_s / 6)
        for target in stage.turns(targets):
            costs = {}
            for way, load in WAYS.items():
                turn = stage.run(target, deck, load)
                costs[way] = turn.server_cpu_us
                add_turn(report, row_name(way), target, turn, goal=GOAL_RATE if load.tls else None)
            cost = report.row("CPU time of TLS, a message", "us", Better.LESS, GOAL_COST)
            cost.add(target.name, max(costs["TLS"] - costs["plain"], 0.01))
    for name in stage.servers:
        plain, tls = (report.row(row_name(way), "1/s", Better.MORE).median_of(name) for way in WAYS)
        if plain and tls:
            report.row("rate with TLS, of that without", "%", Better.MORE).add(name, tls / plain * 100)
    return report


def row_name(way: str) -> str:
    return f"send {SHAPE.name}, {way}"
