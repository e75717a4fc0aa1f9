"""The machine and the process: who and where they are, how large, and whether they have threads."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Thread
from typing import Final, Protocol, runtime_checkable

__all__ = ["LocalMachine", "Machine", "descriptors_max"]

LOOPBACK: Final = "127.0.0.1"

# An address outside: connecting a datagram socket sends nothing, it only makes the system choose the way, and with it
# the address that others see. 192.0.2.0/24 is set aside for documentation and routed like the rest of the world.
_ELSEWHERE: Final = "192.0.2.1"
_ELSEWHERE_6: Final = "2001:db8::1"
_ANY_PORT: Final = 9


@runtime_checkable
class Machine(Protocol):
    """Where a process runs. Everything is asked for when it is needed, never at import: a laptop changes networks."""

    @property
    def process_id(self) -> int:
        """The number of this process; another one after a fork."""
        ...

    def address(self, toward: tuple[str, ...] = ()) -> str:
        """The address others see: that of the route out, else that of the route toward one of these addresses."""
        ...

    def memory_bytes(self) -> int: ...

    def start_thread(self, work: Callable[[], object], *, name: str) -> bool:
        """Run `work` in a thread of its own. False, with nothing done, where there are no threads."""
        ...

    def executor(self, count_max: int, *, name: str) -> Executor | None:
        """Threads for the loop's `run_in_executor`; None for those of the loop."""
        ...


def descriptors_max() -> int:
    """How many files and sockets this process may have open."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class LocalMachine:
    """This machine, this process."""

    @property
    def process_id(self) -> int:
        return os.getpid()

    def address(self, toward: tuple[str, ...] = ()) -> str:
        for family, host in (
            (socket.AF_INET, _ELSEWHERE),
            *((socket.AF_INET, host) for host in toward),
            (socket.AF_INET6, _ELSEWHERE_6),
        ):
            if (found := _source_address(family, host)) is not None:
                return found
        return LOOPBACK

    def memory_bytes(self) -> int:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def start_thread(self, work: Callable[[], object], *, name: str) -> bool:
        Thread(target=work, name=name, daemon=True).start()
        return True

    def executor(self, count_max: int, *, name: str) -> Executor | None:
        return ThreadPoolExecutor(count_max, thread_name_prefix=name)


def _source_address(family: int, host: str) -> str | None:
    try:
        socket.inet_pton(family, host)  # a name would have to be looked up, and that may block
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, _ANY_PORT))
            return str(probe.getsockname()[0])
    except OSError:
        return None
