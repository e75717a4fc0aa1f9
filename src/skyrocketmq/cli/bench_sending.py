"""The load of `bench producer`: tasks that each send one message after the other."""

from __future__ import annotations

import asyncio
import logging
import random
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skyrocketmq.background import Background
from skyrocketmq.cli.bench_figures import SendFigures
from skyrocketmq.cli.bench_printing import print_regularly
from skyrocketmq.errors import BrokerError, MQError

if TYPE_CHECKING:
    from skyrocketmq.client.producer import Producer
    from skyrocketmq.model import Message
    from skyrocketmq.ports import Clock

__all__ = ["MessageMaker", "SendLoad", "run_senders"]

logger = logging.getLogger(__name__)

ASYNC_IN_FLIGHT: Final = 1_000
PAUSE_AFTER_FAILURE_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLoad:
    """What is sent, and by how many at once; `quantity` 0 means until it is stopped."""

    topic: str
    sender_count: int
    message_bytes: int
    has_keys: bool
    property_characters: int
    tag_count: int
    quantity: int
    delay_level: int


class MessageMaker:
    """Makes the messages of a load: one random body for all, keys and tags that change with the time."""

    def __init__(self, load: SendLoad, chance: random.Random) -> None:
        self._load = load
        self._body = "".join(chance.choices(string.ascii_letters + string.digits, k=load.message_bytes)).encode()
        self._properties = self._fill(chance) if load.property_characters else {}

    def message(self, now_ms: int) -> Message:
        from skyrocketmq.model import Message

        load = self._load
        return Message(
            load.topic,
            self._body,
            tags=f"tag{now_ms % load.tag_count}" if load.tag_count else None,
            keys=str(now_ms // 1000) if load.has_keys else (),
            properties=self._properties,
            delay_level=load.delay_level,
        )

    def _fill(self, chance: random.Random) -> dict[str, str]:
        """Names and values until they are longer together than was asked for."""
        properties: dict[str, str] = {}
        number, value, length = 0, chance.randrange(100), 0
        while length <= self._load.property_characters:
            pairs = {f"prop{number}": f"hello{value}", f"prop{number + 1}": str(value)}
            length += sum(len(name) + len(text) for name, text in pairs.items())
            properties |= pairs
            number, value = number + 2, value + 2
        return properties


async def run_senders(
    producer: Producer, maker: MessageMaker, load: SendLoad, figures: SendFigures, stop: asyncio.Event, clock: Clock
) -> None:
    """Send until the quantity is reached or `stop` is set, printing a line every ten seconds and one at the end."""
    left = iter(range(load.quantity)) if load.quantity else iter(int, 1)  # the second never ends

    async def send_many() -> None:
        for _ in left:
            await _send_one(producer, maker.message(clock.now_ms()), figures, clock)

    async with Background(clock) as background, producer:
        print_regularly(figures, background, clock=clock)
        senders = [asyncio.create_task(send_many()) for _ in range(load.sender_count)]
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: [sender.cancel() for sender in senders])
        outcomes = await asyncio.gather(*senders, return_exceptions=True)
        stopping.cancel()
    print(figures.last_line(), flush=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _send_one(producer: Producer, message: Message, figures: SendFigures, clock: Clock) -> None:
    began = clock.monotonic()
    try:
        await producer.send(message)
    except MQError as error:
        if isinstance(error, BrokerError):
            figures.refused_count += 1
        else:
            figures.failed_count += 1
        logger.error("message not sent", extra={"error": str(error)})
        await clock.sleep(PAUSE_AFTER_FAILURE_S)
    else:
        figures.add((clock.monotonic() - began) * 1000)
