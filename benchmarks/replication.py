"""Replication: how many acknowledgements a second mean "a slave has it too".

A master and a slave of the same make, each a process, on one machine; the master answers once the slave has reported
the message. Loads: 64 senders with one message on its way each, and two connections with 128 each. Beside them the same
without waiting for the slave, which follows all the same and has to catch up before the next load. Promised is 1.5
times Apache's rate for synchronous replication.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.interop import remoting
from tests.interop.apache import BROKER_JVM, NAMESRV_JVM, Apache
from tests.interop.ours import Broker, NameServer, running
from tests.interop.processes import wait_until

from benchmarks.broker_frames import one_send
from benchmarks.broker_servers import DEFAULTS, Target, create_topics
from benchmarks.frames import SUCCESS, answer_code
from benchmarks.load import ask, connect
from benchmarks.report import APACHE, Report
from benchmarks.send_shapes import SIZES, SendShape
from benchmarks.stage import ALONE, PIPELINED, Stage, add_turn
from skyrocketmq.wire.bodies import decode_body
from skyrocketmq.wire.bodies_tables import KvTable

NAME = "replication"
GOAL_SYNC = 1.5
READY_TIMEOUT_S = 60.0
GET_BROKER_RUNTIME_INFO = 28
SHAPES = [SendShape(size) for size in SIZES]
LOADS = {"64 senders": ALONE, "2 x 128 in flight": PIPELINED}
ROLES = {"SYNC_MASTER": "synchronous", "ASYNC_MASTER": "asynchronous"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME, slaves="1")
    for role, way in ROLES.items():
        place = stage.directory / role
        with ExitStack() as opened:
            settings = {**DEFAULTS, "brokerRole": role}
            slaves = dict(opened.enter_context(_started(stage, name, place / name, settings)) for name in stage.servers)
            for target, slave in slaves.items():
                create_topics(target, stage.decks.topics)
                _wait_replicated(target, slave, stage.traffic.topics[0])
                stage.run(target, stage.decks.deck(SHAPES[0]), ALONE, warm_up=0, seconds=stage.timing.jvm_warm_up_s / 6)
            for shape in SHAPES:
                for name, load in LOADS.items():
                    row = f"{way}, {name}, {shape.name}"
                    print(f"  {row}", flush=True)
                    for target in stage.turns(list(slaves)):
                        turn = stage.run(target, stage.decks.deck(shape), load)
                        add_turn(report, row, target, turn, goal=GOAL_SYNC if role == "SYNC_MASTER" else None)
                        _wait_equal(target, slaves[target])
        shutil.rmtree(place)
    return report


@contextmanager
def _started(stage: Stage, name: str, place: Path, settings: Mapping[str, str]) -> Iterator[tuple[Target, str]]:
    """A name server, a master, and a slave; the master as the target, and the slave's address."""
    slave_settings = {**settings, "brokerRole": "SLAVE", "brokerId": "1"}
    with ExitStack() as opened:
        if name == APACHE:
            apache = Apache(stage.toolchain, place / "apache")
            namesrv = opened.enter_context(apache.namesrv(jvm=NAMESRV_JVM))
            master = opened.enter_context(
                apache.broker(namesrv=namesrv.address, store=place / "master", config=settings, jvm=BROKER_JVM)
            )
            slave = opened.enter_context(
                apache.broker(
                    namesrv=namesrv.address, broker_id=1, store=place / "slave", config=slave_settings, jvm=BROKER_JVM
                )
            )
            yield Target(name, namesrv.address, master.address, master.pid, place / "master"), slave.address
        else:
            own = opened.enter_context(running(NameServer(place / "namesrv")))
            first = opened.enter_context(running(Broker(place / "master", namesrv=own.address, config=settings)))
            second = opened.enter_context(running(Broker(place / "slave", namesrv=own.address, config=slave_settings)))
            yield Target(name, own.address, first.address, first.pid, place / "master"), second.address


def _wait_replicated(target: Target, slave: str, topic: str) -> None:
    """Until a message is acknowledged as the role promises, and is at the slave."""
    number = iter(range(1, 1 << 30))

    def is_acknowledged() -> bool:
        [connection] = connect(target.address, 1)
        with connection:
            return answer_code(ask(connection, one_send(topic, 0, b"ready?", number=next(number)))) == SUCCESS

    wait_until(is_acknowledged, timeout_s=READY_TIMEOUT_S, what="the slave has joined")
    _wait_equal(target, slave)


def _wait_equal(target: Target, slave: str) -> None:
    wait_until(
        lambda: log_end(target.address) == log_end(slave), timeout_s=READY_TIMEOUT_S, what="the slave has caught up"
    )


def log_end(address: str) -> int:
    """Where the log of a broker ends."""
    while (reply := remoting.request(address, GET_BROKER_RUNTIME_INFO)).code:
        time.sleep(0.2)  # Apache's broker cannot say in the first second of its life
    return int(decode_body(KvTable, reply.body).table["commitLogMaxOffset"])
