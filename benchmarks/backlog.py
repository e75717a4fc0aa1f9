"""Backlog: what a broker does with millions of messages waiting, beside what it does with none.

Sends of 128 B and pulls of messages that were just sent, on an empty store and on one with the backlog; and pulls of
the backlog itself, from its very beginning. Promised is that sends and pulls lose less than a fifth. The backlog is put
into the store before the broker starts, by our own store; Apache's broker gets a copy of the same files.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.interop import toolchain
from tests.interop.apache import Apache

from benchmarks.broker_frames import PULL_COUNT, FramePool, SendForm, Traffic
from benchmarks.broker_load import Sender, run_full
from benchmarks.broker_pulls import CONTIGUOUS, Filled, QueueFiller, run_pulls
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.load import connect
from benchmarks.meter import Outcome
from benchmarks.report import APACHE, OURS, Better, Report
from benchmarks.store_filler import QUEUES, TOPICS, fill

__all__ = ["NAME", "add_arguments", "run"]

NAME = "backlog"
FORM = SendForm(128, binary=True)
TRAFFIC = Traffic(topic_prefix="FreshTopic", topic_count=4)
CONNECTIONS = 2
IN_FLIGHT = 128
SHARE_KEPT = 0.8
READ_OF_BACKLOG = 200_000  # messages of one queue


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("backlog")
    group.add_argument(
        "--backlog",
        type=int,
        default=2_000_000,
        metavar="MESSAGES",
        help="waiting messages (2,000,000; to 100,000,000)",
    )


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    messages = 20_000 if arguments.quick else arguments.backlog
    rounds = 1 if arguments.quick else arguments.rounds
    report = Report(
        NAME, {"rounds": str(rounds), "waiting": f"{messages:,}", "seconds a load": f"{arguments.seconds:g}"}
    )
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=arguments.directory) as name:
        directory = Path(name)
        apache = Apache(toolchain.prepare(), directory / "apache") if APACHE in arguments.servers else None
        benchmark = BacklogBenchmark(report, Servers(directory, apache), arguments)
        full = directory / "full"
        started = time.perf_counter()
        fill(full, body_bytes=128, messages=messages, is_killed=False)
        print(f"  {messages:,} messages put in {time.perf_counter() - started:.0f} s", flush=True)
        for number in range(rounds):
            for server in arguments.servers:
                print(f"  round {number + 1} of {rounds}: {server}", flush=True)
                benchmark.measure(server, None, messages)
                copy = directory / "copy"
                subprocess.run(["cp", "-a", "--sparse=always", str(full), str(copy)], check=True)
                benchmark.measure(server, copy, messages)
                subprocess.run(["rm", "-rf", str(copy)], check=True)
        for what in ("send", "pull"):
            row = report.row(f"{what}, kept with the backlog", "%", Better.MORE, limit=SHARE_KEPT * 100)
            for server in (APACHE, OURS):
                without, having = (report.row(_row(what, full), "1/s", Better.MORE) for full in (False, True))
                if (most := without.median_of(server)) and (kept := having.median_of(server)) is not None:
                    row.add(server, kept / most * 100)
    return report


class BacklogBenchmark:
    def __init__(self, report: Report, servers: Servers, arguments: argparse.Namespace) -> None:
        self.report = report
        self._servers = servers
        self._seconds = 0.5 if arguments.quick else arguments.seconds
        self._warm_up_s = 0.2 if arguments.quick else max(arguments.warm_up, 3.0)
        self._pools = [FramePool(FORM, TRAFFIC) for _ in range(CONNECTIONS)]
        self._filler = QueueFiller(2_000 if arguments.quick else 32_768, body_bytes=128)

    def measure(self, server: str, store: Path | None, messages: int) -> None:
        with self._servers.started(server, store=store) as target:
            topics = dict.fromkeys(TRAFFIC.topics, TRAFFIC.queue_count) | self._filler.topics
            create_topics(target, topics | (dict.fromkeys(TOPICS, QUEUES) if store else {}))
            with ExitStack() as opened:
                connections = [opened.enter_context(each) for each in connect(target.address, CONNECTIONS)]
                senders = [Sender(each, pool) for each, pool in zip(connections, self._pools, strict=True)]
                outcome = run_full(
                    senders,
                    in_flight=IN_FLIGHT,
                    seconds=self._seconds,
                    warm_up_s=self._warm_up_s,
                    server_pid=target.pid,
                )
            self._add(_row("send", store is not None), target, outcome)
            filled = self._filler.fill(target.address, target.pid, CONTIGUOUS)
            self._add(_row("pull", store is not None), target, self._pull(target, filled))
            if store is not None:
                waiting = min(messages // (len(TOPICS) * QUEUES), READ_OF_BACKLOG) // PULL_COUNT * PULL_COUNT
                self._add("pull of the backlog", target, self._pull(target, Filled(TOPICS[0], waiting)))

    def _pull(self, target: Target, filled: Filled) -> Outcome:
        return run_pulls(
            target.address, filled, seconds=self._seconds, warm_up_s=self._warm_up_s, server_pid=target.pid
        )

    def _add(self, name: str, target: Target, outcome: Outcome) -> None:
        self.report.row(name, "1/s", Better.MORE).add(target.name, outcome.rate)
        print(f"    {name}: {outcome}", flush=True)


def _row(what: str, has_backlog: bool) -> str:
    return f"{what}, {'with the backlog' if has_backlog else 'empty store'}"
