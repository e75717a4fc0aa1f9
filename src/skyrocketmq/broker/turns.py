"""Long walks over many queues that let others have their turn: the loop answers other requests in between."""

from __future__ import annotations

from typing import Final

from skyrocketmq.ports import Clock

__all__ = ["Turns"]

QUEUES_A_SLICE: Final = 128  # queues looked at before others have their turn


class Turns:
    """Counts the queues that one kind of handlers looks at."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_at = 0

    async def let_others(self) -> None:
        """To be called after each queue."""
        self._looked_at += 1
        if self._looked_at % QUEUES_A_SLICE == 0:
            await self._clock.sleep(0)
