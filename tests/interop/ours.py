"""Our own servers as real processes: the installed command, a directory of their own, any free port."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.interop.processes import Process
from tests.ports import free_port

READY_TIMEOUT_S = 30.0
NAMESRV_READY = re.compile(r"^name server ready on (\S+):(\d+)$", re.MULTILINE)
BROKER_READY = re.compile(r"^broker \S+ ready on (\S+):(\d+)$", re.MULTILINE)
COMMAND = Path(sys.executable).parent / "skyrocketmq"
# Megabytes instead of gigabytes: a test sends little.
SMALL_STORE = {
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
}


class OurServer(ABC):
    """One command in a directory of its own; started again, it comes back on the same port."""

    name: str
    ready: re.Pattern[str]

    def __init__(self, directory: Path, *, port: int = 0) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.port = port
        self.source: Path | None = None  # of another version, for the next start
        self._process: Process | None = None
        self._start_count = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> Process:
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_alive

    @abstractmethod
    def arguments(self) -> Sequence[str]:
        """What follows the command's name."""

    def start(self) -> None:
        self._start_count += 1
        process = Process(
            [str(COMMAND), *self.arguments()],
            name=self.name,
            log=self.directory / f"console-{self._start_count}.log",
            environ={"PYTHONPATH": str(self.source)} if self.source else None,
        )
        self._process = process
        process.wait_until(lambda: self.ready.search(process.said()) is not None, timeout_s=READY_TIMEOUT_S)
        ready = self.ready.search(process.said())
        assert ready is not None
        self.port = int(ready[2])

    def stop(self) -> int:
        return self.process.stop()

    def kill(self) -> int:
        return self.process.kill()


class NameServer(OurServer):
    """`skyrocketmq namesrv`."""

    name = "our name server"
    ready = NAMESRV_READY

    def __init__(self, directory: Path, config: Mapping[str, str] | None = None, *, port: int = 0) -> None:
        super().__init__(directory, port=port)
        self.config_file = directory / "namesrv.conf"
        write_config(self.config_file, {"kvConfigPath": str(directory / "kvConfig.json"), **(config or {})})

    def arguments(self) -> Sequence[str]:
        return ["namesrv", "-c", str(self.config_file), "--listen-port", str(self.port)]


class Broker(OurServer):
    """`skyrocketmq broker`, ready once its name servers know it."""

    ready = BROKER_READY

    def __init__(
        self, directory: Path, *, namesrv: str, name: str = "broker-a", config: Mapping[str, str] | None = None
    ) -> None:
        # Chosen here, not by the broker, out of ports that no connection takes: it is to be free again after a stop.
        super().__init__(directory, port=free_port(-2, 1))
        self.name = f"our broker {name}"
        self.config_file = directory / "broker.conf"
        self.namesrv = namesrv
        store = directory / "store"
        settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": name,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "storePathRootDir": str(store),
            "storePathCommitLog": str(store / "commitlog"),
            **SMALL_STORE,
            **(config or {}),
        }
        write_config(self.config_file, settings)

    def arguments(self) -> Sequence[str]:
        return ["broker", "-c", str(self.config_file), "-n", self.namesrv, "--set", f"listenPort={self.port}"]


class Up(OurServer):
    """`skyrocketmq up`: a name server and a broker in one process; its address is the broker's."""

    name = "our name server and broker in one"
    ready = BROKER_READY

    def __init__(self, directory: Path, *, config: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, port=free_port(-2, 1))
        self.namesrv_port = free_port()
        self._config = dict(config or {})

    @property
    def namesrv_address(self) -> str:
        return f"127.0.0.1:{self.namesrv_port}"

    def arguments(self) -> Sequence[str]:
        ports = ["--namesrv-port", str(self.namesrv_port), "--broker-port", str(self.port)]
        settings = [argument for key, value in self._config.items() for argument in ("--set", f"{key}={value}")]
        return ["up", "--data", str(self.directory / "data"), "--no-dashboard", *ports, *settings]


AnyServer = TypeVar("AnyServer", bound=OurServer)


@contextmanager
def running(server: AnyServer) -> Iterator[AnyServer]:
    """The server, started; stopped at the end of the block, and cleanly if it still runs."""
    try:
        server.start()
        yield server
    finally:
        if server.is_running:
            assert server.stop() == 0, server.process.tail()


@contextmanager
def namesrv(directory: Path, *, config: Mapping[str, str] | None = None, port: int = 0) -> Iterator[NameServer]:
    """A running name server of ours."""
    with running(NameServer(directory, config, port=port)) as server:
        yield server


def write_config(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
