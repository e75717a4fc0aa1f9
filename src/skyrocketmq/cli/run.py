"""The life of a server process: an event loop, a service on it, and the signals that end it.

The first SIGTERM or SIGINT sets an event, and the service closes what it opened. A second one ends the process at once,
for an operator who does not want to wait.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

__all__ = ["allow_many_descriptors", "run_until_stopped", "stop_at_end_of_input"]

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_until_stopped(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run a service until it ends; `serve` is given the event that a signal sets, and returns soon after."""
    allow_many_descriptors()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve_with_signals(serve))


def allow_many_descriptors() -> None:
    """Take as many descriptors as the system gives: each connection is one, and the usual 1,024 are soon used up."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve_with_signals(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    with _stopped_by_signals(stop):
        await serve(stop)


def stop_at_end_of_input(stop: asyncio.Event) -> None:
    """Stop once standard input ends: a child started this way does not outlive its parent, however that dies."""
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

    def on_input() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            stop.set()

    loop.add_reader(descriptor, on_input)


@contextmanager
def _stopped_by_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            logger.warning("stopping at once", extra={"signal": number.name})
            os._exit(128 + number)  # nothing is awaited or closed: that is what was asked for
        logger.info("stopping", extra={"signal": number.name})
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not on Windows; asyncio's own loop is slower and does the same
        return None
    return uvloop.new_event_loop
