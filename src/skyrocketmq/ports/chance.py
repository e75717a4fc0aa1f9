"""Chance: random numbers and ids that nobody else has."""

from __future__ import annotations

import random
import uuid

__all__ = ["Chance", "SystemChance"]


class Chance(random.Random):
    """Random numbers, and ids drawn from them. With a seed, all of it is the same each time."""

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.getrandbits(128), version=4)


class SystemChance(Chance):
    """Seeded by the system. Its ids are the system's own: a forked process has its parent's numbers, not its ids."""

    def __init__(self) -> None:
        super().__init__()

    def uuid(self) -> uuid.UUID:
        return uuid.uuid4()
