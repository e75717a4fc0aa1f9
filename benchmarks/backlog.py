"""Backlog: what a broker does with millions of messages waiting, beside what it does with none.

Sends of 128 B and pulls of messages that were just sent, on an empty store and on one with the backlog; and pulls of
the backlog itself, from its very beginning. Promised is that sends and pulls lose less than a fifth. The backlog is put
into the store before the broker starts, by our own broker; Apache's gets a copy of the same files.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.broker_frames import Traffic
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.pull_decks import LOAD, QUEUE_MESSAGES, Filled, Layout, fill, pulls, traffic_of
from benchmarks.report import APACHE, OURS, Better, Report
from benchmarks.send_shapes import Encoding, SendDecks, SendShape
from benchmarks.stage import PIPELINED, Stage, add_turn
from benchmarks.store_filler import fill_store

NAME = "backlog"
SHAPE = SendShape(128, Encoding.BINARY)
WAITING = Traffic(topic_prefix="BacklogTopic", topic_count=4)
SHARE_KEPT = 0.8
READ_OF_BACKLOG = 200_000  # messages of one queue


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(NAME)
    group.add_argument(
        "--backlog",
        type=int,
        default=2_000_000,
        metavar="MESSAGES",
        help="waiting messages (2,000,000; to 100,000,000)",
    )


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    messages = 20_000 if arguments.quick else arguments.backlog
    rounds = 1 if arguments.quick else arguments.rounds
    report = Report(
        NAME, {"rounds": str(rounds), "waiting": f"{messages:,}", "seconds a load": f"{stage.timing.seconds:g}"}
    )
    queue_messages = 2_048 if arguments.quick else QUEUE_MESSAGES
    benchmark = BacklogBenchmark(stage, report, messages=messages, queue_messages=queue_messages)
    full, copy = stage.directory / "full", stage.directory / "copy"
    started = time.perf_counter()
    fill_store(stage, full, SHAPE, messages, is_killed=False, decks=benchmark.waiting)
    print(f"  {messages:,} messages put in {time.perf_counter() - started:.0f} s", flush=True)
    for number in range(rounds):
        for server in stage.servers:
            print(f"  round {number + 1} of {rounds}: {server}", flush=True)
            benchmark.measure(server, None)
            subprocess.run(["cp", "-a", "--sparse=always", str(full), str(copy)], check=True)
            benchmark.measure(server, copy)
            shutil.rmtree(copy)
    shutil.rmtree(full)
    for what in ("send", "pull"):
        row = report.row(f"{what}, kept with the backlog", "%", Better.MORE, limit=SHARE_KEPT * 100)
        for server in (APACHE, OURS):
            without, having = (report.row(_row(what, is_full), "1/s", Better.MORE) for is_full in (False, True))
            if (most := without.median_of(server)) and (kept := having.median_of(server)) is not None:
                row.add(server, kept / most * 100)
    return report


class BacklogBenchmark:
    """All rounds."""

    def __init__(self, stage: Stage, report: Report, *, messages: int, queue_messages: int) -> None:
        self.waiting = SendDecks(stage.directory, WAITING)
        self._stage = stage
        self._report = report
        self._messages = messages
        self._queue_messages = queue_messages
        self._servers: Servers = stage.starter()

    def measure(self, server: str, store: Path | None) -> None:
        """One broker, on an empty store or on one with the backlog."""
        stage, is_full = self._stage, store is not None
        traffic = traffic_of(Layout.CONTIGUOUS, SHAPE.body_bytes)
        with self._servers.started(server, store=store) as target:
            topics = stage.decks.topics | {traffic.topics[0]: 1} | (self.waiting.topics if is_full else {})
            create_topics(target, topics)
            deck = stage.decks.deck(SHAPE)
            stage.run(target, deck, PIPELINED, warm_up=0, seconds=stage.timing.jvm_warm_up_s / 10)
            add_turn(self._report, _row("send", is_full), target, stage.run(target, deck, PIPELINED), goal=None)
            filled = fill(stage, target, traffic, SHAPE, self._queue_messages)
            self._pull(target, filled, _row("pull", is_full))
            if is_full:
                waiting = self._messages // (WAITING.topic_count * WAITING.queue_count)
                self._pull(
                    target, Filled(WAITING.topics[0], min(waiting * 9 // 10, READ_OF_BACKLOG)), "pull of the backlog"
                )

    def _pull(self, target: Target, filled: Filled, row: str) -> None:
        with pulls(target, filled, self._stage.directory / "backlog.deck") as deck:
            add_turn(self._report, row, target, self._stage.run(target, deck, LOAD), goal=None)


def _row(what: str, is_full: bool) -> str:
    return f"{what}, {'with the backlog' if is_full else 'empty store'}"
