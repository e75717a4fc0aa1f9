"""Replication: how many acknowledgements a second mean "a slave has it too".

A master and a slave of the same make, each a process, on one machine; the master answers once the slave has reported
the message. Loads: 64 senders with one message on its way each, and two connections with 128 each. Beside them the same
without waiting for the slave, which follows all the same and has to catch up before the next load. Promised is at least
Apache's rate for synchronous replication.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.interop import remoting, toolchain
from tests.interop.apache import BROKER_JVM, NAMESRV_JVM, Apache, Server
from tests.interop.ours import Broker, NameServer, running
from tests.interop.processes import wait_until

from benchmarks.broker_frames import FramePool, SendForm, Traffic, one_send
from benchmarks.broker_load import Sender, run_full
from benchmarks.broker_servers import DEFAULTS, Target, create_topics
from benchmarks.frames import SUCCESS, answer_code
from benchmarks.load import ask, connect
from benchmarks.meter import Outcome
from benchmarks.report import APACHE, Better, Report
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import KvTable

__all__ = ["NAME", "add_arguments", "run"]

NAME = "replication"
GOAL_SYNC = 1.0
READY_TIMEOUT_S = 60.0
GET_BROKER_RUNTIME_INFO = 28
FORMS = (SendForm(1024), SendForm(128))
LOADS = {"64 senders": (64, 1), "2 x 128 in flight": (2, 128)}  # connections, in flight on each
ROLES = {"SYNC_MASTER": "synchronous", "ASYNC_MASTER": "asynchronous"}
TRAFFIC = Traffic(topic_prefix="ReplicaTopic", topic_count=4)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    rounds = 1 if arguments.quick else arguments.rounds
    seconds = 0.5 if arguments.quick else arguments.seconds
    shown = {"rounds": str(rounds), "seconds a load": f"{seconds:g}", "slaves": "1"}
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=arguments.directory) as directory:
        benchmark = ReplicationBenchmark(Report(NAME, shown), Path(directory), arguments, seconds)
        for number in range(rounds):
            for name in arguments.servers:
                for role in ROLES:
                    print(f"  round {number + 1} of {rounds}: {name}, {role}", flush=True)
                    benchmark.measure(name, role)
        return benchmark.report


class ReplicationBenchmark:
    """All rounds."""

    def __init__(self, report: Report, directory: Path, arguments: argparse.Namespace, seconds: float) -> None:
        self.report = report
        self._directory = directory
        self._seconds = seconds
        self._warm_up_s = 0.3 if arguments.quick else max(arguments.warm_up, 3.0)
        self._apache = Apache(toolchain.prepare(), directory / "apache") if APACHE in arguments.servers else None
        most = max(connections for connections, _ in LOADS.values())
        self._pools = {form: [FramePool(form, TRAFFIC, chunk_count=1) for _ in range(most)] for form in FORMS}
        self._count = 0

    def measure(self, name: str, role: str) -> None:
        """One make of brokers in one role, on empty stores."""
        self._count += 1
        place = self._directory / f"{self._count:03}-{name}"
        place.mkdir()
        try:
            with self._started(name, place, {**DEFAULTS, "brokerRole": role}) as (target, slave):
                create_topics(target, dict.fromkeys(TRAFFIC.topics, TRAFFIC.queue_count))
                _wait_replicated(target, slave)
                for form in FORMS:
                    for load, (connections, in_flight) in LOADS.items():
                        self._load(target, f"{ROLES[role]}, {load}, {form.name}", form, connections, in_flight)
                        _wait_equal(target, slave)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _load(self, target: Target, row: str, form: SendForm, connections: int, in_flight: int) -> None:
        with ExitStack() as opened:
            sockets = [opened.enter_context(each) for each in connect(target.address, connections)]
            senders = [Sender(each, pool) for each, pool in zip(sockets, self._pools[form], strict=False)]
            outcome = run_full(
                senders,
                in_flight=in_flight,
                seconds=self._seconds,
                warm_up_s=self._warm_up_s,
                server_pid=target.pid,
            )
        self._add(row, target, outcome, GOAL_SYNC if row.startswith("synchronous") else None)

    def _add(self, row: str, target: Target, outcome: Outcome, goal: float | None) -> None:
        self.report.row(row, "1/s", Better.MORE, goal).add(target.name, outcome.rate)
        for label, unit, value in (
            ("generator's share of a core", "%", outcome.generator_share * 100),
            ("refused", "messages", float(outcome.refused.total())),
        ):
            self.report.row(f"{label}, {row}", unit, Better.LESS, is_detail=True).add(target.name, value)
        print(f"    {row}: {outcome}", flush=True)

    # --------------------------------------------------------------------------------------------------------- servers

    @contextmanager
    def _started(self, name: str, place: Path, settings: Mapping[str, str]) -> Iterator[tuple[Target, str]]:
        """A name server, a master, and a slave; the master as the target, and the slave's address."""
        slave_settings = {**settings, "brokerRole": "SLAVE", "brokerId": "1"}
        with ExitStack() as opened:
            if name == APACHE:
                assert self._apache is not None, "Apache's side was not prepared"
                namesrv = opened.enter_context(self._apache.namesrv(jvm=NAMESRV_JVM))
                master = opened.enter_context(self._apaches(namesrv.address, place / "master", settings))
                slave = opened.enter_context(self._apaches(namesrv.address, place / "slave", slave_settings, 1))
                said = master.process.said
                yield Target(name, namesrv.address, master.address, master.pid, place / "master", said), slave.address
            else:
                own = opened.enter_context(running(NameServer(place / "namesrv")))
                first = opened.enter_context(running(Broker(place / "master", namesrv=own.address, config=settings)))
                second = opened.enter_context(
                    running(Broker(place / "slave", namesrv=own.address, config=slave_settings))
                )
                said = first.process.said
                yield Target(name, own.address, first.address, first.pid, place / "master", said), second.address

    @contextmanager
    def _apaches(self, namesrv: str, store: Path, settings: Mapping[str, str], broker_id: int = 0) -> Iterator[Server]:
        assert self._apache is not None, "Apache's side was not prepared"
        with self._apache.broker(
            namesrv=namesrv, broker_id=broker_id, store=store, config=settings, jvm=BROKER_JVM
        ) as broker:
            yield broker


def _wait_replicated(target: Target, slave: str) -> None:
    """Until a message is acknowledged as the role promises, and is at the slave."""
    number = iter(range(1, 1 << 30))

    def is_acknowledged() -> bool:
        [connection] = connect(target.address, 1)
        with connection:
            topic = TRAFFIC.topics[0]
            return answer_code(ask(connection, one_send(topic, 0, b"ready?", number=next(number)))) == SUCCESS

    wait_until(is_acknowledged, timeout_s=READY_TIMEOUT_S, what="the slave has joined")
    _wait_equal(target, slave)


def _wait_equal(target: Target, slave: str) -> None:
    wait_until(
        lambda: _log_end(target.address) == _log_end(slave), timeout_s=READY_TIMEOUT_S, what="the slave has caught up"
    )


def _log_end(address: str) -> int:
    while (reply := remoting.request(address, GET_BROKER_RUNTIME_INFO)).code:
        time.sleep(0.2)  # Apache's broker cannot say in the first second of its life
    return int(decode_body(KvTable, reply.body).table["commitLogMaxOffset"])
