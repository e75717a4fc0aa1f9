"""Synchronous flush: how many acknowledgements a second mean "it is on the disk".

64 senders, each with one message of 1 KB on its way: each is answered when its message is durable, and one sync serves
all who wait. Beside it stand asynchronous flush, one sender alone (a sync a message), a disk in memory, and a disk
whose syncs take 5 ms longer. Promised is Apache's rate on a disk, where the disk is the limit, and 1.5 times it in
memory; and at least 60 % of our asynchronous rate or 20 times that of one sync a message, whichever is less.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker_servers import create_topics
from benchmarks.generator import Load
from benchmarks.report import APACHE, OURS, Better, Report
from benchmarks.send_shapes import SendShape
from benchmarks.slow_sync import slow_syncs
from benchmarks.stage import ALONE, Stage, add_turn

NAME = "flush"
SLOW_MS = 5.0
SHAPE = SendShape(1024)
ONE = Load(connections=1, window=1)
ASYNC, SYNC = WAYS = ("ASYNC_FLUSH", "SYNC_FLUSH")
GOAL_DISK, GOAL_MEMORY = 1.0, 1.5
SHARE_OF_ASYNC = 0.6
TIMES_ONE_SYNC = 20
MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Disk:
    """A disk as it is, one in memory, or one with slower syncs."""

    name: str
    goal: float
    extra_ms: float = 0.0
    directory: Path | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("flush")
    group.add_argument(
        "--sync-ms", type=float, default=SLOW_MS, help="how much longer a sync of the slow disk takes (5)"
    )


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME, senders=str(ALONE.connections))
    disks = [Disk("", goal=GOAL_DISK), Disk(", on tmpfs", directory=MEMORY, goal=GOAL_MEMORY)]
    disks.append(Disk(f", syncs {arguments.sync_ms:g} ms longer", extra_ms=arguments.sync_ms, goal=GOAL_DISK))
    for disk in disks:
        if disk.directory is not None and not disk.directory.is_dir():
            print(f"  left out{disk.name}: there is no {disk.directory}")
            continue
        slowness = slow_syncs(disk.extra_ms, stage.directory) if disk.extra_ms else nullcontext()
        with slowness:
            for way in WAYS:
                _measure(stage, report, way, disk)
        _compare(report, disk)
    return report


def _measure(stage: Stage, report: Report, way: str, disk: Disk) -> None:
    """All servers, flushing in one way on one disk, in turns."""
    servers = stage.starter(directory=disk.directory)
    with ExitStack() as running:
        targets = [
            running.enter_context(servers.started(name, settings={"flushDiskType": way})) for name in stage.servers
        ]
        for target in targets:
            create_topics(target, stage.decks.topics)
            stage.run(target, stage.decks.deck(SHAPE), ALONE, warm_up=0, seconds=stage.timing.jvm_warm_up_s / 6)
        for load in (ALONE, ONE) if way == SYNC else (ALONE,):
            row = _row(way, load.connections, disk)
            print(f"  {row}", flush=True)
            for target in stage.turns(targets):
                turn = stage.run(target, stage.decks.deck(SHAPE), load)
                add_turn(report, row, target, turn, goal=disk.goal if load is ALONE and way == SYNC else None)


def _compare(report: Report, disk: Disk) -> None:
    """What group commit makes of a disk: the rate beside the lesser of the two promised ones."""
    rows = {row.name: row for row in report.rows}
    row = report.row(f"of what is promised{disk.name}", "times", Better.MORE, limit=1.0)
    for server in (APACHE, OURS):
        rates = [
            rows[_row(way, senders, disk)].median_of(server)
            for way, senders in ((SYNC, ALONE.connections), (ASYNC, ALONE.connections), (SYNC, 1))
        ]
        if None not in rates:
            together, asynchronous, alone = (rate for rate in rates if rate is not None)
            row.add(server, together / min(asynchronous * SHARE_OF_ASYNC, alone * TIMES_ONE_SYNC))


def _row(way: str, senders: int, disk: Disk) -> str:
    count = "one sender" if senders == 1 else f"{senders} senders"
    return f"{way}, {count}{disk.name}"
