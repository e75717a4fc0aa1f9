"""A member of a group in a process of its own, that a test can stop or kill: what all such members have in common.

The program consumes as its module says (`run_until_told`), prints a line for each thing it did, and ends at the end of
its standard input. The test has a `MemberProcess`, which hands those lines to its heir.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from skyrocketmq.client.push_consumer import PushConsumer

ROOT = Path(__file__).parents[1]
STOP_TIMEOUT_S = 30.0


async def run_until_told(consumer: PushConsumer) -> None:
    """In the process: consume until the test has heard enough."""
    async with consumer:
        print("started", flush=True)
        await asyncio.to_thread(sys.stdin.read)


class MemberProcess:
    """The process, as a test sees it."""

    def __init__(self, module: str, **options: Any) -> None:
        command = [sys.executable, "-m", module, json.dumps(options)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "started\n"
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.endswith("\n"):  # the last one of a process that was killed may be cut
                self.take(line.rstrip("\n"))

    def take(self, line: str) -> None:
        """Called with each line that the process prints, in a thread of its own."""
        raise NotImplementedError

    def stop(self) -> None:
        """Let it finish, commit and say good-bye."""
        assert self._child.stdin is not None
        if not self._child.stdin.closed:
            self._child.stdin.close()
        assert self._child.wait(STOP_TIMEOUT_S) == 0
        self._reader.join()

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._child.kill()
        self._child.wait()
        self._reader.join()

    def close(self) -> None:
        """Whatever has happened, leave nothing of it."""
        self.kill()
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.stdout.close()
