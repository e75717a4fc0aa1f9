"""More cores: `up --brokers 2` beside `up --brokers 1`, each broker a process with a log of its own.

The same load goes to both: four connections with 128 messages in flight each, which two brokers share. What a second
broker gains depends on the cores that are left besides the generator, which needs a part of one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from tests.interop.processes import wait_until
from tests.interop.routes import find_route

from benchmarks import observe
from benchmarks.broker_servers import READY_TIMEOUT_S, Servers, Target, create_topics
from benchmarks.generator import Load
from benchmarks.report import OURS, Better, Report
from benchmarks.send_shapes import SIZES, Encoding, SendShape
from benchmarks.stage import Stage

NAME = "brokers"
ONE, TWO = "1 broker", OURS  # what is compared with what
COUNTS = {ONE: 1, TWO: 2}
LOAD = Load(connections=4, window=128)
SHAPES = [SendShape(size, encoding) for size in SIZES for encoding in (Encoding.JAVA, Encoding.BINARY)]


@dataclass(frozen=True)
class Group:
    """The brokers of one command, and its processes."""

    name: str
    addresses: list[str]
    pids: list[int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    cores = observe.machine()["cores"]
    report = replace(stage.report(NAME, cores=cores, in_flight="4 x 128"), others=ONE, ours="2 brokers")
    servers = stage.starter()
    with ExitStack() as running:
        groups = [running.enter_context(_up(servers, stage, name)) for name in COUNTS]
        for shape in SHAPES:
            row = f"send {shape.name}"
            print(f"  {row}", flush=True)
            for group in stage.turns(groups):
                timing = {"warm_up": stage.timing.warm_up_s, "seconds": stage.timing.seconds}
                turn = stage.generator.run(stage.decks.deck(shape), LOAD, group.addresses, group.pids, **timing)
                print(f"    {COUNTS[group.name]}: {turn}", flush=True)
                report.row(row, "1/s", Better.MORE, beside=ONE).add(group.name, turn.rate)
                cost = report.row(f"CPU time, {row}", "us", Better.LESS, beside=ONE)
                cost.add(group.name, turn.server_cpu_us)
    return report


@contextmanager
def _up(servers: Servers, stage: Stage, name: str) -> Iterator[Group]:
    with servers.up(brokers=COUNTS[name]) as target:
        wait_until(
            lambda: len(_addresses(target)) == COUNTS[name],
            timeout_s=READY_TIMEOUT_S,
            what="all are registered",
        )
        addresses = _addresses(target)
        for address in addresses:
            create_topics(replace(target, address=address), stage.decks.topics)
        yield Group(name, addresses, [target.pid, *observe.children(target.pid)])


def _addresses(target: Target) -> list[str]:
    route = find_route(target.namesrv, "TBW102")
    return [broker["brokerAddrs"]["0"] for broker in route["brokerDatas"]] if route else []
