"""What a client's connections do with what they receive: answers to sends first, all else to the dispatcher.

This is a module of the hot path: a producer with many messages under way gets hundreds of answers in a buffer, and
they are read together (`hot.sends`). A request that waits for one gets it as it was read. Where
another kind of answer is awaited, it is made into a frame first.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyrocketmq.hot import read_send_answers
from skyrocketmq.net.connection import Connection, Feed
from skyrocketmq.net.outbox import Part

__all__ = ["answers_first"]


def answers_first(feed: Feed) -> Feed:
    """A feed that takes the answers to sends at the beginning of a buffer, and gives the rest to `feed`."""

    def feed_answers(data: bytes, connection: Connection) -> tuple[int, Sequence[Part]]:
        answers, used_bytes = read_send_answers(data)
        if not used_bytes:
            return feed(data, connection)
        connection.resolve_sends(answers)
        if used_bytes == len(data):
            return used_bytes, ()
        more_bytes, replies = feed(data[used_bytes:], connection)
        return used_bytes + more_bytes, replies

    return feed_answers
