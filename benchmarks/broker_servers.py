"""A name server and a broker, Apache's or ours, for one round of the broker benchmark.

Both brokers get the same configuration file, which leaves everything at Apache's defaults (log files of 1 GiB,
asynchronous flush) but addresses and directories; both stores lie on the same disk. Apache's runs with the flags of its
own start script and a heap of 1 GiB. Neither refuses what has waited for long: on a machine that others use too, some
of any load would be refused. Ours runs as the installed command does, with its bytecode compiled, as
installing does it; the plain form of ours and an earlier version of it run the same way.
"""

from __future__ import annotations

import itertools
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop import remoting
from tests.interop.apache import BROKER_JVM, NAMESRV_JVM, Apache, Server
from tests.interop.processes import Process, wait_until
from tests.interop.routes import find_route
from tests.ports import free_port

from benchmarks.broker_frames import BROKER, one_send
from benchmarks.frames import SUCCESS, answer_code
from benchmarks.load import ask, connect
from benchmarks.report import APACHE, BEFORE, OURS, PLAIN

UPDATE_AND_CREATE_TOPIC = 17
PERM_READ_WRITE = 6
READY_TIMEOUT_S = 90.0
POLL_S = 0.005
COMMAND = Path(sys.executable).parent / "skyrocketmq"
ENVIRON = {"PYTHONDONTWRITEBYTECODE": ""}
# What the test suite makes small for its own sake is set back to what Apache's broker has by default.
DEFAULTS = {
    "mappedFileSizeCommitLog": str(1024 * 1024 * 1024),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
    "registerNameServerPeriod": "30000",
    # Not a default: after 200 ms, and after a second, what waits is refused.
    "waitTimeMillsInSendQueue": "20000",
    "osPageCacheBusyTimeOutMills": "20000",
}

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Target:
    """A broker under test."""

    name: str
    namesrv: str
    address: str
    pid: int
    store: Path


class Servers:
    """Starts what is measured, each in a directory of its own that is deleted afterwards."""

    def __init__(self, directory: Path, apache: Apache | None, *, before: Path | None = None) -> None:
        """`apache` may be left out where only ours are started; `before` has the sources of an earlier version."""
        self._directory = directory
        self._apache = apache
        self._environs = {OURS: ENVIRON, PLAIN: {**ENVIRON, "SKYROCKETMQ_PLAIN": "1"}}
        if before is not None:
            self._environs[BEFORE] = {**ENVIRON, "PYTHONPATH": str(before)}

    @contextmanager
    def started(
        self, name: str, *, settings: Mapping[str, str] | None = None, store: Path | None = None
    ) -> Iterator[Target]:
        """A name server and a broker, ready; on an empty store, unless one is given."""
        with ExitStack() as running:
            store = store or running.enter_context(self._place(f"{name}-store"))
            settings = DEFAULTS | dict(settings or {})
            if name == APACHE:
                assert self._apache is not None, "Apache's side was not prepared"
                namesrv = running.enter_context(self._apache.namesrv(jvm=NAMESRV_JVM))
                broker = running.enter_context(
                    self._apache.broker(namesrv=namesrv.address, store=store, config=settings, jvm=BROKER_JVM)
                )
                yield Target(name, namesrv.address, broker.address, broker.pid, store)
            else:
                yield running.enter_context(self._our_own(name, store, settings))

    @contextmanager
    def _our_own(self, name: str, store: Path, more: Mapping[str, str]) -> Iterator[Target]:
        environ = self._environs[name]
        with ExitStack() as running:
            home = running.enter_context(self._place("ours"))
            namesrv_port, port = free_port(), free_port(-2, 1)
            namesrv = f"127.0.0.1:{namesrv_port}"
            config = home / "broker.conf"
            settings = {
                "brokerName": BROKER,
                "brokerIP1": "127.0.0.1",
                "namesrvAddr": namesrv,
                "listenPort": str(port),
                "storePathRootDir": str(store),
                "storePathCommitLog": str(store / "commitlog"),
                **more,
            }
            config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            running.enter_context(
                _process([str(COMMAND), "namesrv", "--listen-port", str(namesrv_port)], home / "namesrv.log", environ)
            )
            _wait_for_port(namesrv)
            command = [str(COMMAND), "broker", "-c", str(config)]
            broker = running.enter_context(_process(command, home / "broker.log", environ))
            target = Target(name, namesrv, f"127.0.0.1:{port}", broker.pid, store)
            _wait_for_sends(broker, namesrv)
            yield target

    # ------------------------------------------------------------------------------------------- time until ready

    def ready_ms(self, name: str) -> float:
        """From the start of the first process until a message, sent where its route says, is acknowledged."""
        with ExitStack() as running:
            home = running.enter_context(self._place(f"{name}-start"))
            if name == OURS:
                start = time.perf_counter()
                running.enter_context(self.up())
                return (time.perf_counter() - start) * 1000
            assert self._apache is not None, "Apache's side was not prepared"
            namesrv = running.enter_context(self._apache.namesrv(jvm=NAMESRV_JVM, start=False))
            broker = running.enter_context(
                self._apache.broker(
                    namesrv=namesrv.address, store=home / "store", config=DEFAULTS, jvm=BROKER_JVM, start=False
                )
            )
            return _apaches_ready_ms(namesrv, broker)

    @contextmanager
    def up(self, *, brokers: int = 1) -> Iterator[Target]:
        """Ours as `skyrocketmq up` starts it, once a broker takes messages: the process is that of all of them."""
        with ExitStack() as running:
            home = running.enter_context(self._place("up"))
            namesrv_port, port = free_port(), free_port(-2, 1)
            command = [str(COMMAND), "up", "--data", str(home / "data"), "--no-dashboard", "--brokers", str(brokers)]
            command += ["--namesrv-port", str(namesrv_port), "--broker-port", str(port)]
            process = running.enter_context(_process(command, home / "up.log", ENVIRON))
            _wait_for_sends(process, f"127.0.0.1:{namesrv_port}")
            yield Target(OURS, f"127.0.0.1:{namesrv_port}", f"127.0.0.1:{port}", process.pid, home / "data")

    @contextmanager
    def _place(self, name: str) -> Iterator[Path]:
        place = self._directory / f"{next(_numbers):03}-{name}"
        place.mkdir(parents=True)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _apaches_ready_ms(namesrv: Server, broker: Server) -> float:
    start = time.perf_counter()
    namesrv.start(wait=False)
    # As soon as the name server listens: a broker that comes earlier registers only ten seconds later.
    _wait_for_port(namesrv.address)
    broker.start(wait=False)
    _wait_for_sends(broker.process, namesrv.address)
    return (time.perf_counter() - start) * 1000


def create_topics(target: Target, topics: Mapping[str, int]) -> None:
    """Make topics with so many queues, and wait until the name server knows them."""
    for topic, queue_count in topics.items():
        ext = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(queue_count),
            "writeQueueNums": str(queue_count),
            "perm": str(PERM_READ_WRITE),
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        reply = remoting.request(target.address, UPDATE_AND_CREATE_TOPIC, ext)
        assert reply.code == SUCCESS, reply
    wait_until(
        lambda: all(find_route(target.namesrv, topic) for topic in topics),
        timeout_s=READY_TIMEOUT_S,
        what="the name server knows the topics",
    )


def _wait_for_sends(process: Process, namesrv: str) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not _answers_sends(namesrv):
        assert process.is_alive, process.tail()
        assert time.monotonic() < deadline, f"{process.name} is not ready\n{process.tail()}"
        time.sleep(POLL_S)


def _answers_sends(namesrv: str) -> bool:
    """Whether a message can be sent: the route leads to a broker that acknowledges it."""
    try:
        route = find_route(namesrv, "TBW102")
        if route is None:
            return False
        [connection] = connect(route["brokerDatas"][0]["brokerAddrs"]["0"], 1)
        with connection:
            return answer_code(ask(connection, one_send("ReadyTopic", 0, b"ready?", number=next(_numbers)))) == SUCCESS
    except OSError:
        return False


def _wait_for_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on {address}"
            time.sleep(POLL_S)


@contextmanager
def _process(command: list[str], log: Path, environ: Mapping[str, str]) -> Iterator[Process]:
    process = Process(command, name=" ".join(command[1:2]), log=log, environ=environ)
    try:
        yield process
    finally:
        process.stop()
