"""SQL92 filters: what it costs a broker to look at the properties of a message before it gives it out.

One queue with messages of 1 KB that have three properties of their own. Consumers go through it as in the pulls of 32
messages: without filter; with an expression that every message matches; and with one that a quarter matches, so that
four are examined for one that is given out. The cost of a filter is what an examined message takes of the server's CPU
time, less what a message takes where all are given out unfiltered. Promised is 1.5 times Apache's rate.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

from benchmarks.broker_frames import BROKER, SEND_MESSAGE_V2
from benchmarks.decks import FIRST_OPAQUE, Deck
from benchmarks.frames import encode_frame
from benchmarks.pull_decks import EVERYTHING, FILL, LOAD, QUEUE_MESSAGES, Filled, Subscription, pulls
from benchmarks.report import Better, Report
from benchmarks.send_shapes import BORN, ID, PROCESS
from benchmarks.stage import Stage, add_turn

NAME = "sql"
TOPIC = "FilteredTopic"
BODY_BYTES = 1024
GOAL_RATE = 1.5
FILL_FRAMES = 1024
REGIONS = ("north", "west", "east", "south")
NO_FILTER = "no filter"
WAYS = {
    NO_FILTER: EVERYTHING,
    "SQL92, all match": Subscription(
        "number >= 0 AND region IN ('north', 'east', 'south', 'west') AND price IS NOT NULL", "SQL92"
    ),
    "SQL92, a quarter matches": Subscription(
        "number BETWEEN 0 AND 1000000 AND region = 'north' AND price > 0.5", "SQL92", looked_at=4
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    count = 2_048 if arguments.quick else QUEUE_MESSAGES
    report = stage.report(NAME, queue=f"{count:,} messages")
    with stage.targets(settings={"enablePropertyFilter": "true"}, topics={TOPIC: 1}) as targets:
        deck = Deck.write(stage.directory / "sql-fill.deck", _sends())
        for target in targets:
            stage.run(target, deck, FILL, count=count)
        costs: dict[tuple[str, str], float] = {}  # of an examined message, by server and way
        for way, wanted in WAYS.items():
            row = f"pull 32 x 1 KB, {way}"
            print(f"  {row}", flush=True)
            for target in stage.turns(targets):
                with pulls(target, Filled(TOPIC, count), stage.directory / "sql.deck", wanted=wanted) as asked:
                    turn = stage.run(target, asked, LOAD)
                add_turn(report, row, target, turn, goal=GOAL_RATE if wanted is not EVERYTHING else None)
                costs[target.name, way] = turn.server_cpu_us / wanted.looked_at
                if wanted is not EVERYTHING:
                    # Where a quarter is given out, only a quarter of the cost of giving out is in it.
                    plain = costs[target.name, NO_FILTER] / wanted.looked_at
                    cost = report.row(f"CPU time of {way}, an examined message", "us", Better.LESS)
                    cost.add(target.name, max(costs[target.name, way] - plain, 0.01))
    return report


def _sends() -> Iterator[bytes]:
    """Every fourth message is of the first region, so that 32 of any 128 are."""
    chance = random.Random(7)
    for number in range(FILL_FRAMES):
        properties = (
            f"number\1{number}\2region\1{REGIONS[number % 4]}\2price\1{chance.randrange(1_000, 10_000) / 1000}"
            f"\2UNIQ_KEY\0017F000001{PROCESS}1B4FB44C{ID}\2WAIT\1true"
        )
        values = ["benchmark-producer", TOPIC, "TBW102", "4", "0", "0", BORN, "0", properties, "0", "false"]
        ext = dict(zip("abcdefghijk", values, strict=True)) | {"m": "false", "n": BROKER}
        yield encode_frame(SEND_MESSAGE_V2, ext, chance.randbytes(BODY_BYTES), opaque=FIRST_OPAQUE + number)
