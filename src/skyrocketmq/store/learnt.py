"""Tables of what was worked out once, keyed by what clients sent, bounded in bytes.

Producers repeat themselves, so headers and properties are read once and looked up afterwards. But whoever sends decides
how long a text is and how often another one comes.

Rule 1: a long text is not kept at all; what follows from it is worked out again each time.
Rule 2: what is kept is counted with its bytes. When there is no room, all is dropped and learnt again, which costs a
busy client one slow request.
"""

from __future__ import annotations

from typing import Final, TypeVar

__all__ = ["ENTRY_BYTES", "TEXT_BYTES_MAX", "Learnt", "LearntBudget"]

TEXT_BYTES_MAX: Final = 1024  # of one entry: ten times what a common header or its properties take
ENTRY_BYTES: Final = 512  # what an entry costs beside its texts: objects, and its share of the table
TABLE_BYTES_MAX: Final = 4 * 1024 * 1024

K = TypeVar("K")
V = TypeVar("V")


class LearntBudget:
    """How much some tables may keep together. When it `is_full`, their owner clears them and calls `reset`."""

    __slots__ = ("_bytes_max", "is_full", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used_bytes = 0
        self.is_full = False  # an entry was refused for lack of room

    def take(self, text_bytes: int) -> bool:
        """Count an entry; False if it is not to be kept."""
        if text_bytes > TEXT_BYTES_MAX:
            return False
        used_bytes = self.used_bytes + text_bytes + ENTRY_BYTES
        if used_bytes > self._bytes_max:
            self.is_full = True
            return False
        self.used_bytes = used_bytes
        return True

    def reset(self) -> None:
        self.used_bytes = 0
        self.is_full = False


class Learnt(dict[K, V]):
    """One such table: a dictionary to look things up in, and `learn` to put them there."""

    __slots__ = ("_budget",)

    def __init__(self, bytes_max: int = TABLE_BYTES_MAX) -> None:
        super().__init__()
        self._budget = LearntBudget(bytes_max)

    def learn(self, key: K, value: V, *, text_bytes: int) -> bool:
        """Keep this, unless its texts are long; whether it is kept."""
        budget = self._budget
        is_kept = budget.take(text_bytes)
        if not is_kept and budget.is_full:
            self.clear()
            is_kept = budget.take(text_bytes)
        if is_kept:
            self[key] = value
        return is_kept

    def clear(self) -> None:
        super().clear()
        self._budget.reset()
