"""The hash by which the index finds a key: Java's hash of `topic#key`, made positive."""

from __future__ import annotations

from skyrocketmq.hot import key_hash, text_hash

__all__ = ["TopicKeys"]


class TopicKeys:
    """The keys of one topic: what `hot.pack_key` goes on from (`start`), and the hash of one key."""

    __slots__ = ("start", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.start = text_hash(topic + "#")

    def hash_of(self, key: bytes) -> int:
        """What the index stores: 0 to 2^31 - 1."""
        return key_hash(key, self.start)
