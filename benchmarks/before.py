"""Ours beside our code at an earlier commit, in CPU time: what the broker and the client spend on one message.

- A held pull: it comes, waits, and is answered when a message arrives. Promised is half.
- A message of a batch (request 320). Promised is a quarter.
- A record in a slave: received, stored and dispatched. Both slaves follow the same master at the same time. Promised is
  a fifth.
- A record in recovery: what a start takes on the files of a killed broker with many records, less what it takes on
  those of one with few. Promised is a fifth.
- A message of our producer with 1,000 in flight, on one broker. Promised is half.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.interop.ours import Broker, NameServer, running
from tests.interop.processes import wait_until

from benchmarks import observe
from benchmarks.batches import BATCH_MESSAGES, batch_frames
from benchmarks.broker_servers import DEFAULTS, Servers, Target, create_topics
from benchmarks.client_programs import ClientPrograms
from benchmarks.client_programs import Load as ClientLoad
from benchmarks.decks import Deck
from benchmarks.earlier import COMMIT, earlier_sources
from benchmarks.generator import Load
from benchmarks.held_pulls import TOPIC as HELD_TOPIC
from benchmarks.held_pulls import held_pull_cpu_us
from benchmarks.load import BadAnswer
from benchmarks.replication import log_end
from benchmarks.report import BEFORE, OURS, Better, Report
from benchmarks.send_shapes import SIZES, Encoding, Properties, SendShape, size_name
from benchmarks.stage import PIPELINED, Stage
from benchmarks.store_filler import fill_store

NAME = "before"
GOAL_HELD, GOAL_BATCH, GOAL_SLAVE, GOAL_RECOVERY, GOAL_PRODUCER = 0.5, 0.25, 0.2, 0.2, 0.5
HELD_ROUNDS = 40
BATCHES = Load(connections=2, window=4, weight=BATCH_MESSAGES)
BATCH_FRAMES = 256
RECORD_SHAPES = [SendShape(128, Encoding.BINARY, properties) for properties in (Properties.USUAL, Properties.KEY)]
FEW_RECORDS = 1_000
IN_FLIGHT = 1_000
SENT_TOPIC = "SentTopic"
CATCH_UP_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(NAME)
    group.add_argument("--records", type=int, default=200_000, help="that slaves and recovery read (200,000)")
    group.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what is measured (everything)")


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = replace(stage.report(NAME), others=COMMIT)
    benchmark = BeforeBenchmark(stage, report, records=4_000 if arguments.quick else arguments.records)
    for part in arguments.parts:
        print(f"  {part}", flush=True)
        PARTS[part](benchmark)
    return report


class BeforeBenchmark:
    """All that is measured beside the earlier version."""

    def __init__(self, stage: Stage, report: Report, *, records: int) -> None:
        self._stage = stage
        self._report = report
        self._records = records
        self._before = earlier_sources(stage.directory)
        self._servers = stage.starter(before=self._before)
        self._is_quick = stage.timing.is_quick

    def _add(self, row: str, goal: float, name: str, cpu_us: float) -> None:
        self._report.row(row, "us", Better.LESS, goal, beside=BEFORE).add(name, cpu_us)
        print(f"    {name}: {cpu_us:.2f} us", flush=True)

    def _both(self, running: ExitStack, topics: dict[str, int]) -> list[Target]:
        targets = [running.enter_context(self._servers.started(name)) for name in (BEFORE, OURS)]
        for target in targets:
            create_topics(target, topics)
        return targets

    def measure_held_pulls(self) -> None:
        with ExitStack() as running:
            for target in self._stage.turns(self._both(running, {HELD_TOPIC: 1})):
                cpu_us = held_pull_cpu_us(target, 4 if self._is_quick else HELD_ROUNDS)
                self._add("a held pull", GOAL_HELD, target.name, cpu_us)

    def measure_batches(self) -> None:
        traffic = self._stage.traffic
        with ExitStack() as running:
            targets = self._both(running, self._stage.decks.topics)
            for size in SIZES:
                path = self._stage.directory / f"batches-{size}.deck"
                deck = Deck.write(path, batch_frames(size, traffic, BATCH_FRAMES))
                for target in self._stage.turns(targets):
                    turn = self._stage.run(target, deck, BATCHES)
                    row = f"a message of a batch of {BATCH_MESSAGES}, {size_name(size)}"
                    self._add(row, GOAL_BATCH, target.name, turn.server_cpu_us)

    def measure_slaves(self) -> None:
        settings = {**DEFAULTS, "brokerRole": "ASYNC_MASTER"}
        place = self._stage.directory / "slaves"
        with ExitStack() as opened:
            namesrv = opened.enter_context(running(NameServer(place / "namesrv")))
            master = opened.enter_context(running(Broker(place / "master", namesrv=namesrv.address, config=settings)))
            target = Target(OURS, namesrv.address, master.address, master.pid, place / "master")
            slaves = {}
            for broker_id, (name, source) in enumerate(((BEFORE, self._before), (OURS, None)), start=1):
                config = {**settings, "brokerRole": "SLAVE", "brokerId": str(broker_id)}
                slave = Broker(place / f"slave-{name}", namesrv=namesrv.address, config=config)
                slave.source = source
                slaves[name] = opened.enter_context(running(slave))
            create_topics(target, self._stage.decks.topics)
            for shape in RECORD_SHAPES:
                for _ in range(self._stage.timing.turns):
                    self._follow(target, slaves, shape)
        shutil.rmtree(place)

    def _follow(self, master: Target, slaves: dict[str, Broker], shape: SendShape) -> None:
        """Both slaves take what the master gets, at the same time."""
        self._wait_equal(master, slaves.values())
        before_s = {name: observe.cpu_s(slave.pid) for name, slave in slaves.items()}
        turn = self._stage.run(master, self._stage.decks.deck(shape), PIPELINED, count=self._records)
        self._wait_equal(master, slaves.values())
        for name, slave in slaves.items():
            cpu_us = (observe.cpu_s(slave.pid) - before_s[name]) * 1e6 / turn.count
            self._add(f"a record in a slave, {shape.name}", GOAL_SLAVE, name, cpu_us)

    def _wait_equal(self, master: Target, slaves: Iterable[Broker]) -> None:
        addresses = [slave.address for slave in slaves]
        wait_until(
            lambda: all(log_end(address) == log_end(master.address) for address in addresses),
            timeout_s=CATCH_UP_S,
            what="the slaves have caught up",
        )

    def measure_recovery(self) -> None:
        for shape in RECORD_SHAPES:
            few, many = stores = [self._stage.directory / name for name in ("few", "many")]
            fill_store(self._stage, few, shape, FEW_RECORDS, is_killed=True)
            fill_store(self._stage, many, shape, FEW_RECORDS + self._records, is_killed=True)
            for name in self._stage.turns((BEFORE, OURS)):
                few_s, many_s = (start_cpu_s(self._servers, name, store) for store in stores)
                cpu_us = (many_s - few_s) * 1e6 / self._records
                self._add(f"a record in recovery, {shape.name}", GOAL_RECOVERY, name, max(cpu_us, 0.01))
            for store in stores:
                shutil.rmtree(store)

    def measure_producer(self) -> None:
        home = self._stage.directory / "clients"
        programs = ClientPrograms(None, home, before=self._before)
        seconds, warm_up_s = self._stage.timing.seconds, 0.2 if self._is_quick else 1.0
        with self._servers.started(OURS) as target:
            create_topics(target, {SENT_TOPIC: 8})
            for size in SIZES:
                for name in self._stage.turns((BEFORE, OURS)):
                    load = ClientLoad("flight", SENT_TOPIC, size, IN_FLIGHT)
                    measured = programs.run(name, load, namesrv=target.namesrv, warm_up_s=warm_up_s, seconds=seconds)
                    if measured.failed:
                        raise BadAnswer(f"{measured.failed} sends failed")
                    row = f"our producer, {IN_FLIGHT:,} in flight, {size_name(size)}"
                    self._add(row, GOAL_PRODUCER, name, measured.cpu_us)


PARTS: dict[str, Callable[[BeforeBenchmark], None]] = {
    "held": BeforeBenchmark.measure_held_pulls,
    "batches": BeforeBenchmark.measure_batches,
    "slaves": BeforeBenchmark.measure_slaves,
    "recovery": BeforeBenchmark.measure_recovery,
    "producer": BeforeBenchmark.measure_producer,
}


def start_cpu_s(servers: Servers, name: str, store: Path) -> float:
    """CPU time of a broker from its start, on a copy of a store, until it takes messages."""
    copy = store.with_name("copy")
    subprocess.run(["cp", "-a", "--sparse=always", str(store), str(copy)], check=True)
    try:
        with servers.started(name, store=copy) as target:
            return observe.cpu_s(target.pid)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
