"""A server's connection under the loop's watch: each received buffer, with its answers, is one piece of work."""

from __future__ import annotations

from functools import partial

from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.net.causes import buffer_cause
from skyrocketmq.net.connection import Connection, ConnectionSetup
from skyrocketmq.net.stream import Pause

__all__ = ["WatchedConnection"]


class WatchedConnection(Connection):
    """A hot class: a buffer pays two readings of the clock more."""

    __slots__ = ("_watch",)

    def __init__(self, setup: ConnectionSetup, watch: LoopWatch) -> None:
        super().__init__(setup)
        self._watch = watch

    def data_received(self, data: bytes) -> None:
        watch = self._watch
        started = watch.begin()
        Connection.data_received(self, data)
        if watch.now() - started > watch.limit_s:
            watch.end(started, partial(buffer_cause, data, self.peer))

    def resume_reading(self, why: Pause = Pause.OWNER) -> None:
        """What waited in the buffer is handled now."""
        started = self._watch.begin()
        super().resume_reading(why)
        self._watch.end(started, lambda: {"request": "rest of a buffer", "peer": self.peer})
