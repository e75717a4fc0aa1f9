"""When a message of the schedule topic is due: what its queues keep in the place of the tags' hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocketmq.model import properties as names
from skyrocketmq.wire.properties import find_property

__all__ = ["delivery_ms"]

UNKNOWN_LEVEL_MS: Final = 1000
_DELAY: Final = names.DELAY.encode()


def delivery_ms(properties: bytes, store_ms: int, levels_ms: Sequence[int]) -> int | None:
    """The time of delivery of a message that was stored at `store_ms`; None if it asks for no delay."""
    text = find_property(properties, _DELAY) or b""
    level = int(text) if text.isdigit() else 0
    if level <= 0:
        return None
    return store_ms + (levels_ms[min(level, len(levels_ms)) - 1] if levels_ms else UNKNOWN_LEVEL_MS)
