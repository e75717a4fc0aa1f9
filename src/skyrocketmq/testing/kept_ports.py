"""Ports of a stopped server, kept for its return: nobody listens there, and nobody else gets them.

A port from the system's own range is free for any connection or server of the machine as soon as it is closed. A
socket that is bound and does not listen keeps it: clients are refused as they should be, and the server, which may
re-use addresses, can listen beside it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import ExitStack

__all__ = ["KeptPorts"]


class KeptPorts:
    """Ports on a host, by the name of the server that will want them again."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._kept: dict[str, ExitStack] = {}

    def keep(self, name: str, ports: Iterable[int]) -> None:
        """Keep the ports of a server that has just stopped; one that somebody was quick enough to take is left out."""
        self.let_go(name)
        kept = self._kept[name] = ExitStack()
        for port in ports:
            bound = kept.enter_context(socket.socket())
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind((self._host, port))
            except OSError:
                bound.close()

    def let_go(self, name: str) -> None:
        """The server is back, or will not come."""
        if name in self._kept:
            self._kept.pop(name).close()

    def close(self) -> None:
        for name in list(self._kept):
            self.let_go(name)
