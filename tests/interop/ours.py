"""Our own servers as real processes: the installed command, a directory of their own, any free port."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.interop.processes import Process

READY_TIMEOUT_S = 30.0
READY_LINE = re.compile(r"name server ready on (\S+):(\d+)")
COMMAND = Path(sys.executable).parent / "skyrocketmq"


class NameServer:
    """`skyrocketmq namesrv` in a directory of its own; started again, it comes back on the same port."""

    def __init__(self, directory: Path, config: Mapping[str, str] | None = None, *, port: int = 0) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._process: Process | None = None
        self._start_count = 0
        self.port = port
        self.config_file = directory / "namesrv.conf"
        settings = {"kvConfigPath": str(directory / "kvConfig.json"), **(config or {})}
        self.config_file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

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

    def start(self) -> None:
        self._start_count += 1
        process = Process(
            [str(COMMAND), "namesrv", "-c", str(self.config_file), "--listen-port", str(self.port)],
            name="our name server",
            log=self._directory / f"console-{self._start_count}.log",
        )
        self._process = process
        process.wait_until(lambda: READY_LINE.search(process.said()) is not None, timeout_s=READY_TIMEOUT_S)
        ready = READY_LINE.search(process.said())
        assert ready is not None
        self.port = int(ready[2])

    def stop(self) -> int:
        return self.process.stop()

    def kill(self) -> int:
        return self.process.kill()


@contextmanager
def namesrv(directory: Path, *, config: Mapping[str, str] | None = None, port: int = 0) -> Iterator[NameServer]:
    """A running name server of ours; stopped at the end of the block, and cleanly if it still runs."""
    server = NameServer(directory, config, port=port)
    try:
        server.start()
        yield server
    finally:
        if server._process is not None and server.process.is_alive:
            assert server.stop() == 0, server.process.tail()
