"""Every member of a group gets every message: settings that all processes want to hear of.

    python examples/broadcast.py

It prints:

    first: level=debug
    second: level=debug
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from skyrocketmq import Message, MessageView, Producer, PushConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "localhost:9876")
TOPIC = "ExampleBroadcast"


def member(name: str, heard: asyncio.Queue[str], directory: Path) -> PushConsumer:
    """Offsets of broadcasting lie in a local file, by default in the home directory, so each member has its own."""
    consumer = PushConsumer(
        "example-broadcast-readers",
        namesrv=NAMESRV,
        broadcasting=True,
        consume_from="first",
        instance_name=name,
        offsets_directory=directory / name,
    )

    @consumer.subscribe(TOPIC)
    async def apply(message: MessageView) -> None:
        await heard.put(f"{name}: {message.body.decode()}")

    return consumer


async def main(directory: Path) -> None:
    async with Producer("example-broadcast", namesrv=NAMESRV) as producer:
        await producer.send(Message(TOPIC, b"level=debug"))

    heard: asyncio.Queue[str] = asyncio.Queue()
    async with member("first", heard, directory), member("second", heard, directory):
        lines = {await asyncio.wait_for(heard.get(), 20)}
        while len(lines) < 2:  # a topic that was used before has older messages, and both get them again
            lines.add(await asyncio.wait_for(heard.get(), 20))
    print(*sorted(lines), sep="\n")


if __name__ == "__main__":
    with TemporaryDirectory() as offsets:
        asyncio.run(main(Path(offsets)))
