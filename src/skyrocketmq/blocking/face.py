"""What all blocking clients are: the asyncio client, on the loop of a background thread (`loop_thread`).

Rule 1: any thread may use a client; what it asks for is done on the loop, and it waits for that.
Rule 2: a process made by fork has a client of its own, made as the parent's was. The parent's is left as it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar
from weakref import WeakSet

from skyrocketmq.errors import ClientError
from skyrocketmq.loop_thread import LoopThread, acquire_loop, release_loop

__all__ = ["Face", "same_arguments"]

P = ParamSpec("P")
T = TypeVar("T")
Client = TypeVar("Client", bound="AsyncClient")


def same_arguments(cls: Callable[P, Any]) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """For type checkers: a constructor that takes what the asyncio client's takes."""
    return lambda constructor: constructor


class AsyncClient(Protocol):
    """What all asyncio clients have in common."""

    group: str

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    @property
    def client_id(self) -> str: ...


class Face(Generic[Client]):
    """A client on the loop of a background thread.

    `_lock` guards starting and the change of process: of the threads that first use a client after a fork one starts it
    anew, and the others wait for that. A use that finds it running takes no lock.
    """

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._setup: list[Callable[[Client], object]] = []  # done to each client that is made
        self._client = make()
        self._thread: LoopThread | None = None
        self._process_id = os.getpid()
        self._is_due = False  # the parent had started it, and this process has not yet
        self._lock = threading.RLock()
        _faces.add(self)
        self.group = self._client.group

    def start(self) -> None:
        """What `with` does at its beginning."""
        with self._lock:
            self._follow_fork()
            if self._thread is not None:
                raise ClientError(f"{self.group} is started already")
            thread = acquire_loop()
            try:
                thread.run(self._client.start())
            except BaseException:
                release_loop(thread)
                raise
            self._is_due = False
            self._thread = thread

    def close(self) -> None:
        """What `with` does at its end. Closing twice is harmless; what a parent process has started stays open."""
        with self._lock:
            self._follow_fork()
            self._is_due = False
            thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.run(self._client.close())
        finally:
            release_loop(thread)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """Who this client is to the brokers; known once it is started."""
        self._running()
        return self._client.client_id

    def _follow_fork(self) -> None:
        """In a new process: have a new client, as the old one belongs to the parent."""
        if os.getpid() == self._process_id:
            return
        self._is_due, self._thread = self._thread is not None or self._is_due, None
        _of_parents.append(self._client)
        self._client = self._make()
        for step in self._setup:
            step(self._client)
        self._forked()
        self._process_id = os.getpid()

    def _forked(self) -> None:
        """Called in a new process before its first use."""

    def _running(self) -> LoopThread:
        # First the process, then the thread: a new process has lost its parent's before it has its own number here.
        thread = self._thread if os.getpid() == self._process_id else None
        if thread is None:
            with self._lock:
                self._follow_fork()
                if self._is_due:
                    self.start()
                thread = self._thread
        if thread is None:
            raise ClientError(f"{self.group} is not started: use it inside 'with', or call start() first")
        return thread

    def _wait(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        return self._running().run(work(self._client))

    def _call(self, function: Callable[[Client], T]) -> T:
        return self._running().call(lambda: function(self._client))

    def _configure(self, step: Callable[[Client], object]) -> None:
        """Do something to the client, now and whenever it is made anew."""
        with self._lock:
            self._follow_fork()
            thread = self._thread
        if thread is None:
            step(self._client)
        else:
            thread.call(lambda: step(self._client))
        self._setup.append(step)


_of_parents: list[object] = []  # clients of parent processes: kept, for deleting them would close what parents use
_faces: WeakSet[Face[Any]] = WeakSet()


def _renew_locks() -> None:
    for face in list(_faces):
        face._lock = threading.RLock()  # a thread that the fork did not take along may have had it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
