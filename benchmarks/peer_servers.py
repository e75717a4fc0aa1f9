"""Other messaging systems as servers of a benchmark: where their programs come from, and how they are started.

| system | program | kept outside of git |
|---|---|---|
| Apache Kafka | jars through Maven, named in `kafka/pom.xml` | `kafka/target` |
| NATS JetStream | `go install` by the name of its module | `build/peers` |
| Redis | the one on the machine, else Debian's packages, unpacked and not installed | `build/peers` |

Rule 1: one server each, on loopback, everything stored in files, nothing forced to the disk message by message; all
        else is left at the system's defaults. What is set is in `start` of each, and told in `docs/performance.md`.
Rule 2: what cannot be had here is `Unavailable` with the reason; the benchmark goes on without it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.interop import toolchain
from tests.interop.processes import Process
from tests.interop.toolchain import Unavailable
from tests.ports import free_port

__all__ = ["PEERS", "Peer", "Unavailable"]

ROOT = Path(__file__).parent.parent
KAFKA_DIR = Path(__file__).parent / "kafka"
BUILD_DIR = ROOT / "build" / "peers"
NATS_MODULE = "github.com/nats-io/nats-server/v2@v2.15.2"
KAFKA_JVM = ("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")  # of Kafka's start script
KAFKA_CLUSTER_ID = "c2t5cm9ja2V0bXEtYmVuYw"
READY_TIMEOUT_S = 90.0
BUILD_TIMEOUT_S = 600.0


class Peer(ABC):
    """One system. `prepare` gets its programs, `started` runs its server."""

    name: str  # as `peer_load` knows it
    title: str  # of its Python client, for the report
    package: str  # of its Python client, to import

    def prepare(self) -> None:
        """Get everything that is needed; raises `Unavailable`."""
        if find_spec(self.package) is None:
            raise Unavailable(f"{self.title} is not installed: pip install -e '.[bench]'")
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None: ...

    @abstractmethod
    def start(self, home: Path, port: int) -> Process:
        """The server with its files under `home`."""

    @contextmanager
    def started(self, home: Path) -> Iterator[str]:
        """The address of a server that takes connections; its files are deleted at the end."""
        home.mkdir(parents=True)
        port = free_port()
        process = self.start(home, port)
        try:
            process.wait_until(lambda: _is_listening(port), timeout_s=READY_TIMEOUT_S)
            yield f"127.0.0.1:{port}"
        finally:
            process.stop()
            shutil.rmtree(home, ignore_errors=True)


class Kafka(Peer):
    """One broker that is its own controller (KRaft)."""

    name = "kafka"
    title = "aiokafka"
    package = "aiokafka"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = settings or {}

    def _prepare(self) -> None:
        self._tools = toolchain.prepare(KAFKA_DIR)

    def start(self, home: Path, port: int) -> Process:
        controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "log.dirs": str(home / "logs"),
            "offsets.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",  # a group of one need not wait for others
            **self._settings,
        }
        config = home / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        arguments = ["format", "-t", KAFKA_CLUSTER_ID, "-c", str(config)]
        formatter = self._tools.command("kafka.tools.StorageTool", *arguments)
        _run(formatter, what="Kafka's files could not be formatted")
        command = self._tools.command("skyrocketmq.interop.Attached", "kafka.Kafka", str(config), jvm=KAFKA_JVM)
        return Process(command, name="Kafka", log=home / "kafka.log")


class Nats(Peer):
    """A server with JetStream."""

    name = "nats"
    title = "nats-py"
    package = "nats"
    _program = BUILD_DIR / "nats-server"

    def _prepare(self) -> None:
        if self._program.exists():
            return
        go = shutil.which("go")
        if go is None:
            raise Unavailable("the NATS server is built from its sources, and there is no Go to do it")
        # Everything under our own directory: nothing of it is left on the machine when that is deleted.
        places = {"GOBIN": str(BUILD_DIR), "GOPATH": str(BUILD_DIR / "go"), "GOFLAGS": "-modcacherw"}
        _run([go, "install", NATS_MODULE], what="the NATS server could not be built", environ=places)
        shutil.rmtree(BUILD_DIR / "go", ignore_errors=True)

    def start(self, home: Path, port: int) -> Process:
        command = [str(self._program), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(home / "store")]
        return Process(command, name="NATS", log=home / "nats.log")


class Redis(Peer):
    """A server that appends every command to a file, and syncs that once a second."""

    name = "redis"
    title = "redis-py"
    package = "redis"
    _unpacked = BUILD_DIR / "redis"

    def _prepare(self) -> None:
        self._environ: dict[str, str] = {}
        self._program = shutil.which("redis-server")
        if self._program is None:
            if not self._unpacked.exists():
                _unpack_debian("redis-server", self._unpacked)
            self._program = str(self._unpacked / "usr" / "bin" / "redis-server")
            libraries = [str(path) for path in (self._unpacked / "usr" / "lib").iterdir() if path.is_dir()]
            self._environ = {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}

    def start(self, home: Path, port: int) -> Process:
        assert self._program is not None
        settings = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "dir": str(home)}
        command = [self._program, "--bind", "127.0.0.1", "--port", str(port)]
        command += [word for name, value in settings.items() for word in (f"--{name}", value)]
        return Process(command, name="Redis", log=home / "redis.log", environ=self._environ)


PEERS: Mapping[str, type[Peer]] = {peer.name: peer for peer in (Kafka, Nats, Redis)}


def _unpack_debian(package: str, directory: Path) -> None:
    """A package and what it needs beyond what is installed, unpacked: nobody has to be root for that."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise Unavailable(f"there is no {package} on this machine, and no apt-get to fetch it")
    planned = _run(["apt-get", "install", "--simulate", package], what=f"no {package} among Debian's packages")
    packages = re.findall(r"^Inst (\S+) ", planned, re.MULTILINE)
    downloads = directory.with_suffix(".packages")
    downloads.mkdir(parents=True, exist_ok=True)
    _run(["apt-get", "download", *packages], what=f"{package} could not be fetched", cwd=downloads)
    unfinished = directory.with_suffix(".unfinished")
    for archive in downloads.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(archive), str(unfinished)], what=f"{archive.name} could not be unpacked")
    unfinished.rename(directory)
    shutil.rmtree(downloads)


def _run(command: list[str], *, what: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **(environ or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"{what}: {(done.stdout + done.stderr).strip()[-1000:]}")
    return done.stdout


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False
