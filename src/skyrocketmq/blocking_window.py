"""The window of `client.send_window` for threads: so many sends at a time, and one place to wait for all of them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.send_window import checked_window

__all__ = ["BlockingWindow"]


class BlockingWindow:
    """The sends of one producer that are under way. May be used from any thread; a new process begins with none."""

    def __init__(self, in_flight_max: int) -> None:
        self._in_flight_max = checked_window(in_flight_max)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all: this is another process, or the beginning."""
        self._process_id = os.getpid()
        self._room = threading.BoundedSemaphore(self._in_flight_max)
        self._change = threading.Condition()  # guards what follows
        self._futures: set[Future[SendResult]] = set()
        self._errors: deque[Exception] = deque(maxlen=self._in_flight_max)
        self._failed_count = self._begun_count = 0

    def begin(self, send: Callable[[], Future[SendResult]]) -> Future[SendResult]:
        """Begin a send; waits in this thread until there is room."""
        if os.getpid() != self._process_id:
            self.begin_anew()  # what was under way at the fork is the parent's
        self._room.acquire()
        try:
            future = send()
        except BaseException:
            self._room.release()
            raise
        with self._change:
            self._futures.add(future)
            self._begun_count += 1
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: Future[SendResult]) -> None:
        error = None if future.cancelled() else future.exception()
        with self._change:
            self._futures.discard(future)
            if isinstance(error, Exception):
                self._errors.append(error)
                self._failed_count += 1
            self._change.notify_all()
        self._room.release()

    def finish(self) -> None:
        """Wait for all that is under way; the producer is closing."""
        if os.getpid() == self._process_id:
            with self._change:
                under_way = set(self._futures)
                self._change.wait_for(lambda: under_way.isdisjoint(self._futures))

    def flush(self) -> None:
        """Wait for all that is under way now; raises an `ExceptionGroup` if some have failed since the last flush."""
        if os.getpid() != self._process_id:
            self.begin_anew()
        with self._change:
            under_way = set(self._futures)
            self._change.wait_for(lambda: under_way.isdisjoint(self._futures))
            text = f"{self._failed_count} of {self._begun_count} messages were not sent"
            errors = list(self._errors)
            self._errors.clear()
            self._failed_count = self._begun_count = 0
        if errors:
            raise ExceptionGroup(text, errors)
