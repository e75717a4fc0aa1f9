"""Tag expressions: `TagA || TagB`, or `*` for every message.

Rule 1: a broker knows of a stored message only the hash of its tag, so it passes on whatever could match; the consumer,
who sees the tag itself, drops the few that share a hash. Both questions are asked here.
Rule 2: a message has one tag or none. A message's tag that contains `||` is one tag like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.wire.java import string_hash

ALL_TAGS: Final = "*"
SEPARATOR: Final = "||"


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A parsed expression: its text, its tags in the order given, and their hashes. Without tags it matches all."""

    expression: str
    tags: tuple[str, ...]
    codes: frozenset[int]

    @property
    def matches_all(self) -> bool:
        return not self.tags

    def may_match(self, tag_hash: int) -> bool:
        """The broker's question, of a queue entry's tag hash (0 for a message without a tag)."""
        return not self.tags or tag_hash in self.codes

    def matches(self, tag: str | None) -> bool:
        """The consumer's question, of the message's tag itself; a message without one is only in `*`."""
        return not self.tags or tag in self.tags


def parse_tags(expression: str | None) -> TagFilter:
    """Understand an expression; None, empty and `*` mean all. `IllegalArgument` if it names no tag at all."""
    if not expression or expression == ALL_TAGS:
        return TagFilter(ALL_TAGS, (), frozenset())
    parts = [part.strip() for part in expression.split(SEPARATOR)]
    tags = tuple(dict.fromkeys(part for part in parts if part))
    if not tags:
        raise IllegalArgument(f"the tag expression {expression!r} names no tag: write 'TagA || TagB', or '*' for all")
    return TagFilter(expression, tags, frozenset(map(string_hash, tags)))


def tag_hash(tag: str | None) -> int:
    """What the consume queue keeps of a message's tag."""
    return string_hash(tag) if tag else 0
