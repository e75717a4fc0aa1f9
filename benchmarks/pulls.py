"""Pulls of 32 messages at full speed, in both encodings: of messages together and scattered, all and a quarter of them.

Promised is twice Apache's rate, and three times with a tag that a quarter of the messages has.
"""

from __future__ import annotations

import argparse

from benchmarks.broker_servers import Target
from benchmarks.pull_decks import (
    EVERYTHING,
    LOAD,
    QUEUE_MESSAGES,
    Filled,
    Layout,
    Subscription,
    encoding_name,
    fill,
    pulls,
    traffic_of,
)
from benchmarks.report import Report
from benchmarks.send_shapes import SIZES, Encoding, SendShape, size_name
from benchmarks.stage import Stage, add_turn

NAME = "pulls"
GOAL, GOAL_TAG = 2.0, 3.0
A_QUARTER = Subscription("TagA", looked_at=4)  # of the four tags that messages have


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(NAME)
    group.add_argument("--queue-messages", type=int, default=QUEUE_MESSAGES, help="in a queue that is pulled (8,192)")


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    queue_messages = 2_048 if arguments.quick else arguments.queue_messages
    report = stage.report(NAME, connections=str(LOAD.connections), in_flight=str(LOAD.window))
    traffics = {(layout, size): traffic_of(layout, size) for layout in Layout for size in SIZES}
    topics = {traffic.topics[0]: traffic.queue_count for traffic in traffics.values()}
    with stage.targets(topics=topics) as targets:
        for (layout, size), traffic in traffics.items():
            shape = SendShape(size, Encoding.BINARY)
            filled = {target: fill(stage, target, traffic, shape, queue_messages) for target in targets}
            ways = [(EVERYTHING, GOAL)] + ([(A_QUARTER, GOAL_TAG)] if layout is Layout.CONTIGUOUS else [])
            for wanted, goal in ways:
                for binary in (False, True):
                    named = "" if wanted is EVERYTHING else ", a quarter has the tag"
                    row = f"pull 32 x {size_name(size)}, {layout.value}, {encoding_name(binary)}{named}"
                    print(f"  {row}", flush=True)
                    for target in stage.turns(targets):
                        _measure(stage, report, row, target, filled[target], binary, wanted, goal)
    return report


def _measure(
    stage: Stage,
    report: Report,
    row: str,
    target: Target,
    filled: Filled,
    binary: bool,
    wanted: Subscription,
    goal: float,
) -> None:
    with pulls(target, filled, stage.directory / "pulls.deck", binary=binary, wanted=wanted) as deck:
        add_turn(report, row, target, stage.run(target, deck, LOAD), goal=goal)
