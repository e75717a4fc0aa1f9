"""The window of `client.send_window` for threads: so many sends at a time, and one place to wait for all of them."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from skyrocketmq.client.send_result import SendResult
from skyrocketmq.client.send_window import checked_window, closing_error

__all__ = ["BlockingWindow"]

logger = logging.getLogger(__name__)


class BlockingWindow:
    """The sends of one producer that are under way. May be used from any thread; a new process begins with none."""

    def __init__(self, in_flight_max: int) -> None:
        self._in_flight_max = checked_window(in_flight_max)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all: this is another process, or the beginning."""
        self._process_id = os.getpid()
        lock = threading.Lock()  # guards what follows
        self._room = threading.Condition(lock)  # one may begin
        self._change = threading.Condition(lock)  # one has ended
        self._is_closing = False
        self._taken_count = 0  # of the window, also by those whose future is not made yet
        self._futures: set[Future[SendResult]] = set()
        self._errors: deque[Exception] = deque(maxlen=self._in_flight_max)
        self._failed_count = self._begun_count = 0

    def open(self) -> None:
        """Let sends begin: the producer is started, maybe once more."""
        if os.getpid() != self._process_id:
            self.begin_anew()
        with self._change:
            self._is_closing = False

    def begin(self, send: Callable[[], Future[SendResult]]) -> Future[SendResult]:
        """Begin a send; waits in this thread until there is room. Raises `ClientError` once the producer is closing."""
        if os.getpid() != self._process_id:
            self.begin_anew()  # what was under way at the fork is the parent's
        with self._room:
            while self._taken_count >= self._in_flight_max and not self._is_closing:
                self._room.wait()
            if self._is_closing:
                raise closing_error()
            self._taken_count += 1
        try:
            future = send()
        except BaseException:
            with self._change:
                self._free_place()
            raise
        with self._change:
            self._futures.add(future)
            self._begun_count += 1
        future.add_done_callback(self._ended)
        return future

    def _free_place(self) -> None:
        self._taken_count -= 1
        self._room.notify()
        self._change.notify_all()

    def _ended(self, future: Future[SendResult]) -> None:
        error = None if future.cancelled() else future.exception()
        with self._change:
            self._futures.discard(future)
            if isinstance(error, Exception):
                self._errors.append(error)
                self._failed_count += 1
            self._free_place()

    def finish(self) -> None:
        """Wait for all that is under way; the producer is closing, and what failed unseen is logged."""
        if os.getpid() != self._process_id:
            return
        with self._change:
            if self._is_closing:
                return  # somebody else has seen to it
            self._is_closing = True
            self._room.notify_all()
            self._change.wait_for(lambda: not self._taken_count)
            failed_count, reason = self._failed_count, str(self._errors[-1]) if self._errors else ""
        if failed_count:
            logger.warning("messages not sent", extra={"count": failed_count, "reason": reason})

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
