"""The name server: 100 brokers with 10,000 topics register, clients ask for routes.

Every topic lives on 4 brokers, so a broker carries 400 topics and its registration is a frame of about 60 kB; the name
server holds 40,000 entries. Each broker is a connection of the generator's with one registration in flight, as a real
one has; routes are asked for on 8 other connections with 64 requests in flight each, all topics in turn.

A round, for one server: the brokers connect and register for the first time; then registrations over and over, first
unchanged ones (heartbeats), then such with a new data version and one changed topic each time; then route queries. At
the end the brokers hang up, which makes the server forget them, and the next round is a first time again.
"""

from __future__ import annotations

import argparse
import random
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop import ours, toolchain
from tests.interop.apache import NAMESRV_JVM, Apache
from tests.interop.processes import wait_until
from tests.interop.routes import all_topics

from benchmarks import namesrv_frames as frames
from benchmarks import observe
from benchmarks.frames import answer_body, answer_code
from benchmarks.load import BadAnswer, Load, Outcome, Stream, ask, connect
from benchmarks.namesrv_frames import Form, Plan
from benchmarks.report import APACHE, Better, Report

NAME = "namesrv"
CLIENT_CONNECTIONS = 8
CLIENT_IN_FLIGHT = 64
VERSIONS = 8
"""So many data versions a broker takes turns with: none is equal to the one before it."""
REGISTERED_BYTES = (20, 180)
"""The answer to a registration is a header alone; a refusal carries a remark that makes it longer."""
ANSWERS_DIFFER_BYTES = 20
"""Routes of two topics differ only in the digits of numbers."""
FORGET_TIMEOUT_S = 30.0
GOAL_RATE = 1.0
GOAL_TIME = 1.0
GOAL_MEMORY = 0.25

REGISTRATIONS = {
    "JSON header": Form(),
    "binary header": Form(binary=True),
    "compressed": Form(compressed=True),
    "3.0.10 body": Form(version=frames.VERSION_3_0_10),
}
QUERIES = {
    "JSON header": Form(),
    "binary header": Form(binary=True),
    "4.9.3 client": Form(version=frames.VERSION_4_9_3),
}


@dataclass(frozen=True)
class Target:
    name: str
    address: str
    pid: int


@dataclass
class Settings:
    plan: Plan
    rounds: int
    seconds: float
    warm_up_s: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("namesrv")
    group.add_argument("--brokers", type=int, default=100)
    group.add_argument("--topics", type=int, default=10_000)
    group.add_argument("--spread", type=int, default=4, help="on how many brokers each topic lives")


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    plan = Plan(broker_count=arguments.brokers, topic_count=arguments.topics, spread=arguments.spread)
    settings = Settings(plan, arguments.rounds, arguments.seconds, arguments.warm_up)
    report = Report(
        NAME,
        {
            "brokers": str(plan.broker_count),
            "topics": str(plan.topic_count),
            "brokers a topic": str(plan.spread),
            "rounds": str(settings.rounds),
        },
    )
    traffic = Traffic(plan)
    with ExitStack() as running:
        directory = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        targets = [running.enter_context(_started(name, directory, report)) for name in arguments.servers]
        for number in range(settings.rounds):
            for target in targets:
                print(f"  round {number + 1} of {settings.rounds}: {target.name}", flush=True)
                measure(target, traffic, settings, report)
    return report


@contextmanager
def _started(name: str, directory: Path, report: Report) -> Iterator[Target]:
    start = time.perf_counter()
    with ExitStack() as running:
        if name == APACHE:
            apache = Apache(toolchain.prepare(), directory)
            start = time.perf_counter()  # without the build
            server = running.enter_context(apache.namesrv(jvm=NAMESRV_JVM))
            target = Target(name, server.address, server.pid)
        else:
            our_own = running.enter_context(ours.namesrv(directory / "ours"))
            target = Target(name, our_own.address, our_own.pid)
        report.row("time until ready", "ms", Better.LESS).add(name, (time.perf_counter() - start) * 1000)
        yield target


class Traffic:
    """Everything that will be sent, encoded once for all rounds and both servers."""

    def __init__(self, plan: Plan) -> None:
        brokers = range(plan.broker_count)
        self.heartbeats = {
            name: [[frames.registration(plan, broker, counter=0, form=form)] for broker in brokers]
            for name, form in REGISTRATIONS.items()
        }
        self.changes = [
            [frames.registration(plan, broker, counter=counter, form=Form()) for counter in range(1, VERSIONS + 1)]
            for broker in brokers
        ]
        shuffled = random.Random(0).sample(plan.topics, plan.topic_count)
        self.queries = {
            name: [frames.route_query(topic, form=form) for topic in shuffled] for name, form in QUERIES.items()
        }


def measure(target: Target, traffic: Traffic, settings: Settings, report: Report) -> None:
    """One round with one server."""
    plan = settings.plan
    brokers = connect(target.address, plan.broker_count)
    clients = connect(target.address, CLIENT_CONNECTIONS)
    try:
        first = register_all(brokers, traffic.heartbeats["JSON header"])
        report.row("first registration of all", "ms", Better.LESS, GOAL_TIME).add(target.name, first.seconds * 1000)
        for name, heartbeats in traffic.heartbeats.items():
            # One registration in this form first: from then on each is equal to the one before.
            register_all(brokers, heartbeats)
            load = registering(brokers, heartbeats)
            rated(f"heartbeats, {name}", load, target, settings, report)
        rated("changed registrations", registering(brokers, traffic.changes), target, settings, report)
        for name, queries in traffic.queries.items():
            rated(f"route queries, {name}", asking(clients, queries, plan), target, settings, report)
        memory = observe.rss_anon_bytes(target.pid) / 2**20
        report.row("RssAnon", "MiB", Better.LESS, GOAL_MEMORY).add(target.name, memory)
    finally:
        for connection in (*brokers, *clients):
            connection.close()
    wait_until(lambda: not all_topics(target.address), timeout_s=FORGET_TIMEOUT_S, what="all brokers are forgotten")


def rated(name: str, load: Load, target: Target, settings: Settings, report: Report) -> None:
    """Put the server under load: how many a second, and what each cost the server."""
    outcome = load.run_for(settings.seconds, warm_up_s=settings.warm_up_s, server_pid=target.pid)
    report.row(name, "1/s", Better.MORE, GOAL_RATE).add(target.name, outcome.rate)
    report.row(f"CPU time, {name}", "us", Better.LESS).add(target.name, outcome.server_cpu_us)
    share = report.row(f"generator's share of a core, {name}", "%", Better.LESS, is_detail=True)
    share.add(target.name, outcome.generator_share * 100)


def register_all(brokers: Sequence[socket.socket], registrations: Sequence[Sequence[bytes]]) -> Outcome:
    """Every broker registers once."""
    return registering(brokers, registrations).run_once()


def registering(brokers: Sequence[socket.socket], registrations: Sequence[Sequence[bytes]]) -> Load:
    streams = [Stream(connection, own) for connection, own in zip(brokers, registrations, strict=True)]
    return Load(streams, in_flight=1, answer_bytes=REGISTERED_BYTES)


def asking(clients: Sequence[socket.socket], queries: Sequence[bytes], plan: Plan) -> Load:
    """Routes of all topics in turn; each client begins at another one."""
    sample = ask(clients[0], queries[0])
    route = answer_body(sample)
    if answer_code(sample) != 0 or route.count(b'"brokerAddrs"') != plan.spread:
        raise BadAnswer(f"not the route of a topic on {plan.spread} brokers: {sample[:300]!r}")
    share = len(queries) // len(clients)
    streams = [Stream(connection, queries, next_frame=number * share) for number, connection in enumerate(clients)]
    sizes = (len(sample) - ANSWERS_DIFFER_BYTES, len(sample) + ANSWERS_DIFFER_BYTES)
    return Load(streams, in_flight=CLIENT_IN_FLIGHT, answer_bytes=sizes)
