"""A cluster as a real process, and commands that are its clients."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.cli.processes import BIN, WAIT_S, Running, running

SKYROCKETMQ = BIN / "skyrocketmq"
NAMESRV_READY = re.compile(r"name server ready on (\S+)")
UP = ["up", "--namesrv-port", "0", "--broker-port", "0", "--no-dashboard", "--log-level", "warning"]
UP += ["--set", "enablePropertyFilter=true"]


class Finished(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Cluster:
    """Where it is, and a way to run commands against it."""

    def __init__(self, namesrv: str, home: Path) -> None:
        self.namesrv = namesrv
        self.home = home

    def command(self, *arguments: str) -> list[str | Path]:
        return [SKYROCKETMQ, *arguments, "-n", self.namesrv]

    def run(self, *arguments: str, given: str | bytes = b"") -> Finished:
        """Run a command to its end, with this on its standard input."""
        done = subprocess.run(
            self.command(*arguments),
            input=given.encode() if isinstance(given, str) else given,
            env={**os.environ, "HOME": str(self.home)},
            capture_output=True,
            timeout=WAIT_S,
            check=False,
            cwd=self.home,
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """`skyrocketmq up` on free ports."""
    directory.mkdir(parents=True, exist_ok=True)
    with running([SKYROCKETMQ, *UP, "--data", directory / "data"], home=directory) as server:
        yield Cluster(_address(server), directory)


def _address(server: Running) -> str:
    while line := server.line():
        if found := NAMESRV_READY.fullmatch(line):
            assert server.line().startswith("broker ")
            return found[1]
    raise AssertionError(f"it did not start: {server.errors}")
