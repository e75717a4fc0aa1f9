"""A member of a group in a process of its own, that a test can stop or kill.

    python -m tests.interop.client.member '{"namesrv": ..., "group": ..., "topic": ..., "orderly": false}'

Prints `started`, then the text of each message it consumes. Ends at the end of its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.model import MessageView
from tests.member_process import MemberProcess, run_until_told


async def main(options: dict[str, Any]) -> None:
    consumer = PushConsumer(
        options["group"], namesrv=options["namesrv"], consume_from="first", orderly=options.get("orderly", False)
    )

    async def handle(message: MessageView) -> None:
        print(message.body.decode(), flush=True)

    consumer.subscribe(options["topic"], "*", handle)
    await run_until_told(consumer)


class Member(MemberProcess):
    """The process, as a test sees it."""

    def __init__(self, **options: Any) -> None:
        self.texts: list[str] = []
        super().__init__("tests.interop.client.member", **options)

    def take(self, line: str) -> None:
        self.texts.append(line)


@asynccontextmanager
async def running_member(**options: Any) -> AsyncIterator[Member]:
    member = await asyncio.to_thread(lambda: Member(**options))
    try:
        yield member
    finally:
        await asyncio.to_thread(member.close)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
