"""What the handlers of a test were given, by whom and in which order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from skyrocketmq.model import MessageQueue, MessageView
from tests.interop.client.support import until


@dataclass(frozen=True)
class Entry:
    member: str
    message: MessageView

    @property
    def text(self) -> str:
        return self.message.body.decode()


@dataclass
class Journal:
    """One for all members of a group: it notices when two of them work on one queue at a time."""

    entries: list[Entry] = field(default_factory=list)
    collisions: list[str] = field(default_factory=list)
    _busy: dict[MessageQueue, str] = field(default_factory=dict)

    def handler(self, member: str = "m", *, takes_s: float = 0.0) -> Callable[[MessageView], Awaitable[None]]:
        """A handler that writes down what it gets, and then takes its time."""

        async def handle(message: MessageView) -> None:
            other = self._busy.get(message.queue)
            if other is not None:
                self.collisions.append(f"{message.queue}: {other} and {member}")
            self._busy[message.queue] = member
            self.entries.append(Entry(member, message))
            try:
                if takes_s:
                    await asyncio.sleep(takes_s)
            finally:
                self._busy.pop(message.queue, None)

        return handle

    @property
    def texts(self) -> list[str]:
        return [entry.text for entry in self.entries]

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.texts)

    def of(self, member: str) -> list[str]:
        return [entry.text for entry in self.entries if entry.member == member]

    def by_queue(self) -> dict[MessageQueue, list[str]]:
        queues: dict[MessageQueue, list[str]] = {}
        for entry in self.entries:
            queues.setdefault(entry.message.queue, []).append(entry.text)
        return queues

    def has_entries(self, count: int) -> bool:
        return len(self.entries) >= count

    async def holds(self, count: int, *, seconds: float = 30.0) -> None:
        """Wait until so many different messages have come."""
        await until(
            lambda: len(self.counts) >= count, seconds=seconds, what=f"{count} messages; {len(self.counts)} came"
        )
