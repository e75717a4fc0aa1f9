"""The client: ours beside Apache's Java client, on the same broker, which is ours.

A round, on a broker with an empty store: each client in turn, in a process of its own, sends one message after the
other and waits for each; sends with 1,000 in flight; and consumes a topic that was filled beforehand, each message by a
call of its own that only counts it. Both have their defaults: Java's uses all cores there are, ours one. The broker
needs a core too: on two cores all share them.

Where one client runs the other does not; a client is given time to warm up, Java's also to get compiled.
"""

from __future__ import annotations

import argparse

from benchmarks.broker_frames import Traffic
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.client_programs import BLOCKING, LATENCY, ClientPrograms, Load, Measured
from benchmarks.load import BadAnswer
from benchmarks.pull_decks import FILL
from benchmarks.report import APACHE, OURS, Better, Report
from benchmarks.send_shapes import Encoding, SendDecks, SendShape
from benchmarks.stage import Stage

NAME = "client"
IN_FLIGHT = 1_000
QUEUES = 8
SENT_TOPIC = "SentTopic"
SIZES = {128: "128 B", 1024: "1 KB"}
WARM_UP_S = {APACHE: 5.0, OURS: 1.0}
GOAL_LATENCY = 1.0
GOAL_RATE = 0.5
GOAL_CONSUMED = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("client")
    group.add_argument("--consumed-messages", type=int, default=200_000, help="in the topic consumed (200,000)")
    group.add_argument("--client-bytes", type=int, nargs="+", choices=SIZES, default=list(SIZES), help="of a body")


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    quick = arguments.quick
    rounds = 1 if quick else arguments.rounds
    seconds = stage.timing.seconds
    shown = {"rounds": str(rounds), "seconds a load": f"{seconds:g}", "in flight": f"{IN_FLIGHT:,}"}
    benchmark = ClientBenchmark(
        Report(NAME, shown, others="Java's"),
        stage,
        ClientPrograms(stage.toolchain if APACHE in stage.servers else None, stage.directory / "clients"),
        sizes=arguments.client_bytes,
        is_quick=quick,
        consumed_count=2_000 if quick else arguments.consumed_messages,
    )
    for number in range(rounds):
        print(f"  round {number + 1} of {rounds}", flush=True)
        benchmark.run()
    return benchmark.report


class ClientBenchmark:
    """One round after the other, each on a broker of its own."""

    def __init__(
        self,
        report: Report,
        stage: Stage,
        programs: ClientPrograms,
        *,
        sizes: list[int],
        is_quick: bool,
        consumed_count: int,
    ) -> None:
        self.report = report
        self._stage = stage
        self._programs = programs
        self._clients = stage.servers
        self._sizes = sizes
        self._is_quick = is_quick
        self._consumed_count = consumed_count
        self._decks = {size: SendDecks(stage.directory, _filled(size)) for size in sizes}

    def run(self) -> None:
        with Servers(self._stage.directory, None).started(OURS) as target:
            create_topics(target, {SENT_TOPIC: QUEUES})
            for size, decks in self._decks.items():
                # What is consumed later, in the queues of a topic, as several producers would mix it.
                create_topics(target, decks.topics)
                deck = decks.deck(SendShape(size, Encoding.BINARY))
                self._stage.run(target, deck, FILL, count=self._consumed_count)
            small = min(self._sizes)
            self._latency(target, f"one sender, {SIZES[small]}", Load(LATENCY, SENT_TOPIC, small, 1), GOAL_LATENCY)
            self._latency(target, f"one blocking sender, {SIZES[small]}", Load(BLOCKING, SENT_TOPIC, small, 1), None)
            for size in self._sizes:
                load = Load("flight", SENT_TOPIC, size, IN_FLIGHT)
                self._rate(target, f"{IN_FLIGHT:,} in flight, {SIZES[size]}", load, GOAL_RATE)
            for size in self._sizes:
                load = Load("consume", _filled(size).topics[0], size, self._consumed_count)
                self._rate(target, f"push consumption, {SIZES[size]}", load, GOAL_CONSUMED)

    def _latency(self, target: Target, name: str, load: Load, goal: float | None) -> None:
        for client in self._clients:
            measured = self._measure(target, client, name, load)
            self.report.row(f"p50 of {name}", "us", Better.LESS, goal).add(client, measured.p50_us)
            self.report.row(f"p99 of {name}", "us", Better.LESS).add(client, measured.p99_us)

    def _rate(self, target: Target, name: str, load: Load, goal: float) -> None:
        for client in self._clients:
            measured = self._measure(target, client, name, load)
            self.report.row(name, "1/s", Better.MORE, goal).add(client, measured.rate)
            self.report.row(f"client's CPU time, {name}", "us", Better.LESS).add(client, measured.cpu_us)

    def _measure(self, target: Target, client: str, name: str, load: Load) -> Measured:
        warm_up_s = 0.2 if self._is_quick else WARM_UP_S[client]
        seconds = self._stage.timing.seconds
        measured = self._programs.run(client, load, namesrv=target.namesrv, warm_up_s=warm_up_s, seconds=seconds)
        print(f"    {client}, {name}: {measured}", flush=True)
        if measured.failed:
            raise BadAnswer(f"{measured.failed} sends failed")
        return measured


def _filled(size: int) -> Traffic:
    return Traffic(topic_count=1, queue_count=QUEUES, topic_prefix=f"FilledTopic{size}-")
