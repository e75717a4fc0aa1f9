"""A member of a group in a process of its own, that a test can stop or kill, and what it has handled so far.

    python -m tests.system.fault_member '{"namesrv": ..., "group": ..., "topic": ..., "orderly": true}'

It prints a line when it begins with a message and one when it is done. What it does with a message is in the message's
text: `poison` always fails, `flaky` fails at its first two attempts, everything else is consumed. It ends at the end of
its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from skyrocketmq.client.consume_result import ConsumeResult
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import MessageView
from tests.member_process import MemberProcess, run_until_told

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
    await run_until_told(consumer)


@dataclass(frozen=True)
class Event:
    """`begun`, `done` or `failed`: what a member did with a message, and when."""

    at_ns: int
    member: str
    what: str
    queue_id: int
    text: str


class FaultMember(MemberProcess):
    """The process, as a test sees it."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.events: list[Event] = []
        super().__init__("tests.system.fault_member", **options)

    def take(self, line: str) -> None:
        what, at_ns, queue_id, text = line.split(" ", 3)
        self.events.append(Event(int(at_ns), self.name, what, int(queue_id), text))


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
