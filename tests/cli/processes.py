"""The installed commands as real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from skyrocketmq.wire.frames import Frame, FrameDecoder, encode_frame
from tests.waiting import PATIENCE_S

BIN = Path(sys.executable).parent
WAIT_S = PATIENCE_S


class Running:
    """A process that was started: its lines are read as they come, so that it never waits for us."""

    def __init__(self, command: Sequence[str], *, home: Path) -> None:
        environ = {**os.environ, "HOME": str(home), "PYTHONUNBUFFERED": "1"}
        self.popen = subprocess.Popen(
            command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home
        )
        assert self.popen.stderr is not None
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._errors.extend, args=(self.popen.stderr,), daemon=True)
        self._reader.start()

    def line(self) -> str:
        """The next line of its standard output; empty if it has ended."""
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().rstrip("\n")

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait(self) -> int:
        code = self.popen.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return code

    def wait_for_error(self, text: str) -> None:
        """Return once it has written this to standard error."""
        deadline = time.monotonic() + WAIT_S
        while text not in self.errors:
            assert time.monotonic() < deadline, f"not said: {text}; but: {self.errors}"
            time.sleep(0.02)

    @property
    def errors(self) -> str:
        """What it wrote to standard error; whole once it has been waited for."""
        return "".join(self._errors)


@contextmanager
def running(command: Sequence[str | Path], *, home: Path) -> Iterator[Running]:
    """Start a process; whatever happens, it is gone afterwards."""
    process = Running([str(part) for part in command], home=home)
    try:
        yield process
    finally:
        if process.popen.poll() is None:
            process.popen.kill()
        process.wait()
        assert process.popen.stdout is not None
        assert process.popen.stderr is not None
        process.popen.stdout.close()
        process.popen.stderr.close()


def finished(command: Sequence[str | Path], *, home: Path) -> tuple[int, str, str]:
    """Run a command to its end: exit code, standard output, standard error."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
        cwd=home,
    )
    return done.returncode, done.stdout, done.stderr


def ask(address: str, request: Frame) -> Frame:
    """The answer to one request, on a connection of its own."""
    host, _, port = address.rpartition(":")
    decoder = FrameDecoder()
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as sock:
        sock.sendall(encode_frame(request))
        while True:
            data = sock.recv(65536)
            assert data, "the server closed the connection"
            if frames := decoder.feed(data):
                return frames[0]
