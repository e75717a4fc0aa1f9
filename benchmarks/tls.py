"""TLS: what encryption costs a broker that takes messages.

The same sends as in the broker's benchmark, 1 KB with binary headers, two connections with 128 in flight each: first
plain, then over TLS, in turns of the two brokers. Both have the certificate that they make for themselves, and agree
with the generator on the newest protocol that both know. The cost of TLS is what a message takes of the server's CPU
time over TLS, less what it takes without.
"""

from __future__ import annotations

import argparse
import select
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from tests.interop import toolchain
from tests.interop.apache import Apache

from benchmarks.broker_frames import FramePool, SendForm, Traffic
from benchmarks.broker_load import Sender, run_full
from benchmarks.broker_servers import Servers, Target, create_topics
from benchmarks.load import BadAnswer, connect
from benchmarks.meter import Outcome
from benchmarks.report import APACHE, Better, Report

__all__ = ["NAME", "TlsSocket", "add_arguments", "run"]

NAME = "tls"
CONNECTIONS = 2
IN_FLIGHT = 128
FORM = SendForm(1024, binary=True)
JVM_WARM_UP_S = 6.0
GOAL_RATE = 1.0
GOAL_COST = 1.0
STALL_TIMEOUT_S = 20.0
WAYS = ("plain", "TLS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    quick = arguments.quick
    rounds = 1 if quick else arguments.rounds
    seconds = 0.5 if quick else arguments.seconds
    shown = {"rounds": str(rounds), "seconds a load": f"{seconds:g}", "message": FORM.name}
    report = Report(NAME, shown)
    traffic = Traffic()
    pools = [FramePool(FORM, traffic) for _ in range(CONNECTIONS)]
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=arguments.directory) as directory, ExitStack() as opened:
        apache = Apache(toolchain.prepare(), Path(directory) / "apache") if APACHE in arguments.servers else None
        servers = Servers(Path(directory), apache)
        targets = [opened.enter_context(servers.started(name)) for name in arguments.servers]
        for target in targets:
            create_topics(target, dict.fromkeys(traffic.topics, traffic.queue_count))
            for way in WAYS:
                _load(target, pools, way, seconds=0.1, warm_up_s=0.2 if quick else JVM_WARM_UP_S)
        for number in range(rounds):
            for target in targets if number % 2 == 0 else targets[::-1]:
                costs = {}
                for way in WAYS:
                    outcome = _load(target, pools, way, seconds=seconds, warm_up_s=0.2 if quick else arguments.warm_up)
                    costs[way] = outcome.server_cpu_us
                    _add(report, target, way, outcome)
                cost = report.row("CPU time of TLS, a message", "us", Better.LESS, GOAL_COST)
                cost.add(target.name, max(costs["TLS"] - costs["plain"], 0.01))
    _say_losses(report, arguments.servers)
    return report


def _load(target: Target, pools: list[FramePool], way: str, *, seconds: float, warm_up_s: float) -> Outcome:
    with ExitStack() as opened:
        connections = [opened.enter_context(each) for each in connect(target.address, CONNECTIONS)]
        sockets = [opened.enter_context(TlsSocket.open(each)) if way == "TLS" else each for each in connections]
        senders = [Sender(each, pool) for each, pool in zip(sockets, pools, strict=True)]  # type: ignore[arg-type]
        return run_full(senders, in_flight=IN_FLIGHT, seconds=seconds, warm_up_s=warm_up_s, server_pid=target.pid)


def _add(report: Report, target: Target, way: str, outcome: Outcome) -> None:
    report.row(f"send {FORM.name}, {way}", "1/s", Better.MORE, GOAL_RATE if way == "TLS" else None).add(
        target.name, outcome.rate
    )
    report.row(f"CPU time, send {FORM.name}, {way}", "us", Better.LESS).add(target.name, outcome.server_cpu_us)
    report.row(f"generator's share of a core, {way}", "%", Better.LESS, is_detail=True).add(
        target.name, outcome.generator_share * 100
    )
    report.row(f"refused, {way}", "messages", Better.LESS, is_detail=True).add(
        target.name, float(outcome.refused.total())
    )
    print(f"    {target.name}, {way}: {outcome}", flush=True)


def _say_losses(report: Report, servers: list[str]) -> None:
    rates = {way: report.row(f"send {FORM.name}, {way}", "1/s", Better.MORE) for way in WAYS}
    for name in servers:
        plain, tls = (median(rates[way].values[name]) for way in WAYS)
        report.row("rate with TLS, of that without", "%", Better.MORE).add(name, tls / plain * 100)


class TlsSocket:
    """A connection over TLS that behaves as a plain one does: as `select` says, blocked when there is no room."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, connection: socket.socket) -> Iterator[TlsSocket]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # both make their certificate themselves
        with context.wrap_socket(connection) as wrapped:
            yield cls(wrapped)

    def fileno(self) -> int:
        return self._connection.fileno()

    def setblocking(self, is_blocking: bool) -> None:
        self._connection.setblocking(is_blocking)

    def send(self, data: memoryview) -> int:
        try:
            return self._connection.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def recv_into(self, buffer: memoryview) -> int:
        """All that has come: what stays in TLS's own buffer is not seen by `select`."""
        received = 0
        while received < len(buffer):
            try:
                count = self._connection.recv_into(buffer[received:])
            except ssl.SSLWantReadError:
                if received:
                    break
                if not select.select([self], (), (), STALL_TIMEOUT_S)[0]:  # the rest of a record is on its way
                    raise BadAnswer("a record of TLS broke off") from None
                continue
            if not count:
                break
            received += count
        return received
