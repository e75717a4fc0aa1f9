"""A child process with its output in a file: started, waited for, stopped, killed, paused; always by its own id."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from tests.waiting import wait_until as wait_until

POLL_S = 0.02
STOP_TIMEOUT_S = 20.0
LOG_TAIL_CHARACTERS = 8_000


class Died(Exception):
    """The process ended, or did not become ready; the text ends with what it said."""


class Process:
    """One child process. Its standard input stays open as long as we live: its end may be a server's signal to go."""

    running: ClassVar[set[Process]] = set()
    """Those that were started and not yet ended: a failed test shows what they said."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        log: Path,
        more_logs: Sequence[Path] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._logs = [log, *more_logs]
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environ or {})},
                cwd=log.parent,
            )
        self.running.add(self)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def said(self) -> str:
        """Everything it printed and logged."""
        return "".join(log.read_text(errors="replace") for log in self._logs if log.exists())

    def wait_until(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Return as soon as `ready` holds; raise `Died` if the process ends before, or the time is up."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.is_alive:
                raise Died(f"{self.name} ended with {self._child.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise Died(f"{self.name} was not ready within {timeout_s} s\n{self.tail()}")
            time.sleep(POLL_S)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask it to end, and kill it if it does not; the exit code. Harmless if it has ended already."""
        if self.is_alive:
            self._child.send_signal(signal.SIGCONT)
            self._child.terminate()
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._child.kill()
        return self._reap()

    def kill(self) -> int:
        """End it at once, as a power cut would: it gets no chance to say goodbye."""
        if self.is_alive:
            self._child.kill()
        return self._reap()

    def pause(self) -> None:
        """Stop its threads, while its connections stay open."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def _reap(self) -> int:
        code = self._child.wait()
        assert self._child.stdin is not None
        self._child.stdin.close()
        self.running.discard(self)
        return code

    def tail(self) -> str:
        return "".join(log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] for log in self._logs if log.exists())


class RunningServer(Protocol):
    """What a test needs of a server, Apache's or ours."""

    @property
    def address(self) -> str: ...
    def start(self) -> None: ...
    def stop(self) -> int: ...
    def kill(self) -> int: ...
