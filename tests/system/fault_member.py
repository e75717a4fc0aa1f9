"""A member of a group in a process of its own, that a test can stop or kill, and what it has handled so far.

    python -m tests.system.fault_member '{"namesrv": ..., "group": ..., "topic": ..., "orderly": true}'

It prints a line when it begins with a message and one when it is done. What it does with a message is in the message's
text: `poison` always fails, `flaky` fails at its first two attempts, everything else is consumed. It ends at the end of
its standard input.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import MessageView

ROOT = Path(__file__).parents[2]
STOP_TIMEOUT_S = 30.0
FLAKY_ATTEMPTS = 2


async def main(options: dict[str, Any]) -> None:
    consumer = PushConsumer(
        options["group"],
        namesrv=options["namesrv"],
        consume_from="first",
        orderly=options.get("orderly", False),
        retry_count_max=options.get("retries"),
        poll_name_server_interval_s=1.0,
    )
    takes_s = options.get("takes_s", 0.0)

    async def handle(message: MessageView) -> ConsumeResult:
        text = message.body.decode()
        place = f"{message.queue.queue_id} {text}"
        print(f"begun {time.time_ns()} {place}", flush=True)
        if takes_s:
            await asyncio.sleep(takes_s)
        is_failed = "poison" in text or ("flaky" in text and message.reconsume_times < FLAKY_ATTEMPTS)
        print(f"{'failed' if is_failed else 'done'} {time.time_ns()} {place}", flush=True)
        return ConsumeResult.RETRY if is_failed else ConsumeResult.SUCCESS

    consumer.subscribe(options["topic"], "*", handle)
    async with consumer:
        print("started", flush=True)
        await asyncio.to_thread(sys.stdin.read)


@dataclass(frozen=True)
class Event:
    """`begun`, `done` or `failed`: what a member did with a message, and when."""

    at_ns: int
    member: str
    what: str
    queue_id: int
    text: str


class FaultMember:
    """The process, as a test sees it."""

    def __init__(self, name: str, **options: Any) -> None:
        command = [sys.executable, "-m", "tests.system.fault_member", json.dumps(options)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.name = name
        self.events: list[Event] = []
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "started\n"
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.endswith("\n"):  # the last one of a process that was killed may be cut
                what, at_ns, queue_id, text = line.rstrip("\n").split(" ", 3)
                self.events.append(Event(int(at_ns), self.name, what, int(queue_id), text))

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


class Members:
    """All members that a test has started, dead ones too."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._all: list[FaultMember] = []

    def start(self) -> FaultMember:
        member = FaultMember(f"m{len(self._all)}", **self._options)
        self._all.append(member)
        return member

    @property
    def events(self) -> list[Event]:
        """What all of them did, in the order of time."""
        return sorted((event for member in self._all for event in list(member.events)), key=lambda event: event.at_ns)

    def texts(self, what: str = "done") -> set[str]:
        return {event.text for event in self.events if event.what == what}

    def close(self) -> None:
        for member in self._all:
            member.close()


@contextmanager
def members_of(**options: Any) -> Iterator[Members]:
    members = Members(**options)
    try:
        yield members
    finally:
        members.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
