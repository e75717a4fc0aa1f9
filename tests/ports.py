"""Ports for servers that have to know theirs before they start, such as Apache's.

Rule 1: they lie below the range from which Linux takes the ports of outgoing connections, so that no connection can
take a port between our look and the server's bind.
Rule 2: a process has a block of them to itself, by a lock that ends with it. So neither the workers of a run nor two
runs on one machine give out the same port.
Rule 3: within a block the port that was given out longest ago comes next: one that a test has just left, and means to
use again, is not given to another.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from contextlib import ExitStack
from pathlib import Path
from tempfile import gettempdir
from typing import Final

FIRST_PORT: Final = 20_000
BLOCK_PORTS: Final = 120
BLOCKS: Final = 100
assert FIRST_PORT + BLOCK_PORTS * BLOCKS <= 32_768, "where the ports of outgoing connections begin"


def free_port(*also: int) -> int:
    """A port on which nobody listens, and neither on those at the given distances from it."""
    for _ in range(BLOCK_PORTS):
        port = OWN.next_port(below=-min(0, *also, 0), above=max(0, *also, 0))
        if _are_free([port + distance for distance in (0, *also)]):
            return port
    raise OSError(f"no port from {OWN.first} to {OWN.first + BLOCK_PORTS - 1} is free")


class Block:
    """Ports of this process."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._next = first

    def next_port(self, *, below: int, above: int) -> int:
        """The next port with so many unused ones on either side."""
        if self._next + below + above >= self.first + BLOCK_PORTS:
            self._next = self.first
        port = self._next + below
        self._next = port + above + 1
        return port


def _lock_block() -> Block:
    directory = Path(gettempdir()) / f"skyrocketmq-test-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    for number in random.sample(range(BLOCKS), BLOCKS):
        descriptor = os.open(directory / str(number), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return Block(FIRST_PORT + number * BLOCK_PORTS)  # the lock goes with the process
    raise OSError(f"all {BLOCKS} blocks of ports are in use: {directory}")


def _are_free(ports: list[int]) -> bool:
    with ExitStack() as bound:
        try:
            for port in ports:
                candidate = bound.enter_context(socket.socket())
                candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                candidate.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


OWN: Final = _lock_block()  # at once: tests look at which descriptors are open before them and after them
