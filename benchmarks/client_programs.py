"""Starting one client as a program of its own, Apache's in a JVM or ours, and reading what it measured.

Both programs take the same arguments and print the same lines; see `client_load`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.interop.toolchain import Toolchain

from benchmarks import observe
from benchmarks.load import BadAnswer
from benchmarks.report import BEFORE, OURS

JVM = ("-Xms512m", "-Xmx512m")
EXIT_TIMEOUT_S = 30.0
ROOT = Path(__file__).parent.parent
BLOCKING = "blocking"
LATENCY = "latency"


@dataclass(frozen=True)
class Load:
    """What a client has to do."""

    kind: str  # of `client_load`
    topic: str
    body_bytes: int
    count: int  # in flight, or there to be consumed


@dataclass(frozen=True)
class Measured:
    """What it did."""

    count: int
    failed: int
    seconds: float
    p50_us: float
    p99_us: float
    cpu_us: float  # of the client, for one message

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    def __str__(self) -> str:
        latencies = f"p50 {self.p50_us:,.0f}, p99 {self.p99_us:,.0f} us, " if self.p50_us else ""
        failed = f", FAILED {self.failed}" if self.failed else ""
        return f"{latencies}{self.rate:,.0f} /s, {self.cpu_us:.1f} us of the client's CPU a message{failed}"


class ClientPrograms:
    """Starts clients of either make. `toolchain` may be left out where only ours are started."""

    def __init__(self, toolchain: Toolchain | None, home: Path, *, before: Path | None = None) -> None:
        """`before` has the sources of an earlier version of ours."""
        self._toolchain = toolchain
        self._home = home
        self._before = before
        home.mkdir(exist_ok=True)

    def run(self, client: str, load: Load, *, namesrv: str, warm_up_s: float, seconds: float) -> Measured:
        arguments = [namesrv, load.topic, str(warm_up_s), str(seconds), str(load.body_bytes), str(load.count)]
        command = self._command(client, load.kind, arguments)
        environ = {}
        if client == BEFORE:
            assert self._before is not None, "no earlier version was prepared"
            environ = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(self._before)])}
        log_file = self._home / f"{client}.log"
        return run_program(command, name=f"the {client} client", log_file=log_file, environ=environ)

    def _command(self, client: str, kind: str, arguments: list[str]) -> list[str]:
        if client in (OURS, BEFORE):
            return [sys.executable, "-m", "benchmarks.client_load", kind, *arguments]
        assert self._toolchain is not None, "Apache's side was not prepared"
        if kind == BLOCKING:
            kind = LATENCY  # Java's producer knows no other way
        options = [*JVM, f"-Duser.home={self._home}"]
        return self._toolchain.command("skyrocketmq.interop.ClientLoad", kind, *arguments, jvm=options)


def run_program(command: list[str], *, name: str, log_file: Path, environ: Mapping[str, str] | None = None) -> Measured:
    """Start a program that measures itself, and read what it says; see `client_load`."""
    with (
        log_file.open("ab") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env={**os.environ, **(environ or {})}
        ) as program,
    ):
        assert program.stdout is not None
        try:
            if program.stdout.readline() != "measuring\n":
                raise BadAnswer(f"{name} did not start:\n{log_file.read_text()[-2000:]}")
            cpu_before_s = observe.cpu_s(program.pid)
            line = program.stdout.readline()
            cpu_s = observe.cpu_s(program.pid) - cpu_before_s
            if not line:
                raise BadAnswer(f"{name} ended too early:\n{log_file.read_text()[-2000:]}")
            program.wait(EXIT_TIMEOUT_S)
        finally:
            program.kill()
    count, failed, taken_ns, p50_ns, p99_ns = (int(word) for word in line.split())
    return Measured(count, failed, taken_ns / 1e9, p50_ns / 1e3, p99_ns / 1e3, cpu_s * 1e6 / max(count, 1))
