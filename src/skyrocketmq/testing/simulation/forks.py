"""Work for several processes, each a fork of this one that does one piece and ends.

A simulated run wants a process to itself: nothing that it leaves behind may reach the next one. A fork of a process
that has imported everything is there in milliseconds. This process must have no other threads.

Rule: a piece has so much time of the processor. A machine that is busy with other things is no failure of it; only a
process that does nothing at all is ended by the clock, much later.
"""

from __future__ import annotations

import os
import pickle
import resource
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil
from time import monotonic
from typing import Generic, NoReturn, TypeVar

__all__ = ["Died", "run_each", "run_one"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_READ_BYTES = 1 << 20
_CLOCK_TIMES = 60  # as long by the clock as on the processor


@dataclass(frozen=True, slots=True)
class Died:
    """The process of an item ended without a result."""

    why: str


@dataclass(slots=True)
class _Child(Generic[Item]):
    item: Item
    pid: int
    pipe: int
    deadline: float
    read: list[bytes] = field(default_factory=list)


def run_one(work: Callable[[Item], Result], item: Item, *, timeout_s: float) -> Result | Died:
    [(_, result)] = run_each(work, [item], jobs=1, timeout_s=timeout_s)
    return result


def run_each(
    work: Callable[[Item], Result], items: Iterable[Item], *, jobs: int, timeout_s: float
) -> Iterator[tuple[Item, Result | Died]]:
    """Results as they come, `jobs` at a time, each within so many seconds of processor time. Items are taken as
    processes become free, so they may come without end: who closes this iterator ends what still runs."""
    waiting = iter(items)
    children: dict[int, _Child[Item]] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(children) < jobs:
                    try:
                        child = _fork(work, next(waiting), timeout_s)
                    except StopIteration:
                        break
                    children[child.pipe] = child
                    selector.register(child.pipe, selectors.EVENT_READ)
                if not children:
                    return
                for key, _ in selector.select(max(0.0, min(c.deadline for c in children.values()) - monotonic())):
                    child = children[key.fd]
                    if data := os.read(child.pipe, _READ_BYTES):
                        child.read.append(data)
                        continue
                    selector.unregister(child.pipe)
                    del children[child.pipe]
                    yield child.item, _result_of(child, timeout_s)
                for child in [c for c in children.values() if c.deadline <= monotonic()]:
                    selector.unregister(child.pipe)
                    del children[child.pipe]
                    _end(child)
                    yield child.item, Died(f"no end after {timeout_s * _CLOCK_TIMES:g} s of real time")
        finally:
            for child in children.values():
                _end(child)


def _fork(work: Callable[[Item], Result], item: Item, timeout_s: float) -> _Child[Item]:
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(timeout_s), resource.RLIM_INFINITY))
        _live(work, item, writer)
    os.close(writer)
    return _Child(item, pid, reader, monotonic() + timeout_s * _CLOCK_TIMES)


def _live(work: Callable[[Item], Result], item: Item, writer: int) -> NoReturn:
    """In the child: do the work, hand over the result, end without anybody's clean-up."""
    try:
        result: Result | Died = work(item)
    except BaseException:
        result = Died(traceback.format_exc())
    try:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps(result))
        sys.stdout.flush()
    finally:
        os._exit(0)


def _result_of(child: _Child[Item], timeout_s: float) -> Result | Died:
    os.close(child.pipe)
    _, status = os.waitpid(child.pid, 0)
    data = b"".join(child.read)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU:
        return Died(f"no end after {timeout_s:g} s of processor time")
    if not data:
        return Died(f"its process ended with status {code}")
    result: Result | Died = pickle.loads(data)  # from our own fork
    return result


def _end(child: _Child[Item]) -> None:
    os.kill(child.pid, signal.SIGKILL)
    os.close(child.pipe)
    os.waitpid(child.pid, 0)
