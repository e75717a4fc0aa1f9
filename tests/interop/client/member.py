"""A member of a group in a process of its own, that a test can stop or kill.

    python -m tests.interop.client.member '{"namesrv": ..., "group": ..., "topic": ..., "orderly": false}'

Prints `started`, then the text of each message it consumes. Ends at the end of its standard input.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import MessageView

ROOT = Path(__file__).parents[3]
STOP_TIMEOUT_S = 20.0


async def main(options: dict[str, Any]) -> None:
    consumer = PushConsumer(
        options["group"], namesrv=options["namesrv"], consume_from="first", orderly=options.get("orderly", False)
    )

    async def handle(message: MessageView) -> None:
        print(message.body.decode(), flush=True)

    consumer.subscribe(options["topic"], "*", handle)
    async with consumer:
        print("started", flush=True)
        await asyncio.to_thread(sys.stdin.read)


class Member:
    """The process, as a test sees it."""

    def __init__(self, **options: Any) -> None:
        command = [sys.executable, "-m", "tests.interop.client.member", json.dumps(options)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.texts: list[str] = []
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "started\n"
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self.texts.append(line.rstrip("\n"))

    def stop(self) -> None:
        """Let it finish, commit and say good-bye."""
        assert self._child.stdin is not None
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


@asynccontextmanager
async def running_member(**options: Any) -> AsyncIterator[Member]:
    member = await asyncio.to_thread(lambda: Member(**options))
    try:
        yield member
    finally:
        await asyncio.to_thread(member.close)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
