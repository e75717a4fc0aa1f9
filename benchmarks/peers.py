"""Our client and broker beside other messaging systems and their Python clients: Kafka, NATS JetStream, Redis streams.

Messages of 1 KB, produced with 1,000 of them under way, each acknowledged by the server; and consumed with
acknowledgements, from a topic that was filled before. Each client is a program of its own with one event loop
(`peer_clients` says how it is used); each server stores everything in files and forces nothing to the disk message by
message (`peer_servers` says what is set).

All servers stay up; in a round each peer has its turn and right after it ours, so that only what was measured seconds
apart is compared. A system that cannot be had on this machine is left out, and it is said why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.broker_servers import Servers, create_topics
from benchmarks.client_programs import ROOT, Measured, run_program
from benchmarks.load import BadAnswer
from benchmarks.peer_clients import IN_FLIGHT
from benchmarks.peer_servers import PEERS, Peer, Unavailable
from benchmarks.report import OURS, Better, Report

__all__ = ["NAME", "add_arguments", "run"]

NAME = "peers"
PRODUCE = "produce"
CONSUME = "consume"
SHOWN = {PRODUCE: "produced", CONSUME: "consumed"}
PLAIN = "ours-plain"
PLAIN_SHOWN = {PRODUCE: "produced, a request for each message", CONSUME: "consumed, a call of a handler for each"}
QUEUES = 8
SENT_TOPIC = "Sent"
FILLED_TOPIC = "Filled"
# An answer may have as many messages as those of the others have: theirs end at 1 MiB or at the number asked for.
OUR_SETTINGS = {"maxTransferCountOnMessageInMemory": "1024", "maxTransferBytesOnMessageInMemory": str(1 << 20)}
GOAL = 1.0
FILL_TIMEOUT_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("peers")
    group.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="which systems (all)")
    group.add_argument("--peer-messages", type=int, default=100_000, help="in the topic consumed (100,000)")


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    quick = arguments.quick
    rounds = 1 if quick else arguments.rounds
    seconds = 0.3 if quick else arguments.seconds
    shown = {"rounds": str(rounds), "seconds a load": f"{seconds:g}", "in flight": f"{IN_FLIGHT:,}"}
    with ExitStack() as opened:
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory("", "benchmark-", arguments.directory)))
        benchmark = PeersBenchmark(
            Report(NAME, shown, others="theirs"),
            directory,
            seconds=seconds,
            warm_up_s=0.1 if quick else arguments.warm_up,
            message_count=5_000 if quick else arguments.peer_messages,
        )
        benchmark.open(opened, arguments.peers)
        for number in range(rounds):
            print(f"  round {number + 1} of {rounds}", flush=True)
            benchmark.run()
        return benchmark.report


class PeersBenchmark:
    """Servers that stay up, and one round after the other."""

    def __init__(
        self, report: Report, directory: Path, *, seconds: float, warm_up_s: float, message_count: int
    ) -> None:
        self.report = report
        self._directory = directory
        self._seconds = seconds
        self._warm_up_s = warm_up_s
        self._message_count = message_count
        self._peers: list[Peer] = []
        self._addresses: dict[str, str] = {}

    def open(self, opened: ExitStack, names: list[str]) -> None:
        """Start every server that can be had, and fill a topic on each."""
        target = opened.enter_context(Servers(self._directory, None).started(OURS, settings=OUR_SETTINGS))
        create_topics(target, dict.fromkeys((SENT_TOPIC, FILLED_TOPIC), QUEUES))
        self._addresses[OURS] = self._addresses[PLAIN] = target.namesrv
        for peer in (PEERS[name]() for name in names):
            try:
                peer.prepare()
            except Unavailable as reason:
                print(f"  {peer.title} is left out: {reason}", flush=True)
                self.report.settings[f"without {peer.title}"] = str(reason).partition("\n")[0]
                continue
            self._addresses[peer.name] = opened.enter_context(peer.started(self._directory / peer.name))
            self._peers.append(peer)
        for client in (OURS, *(peer.name for peer in self._peers)):
            self._fill(client, SENT_TOPIC, 0)
            self._fill(client, FILLED_TOPIC, self._message_count)

    def run(self) -> None:
        for kind in (PRODUCE, CONSUME):
            for peer in self._peers:
                name = f"{SHOWN[kind]}, beside {peer.title}"
                row = self.report.row(name, "1/s", Better.MORE, GOAL, beside=peer.name)
                cpu = self.report.row(f"client's CPU time, {name}", "us", Better.LESS, beside=peer.name)
                for client, server in ((peer.name, peer.name), (OURS, OURS)):
                    measured = self._measure(kind, client)
                    row.add(server, measured.rate)
                    cpu.add(server, measured.cpu_us)
            measured = self._measure(kind, PLAIN)
            self.report.row(PLAIN_SHOWN[kind], "1/s", Better.MORE).add(OURS, measured.rate)
            self.report.row(f"client's CPU time, {PLAIN_SHOWN[kind]}", "us", Better.LESS).add(OURS, measured.cpu_us)

    def _measure(self, kind: str, client: str) -> Measured:
        topic = SENT_TOPIC if kind == PRODUCE else FILLED_TOPIC
        arguments = [str(self._message_count), str(self._warm_up_s), str(self._seconds)]
        command = self._command(kind, client, topic, *arguments)
        measured = run_program(command, name=client, log_file=self._directory / f"{client}.log")
        print(f"    {client}, {SHOWN[kind]}: {measured}", flush=True)
        if not measured.count:
            raise BadAnswer(f"{client} has {SHOWN[kind]} nothing")
        return measured

    def _fill(self, client: str, topic: str, count: int) -> None:
        command = self._command("fill", client, topic, str(count))
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=FILL_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise BadAnswer(f"{client} could not fill a topic:\n{done.stderr[-2000:]}")

    def _command(self, kind: str, client: str, topic: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peer_load", kind, client, self._addresses[client], topic, *arguments]
