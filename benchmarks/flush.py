"""Synchronous flush: how many acknowledgements a second mean "it is on the disk".

64 senders, each with one message of 1 KB on its way: each is answered when its message is durable, and one sync serves
all who wait. Beside it stand asynchronous flush, one sender alone (a sync a message), and a disk whose syncs
take 5 ms longer. Promised is at least Apache's rate, and at least 60 % of our asynchronous rate or 20 times that of one
sync a message, whichever is less.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.interop import toolchain
from tests.interop.apache import Apache

from benchmarks.broker_frames import FramePool, SendForm, Traffic
from benchmarks.broker_load import Sender, run_full
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.load import connect
from benchmarks.meter import Outcome
from benchmarks.report import APACHE, OURS, Better, Report
from benchmarks.slow_sync import compiler, slow_syncs

__all__ = ["NAME", "add_arguments", "run"]

NAME = "flush"
SENDERS = 64
SLOW_MS = 5.0
FORM = SendForm(1024)
SHARE_OF_ASYNC = 0.6
TIMES_ONE_SYNC = 20
TRAFFIC = Traffic(topic_prefix="FlushTopic", topic_count=4)


@dataclass(frozen=True)
class Disk:
    """A disk as it is, or with slower syncs."""

    name: str
    extra_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("flush")
    group.add_argument(
        "--sync-ms", type=float, default=SLOW_MS, help="how much longer a sync of the slow disk takes (5)"
    )


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    seconds = 0.5 if arguments.quick else arguments.seconds
    rounds = 1 if arguments.quick else arguments.rounds
    shown = {"rounds": str(rounds), "seconds a load": f"{seconds:g}", "senders": str(SENDERS)}
    disks = [Disk("", 0.0)]
    if compiler() is not None:
        disks.append(Disk(f", syncs {arguments.sync_ms:g} ms longer", arguments.sync_ms))
    else:
        print("  the slow disk is left out: it needs a C compiler")
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=arguments.directory) as directory:
        benchmark = FlushBenchmark(Report(NAME, shown), Path(directory), arguments, seconds)
        for number in range(rounds):
            for disk in disks:
                for name in arguments.servers:
                    print(f"  round {number + 1} of {rounds}: {name}{disk.name}", flush=True)
                    benchmark.measure(name, disk)
        for disk in disks:
            benchmark.compare(disk)
        return benchmark.report


class FlushBenchmark:
    """All rounds."""

    def __init__(self, report: Report, directory: Path, arguments: argparse.Namespace, seconds: float) -> None:
        self.report = report
        self._directory = directory
        self._seconds = seconds
        self._warm_up_s = 0.3 if arguments.quick else max(arguments.warm_up, 3.0)
        apache = Apache(toolchain.prepare(), directory / "apache") if APACHE in arguments.servers else None
        self._servers = Servers(directory, apache)
        self._pools = [FramePool(FORM, TRAFFIC, chunk_count=1) for _ in range(SENDERS)]

    def measure(self, name: str, disk: Disk) -> None:
        """One server, flushing in both ways on this disk."""
        for way in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            slowness = slow_syncs(disk.extra_ms, self._directory) if disk.extra_ms else nullcontext()
            with slowness, self._servers.started(name, settings={"flushDiskType": way}) as target:
                create_topics(target, dict.fromkeys(TRAFFIC.topics, TRAFFIC.queue_count))
                self._load(target, _row(way, SENDERS, disk), SENDERS, goal=1.0)
                if way == "SYNC_FLUSH":
                    self._load(target, _row(way, 1, disk), 1, goal=None)

    def compare(self, disk: Disk) -> None:
        """What group commit makes of a disk: the rate beside the lesser of the two promised ones."""
        rows = {row.name: row for row in self.report.rows}
        row = self.report.row(f"of what is promised{disk.name}", "times", Better.MORE, limit=1.0)
        for server in (APACHE, OURS):
            rates = [
                rows[name].median_of(server)
                for name in (
                    _row("SYNC_FLUSH", SENDERS, disk),
                    _row("ASYNC_FLUSH", SENDERS, disk),
                    _row("SYNC_FLUSH", 1, disk),
                )
            ]
            if None not in rates:
                together, asynchronous, alone = (rate for rate in rates if rate is not None)
                row.add(server, together / min(asynchronous * SHARE_OF_ASYNC, alone * TIMES_ONE_SYNC))

    def _load(self, target: Target, row: str, senders: int, *, goal: float | None) -> None:
        with self._connected(target, senders) as opened:
            outcome = run_full(
                opened, in_flight=1, seconds=self._seconds, warm_up_s=self._warm_up_s, server_pid=target.pid
            )
        assert not outcome.refused, outcome.refused
        self._add(row, target, outcome, goal)

    def _add(self, row: str, target: Target, outcome: Outcome, goal: float | None) -> None:
        self.report.row(row, "1/s", Better.MORE, goal).add(target.name, outcome.rate)
        share = self.report.row(f"generator's share of a core, {row}", "%", Better.LESS, is_detail=True)
        share.add(target.name, outcome.generator_share * 100)
        print(f"    {row}: {outcome}", flush=True)

    @contextmanager
    def _connected(self, target: Target, count: int) -> Iterator[list[Sender]]:
        with ExitStack() as opened:
            connections = [opened.enter_context(each) for each in connect(target.address, count)]
            yield [Sender(each, pool) for each, pool in zip(connections, self._pools, strict=False)]


def _row(way: str, senders: int, disk: Disk) -> str:
    count = "one sender" if senders == 1 else f"{senders} senders"
    return f"{way}, {count}{disk.name}"
