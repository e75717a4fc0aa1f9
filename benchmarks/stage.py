"""Where Apache's broker and ours meet: both started, warm, and measured in turns, with the same generator.

Rule 1: the brokers are started once for all parts of a run, and Apache's is under load for half a minute before the
first of them: its code is compiled. Ours starts anew, on an empty store, between two rows when it has stored some GiB:
what it takes in some minutes would fill a disk, and it has nothing to compile.
Rule 2: the servers take turns, a second or so each, and whoever was first in one turn is second in the next: the speed
of a machine that others share drifts by a factor of two within minutes, and only what was measured seconds apart can
be compared.
Rule 3: a turn in which one request was refused does not count, and ends the run. Apache's broker refuses some now and
then on a busy machine: its turn is repeated, and said so.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from tests.interop import toolchain
from tests.interop.apache import Apache
from tests.interop.toolchain import Toolchain

from benchmarks.broker_frames import Traffic
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.decks import Deck
from benchmarks.generator import Generator, Load, Turn
from benchmarks.load import BadAnswer
from benchmarks.report import APACHE, Better, Report
from benchmarks.send_shapes import Encoding, Properties, SendDecks, SendShape

Each = TypeVar("Each")
JVM_WARM_UP_S = 30.0
STORED_BYTES_MAX = 4 << 30
ATTEMPTS = 4  # of Apache's broker, for one turn
PIPELINED = Load(connections=2, window=128)
ALONE = Load(connections=64, window=1)
# What Apache's broker gets to warm up: every code that is measured later.
WARM_UPS = [
    (SendShape(1024), PIPELINED),
    (SendShape(128, Encoding.BINARY, Properties.KEY), PIPELINED),
    (SendShape(1024, Encoding.GO, Properties.USER), PIPELINED),
    (SendShape(128, Encoding.SPACED), PIPELINED),
    (SendShape(1024), ALONE),
]


@dataclass(frozen=True)
class Timing:
    """How often and how long."""

    turns: int
    seconds: float
    warm_up_s: float
    jvm_warm_up_s: float
    is_quick: bool = False

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Timing:
        if arguments.quick:
            return cls(turns=1, seconds=0.3, warm_up_s=0.1, jvm_warm_up_s=1.0, is_quick=True)
        return cls(arguments.turns, arguments.seconds, arguments.warm_up, arguments.jvm_warm_up)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=5, help="how often each server has its turn (5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a turn is measured (1)")
    parser.add_argument("--warm-up", type=float, default=0.5, help="seconds of load before that (0.5)")
    parser.add_argument("--jvm-warm-up", type=float, default=JVM_WARM_UP_S, help="of Apache's broker at first (30)")
    parser.add_argument("--quick", action="store_true", help="one turn of a moment each: to see that it runs")
    parser.add_argument("--directory", type=Path, help="where stores are put (the system's directory for such)")


class Stage:
    """All that a part of the benchmark needs. What is not asked for is not started."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.timing = Timing.of(arguments)
        self.servers: Sequence[str] = arguments.servers
        self.traffic = Traffic()
        self._arguments = arguments
        self._opened = ExitStack()
        self._toolchain: Toolchain | None = None
        self._places: dict[Path | None, tuple[Path, Apache | None]] = {}
        self._running: dict[str, tuple[Target, ExitStack]] = {}  # by server

    def __enter__(self) -> Stage:
        """Raises `NoCompiler`."""
        self.directory = self._make_directory(self._arguments.directory)
        self.generator = Generator(self.directory)
        self.decks = SendDecks(self.directory, self.traffic)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._opened.close()

    def _make_directory(self, parent: Path | None) -> Path:
        return Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-", dir=parent)))

    # --------------------------------------------------------------------------------------------------------- servers

    @property
    def toolchain(self) -> Toolchain:
        """Java and Apache's jars, by way of Maven."""
        if self._toolchain is None:
            self._toolchain = toolchain.prepare()
        return self._toolchain

    def starter(self, *, before: Path | None = None, directory: Path | None = None) -> Servers:
        """For parts with servers of their own; `before` has the sources of an earlier version."""
        if directory not in self._places:
            place = self._make_directory(directory) if directory else self.directory
            apache = Apache(self.toolchain, place / "apache") if APACHE in self.servers else None
            self._places[directory] = place, apache
        return Servers(*self._places[directory], before=before)

    @contextmanager
    def targets(
        self, *, settings: Mapping[str, str] | None = None, topics: Mapping[str, int] | None = None
    ) -> Iterator[list[Target]]:
        """The brokers of this run, with the topics of its traffic and others; with settings, brokers of their own."""
        with ExitStack() as running:
            if settings:
                found = [running.enter_context(self._started(name, settings)) for name in self.servers]
            else:
                found = [self._shared(name) for name in self.servers]
            for target in found:
                create_topics(target, topics or {})
            yield found

    def _shared(self, name: str) -> Target:
        if name != APACHE and name in self._running and _stored_bytes(self._running[name][0].store) > STORED_BYTES_MAX:
            _, running = self._running.pop(name)
            running.close()
        if name not in self._running:
            running = self._opened.enter_context(ExitStack())
            self._running[name] = running.enter_context(self._started(name)), running
        return self._running[name][0]

    @contextmanager
    def _started(self, name: str, settings: Mapping[str, str] | None = None) -> Iterator[Target]:
        with self.starter().started(name, settings=settings) as target:
            create_topics(target, self.decks.topics)
            if name == APACHE:
                self._warm_up(target)
            yield target

    def _warm_up(self, target: Target) -> None:
        print("  Apache's broker is warmed up", flush=True)
        for shape, load in WARM_UPS:
            self.run(target, self.decks.deck(shape), load, warm_up=0, seconds=self.timing.jvm_warm_up_s / len(WARM_UPS))

    def clear(self) -> None:
        """Stop what is running: other parts have servers of their own."""
        for _, running in self._running.values():
            running.close()
        self._running.clear()

    # ------------------------------------------------------------------------------------------------------- measuring

    def turns(self, targets: Sequence[Each]) -> Iterator[Each]:
        """Each of them as often as there are turns, in an order that favours none."""
        for number in range(self.timing.turns):
            yield from targets if number % 2 == 0 else targets[::-1]

    def run(self, target: Target, deck: Deck, load: Load, **timing: float) -> Turn:
        """One turn of the usual length, unless the timing says otherwise."""
        timing = timing or {"warm_up": self.timing.warm_up_s, "seconds": self.timing.seconds}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self.generator.run(deck, load, [target.address], [target.pid], **timing)
            except BadAnswer as refused:
                if target.name != APACHE or attempt == ATTEMPTS:
                    raise
                print(f"    {target.name}: once more, {str(refused)[:200]}", flush=True)
        raise AssertionError("the last attempt returns or raises")

    def report(self, name: str, **more: str) -> Report:
        return Report(name, {"turns": str(self.timing.turns), "seconds": f"{self.timing.seconds:g}", **more})


def _stored_bytes(store: Path) -> int:
    """On the disk: files are made with their full size and filled later."""
    return sum(file.stat().st_blocks * 512 for file in (store / "commitlog").iterdir())


def add_turn(
    report: Report,
    row: str,
    target: Target,
    turn: Turn,
    *,
    goal: float | None,
    goal_cpu: float | None = None,
    beside: str = APACHE,
) -> None:
    """A rate, what a message costs the server, and, for the file, what else was going on."""
    report.row(row, "1/s", Better.MORE, goal, beside=beside).add(target.name, turn.rate)
    report.row(f"CPU time, {row}", "us", Better.LESS, goal_cpu, beside=beside).add(target.name, turn.server_cpu_us)
    for label, unit, value in (
        ("generator's share of a core", "%", turn.generator_share * 100),
        ("generator's CPU time", "us", turn.generator_cpu_us),
        ("others' share of a core", "%", turn.others_share * 100),
        ("p50", "ms", turn.p50_ms),
        ("p99", "ms", turn.p99_ms),
    ):
        report.row(f"{label}, {row}", unit, Better.LESS, is_detail=True, beside=beside).add(target.name, value)
    print(f"    {target.name}: {turn}", flush=True)
