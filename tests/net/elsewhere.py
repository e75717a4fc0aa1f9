"""Peers of other machines, on one: whoever connects from 127.x.y.z seems to come from 10.x.y.z.

Only 127.0.0.1 stays what it is. So a test can be a stranger without leaving the loopback interface.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from skyrocketmq.ports import TcpLink
from skyrocketmq.ports.link import Bound

__all__ = ["ElsewhereLink"]

LOOPBACK = "127.0.0.1"


class ElsewhereLink(TcpLink):
    """TCP whose listeners see other addresses."""

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], bound: Bound, *, backlog: int
    ) -> asyncio.AbstractServer:
        return await super().listen(lambda: _Seen(factory()), bound, backlog=backlog)


class _Seen(asyncio.Protocol):
    """Passes everything on, with the transport in disguise."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        for name in ("data_received", "eof_received", "connection_lost", "pause_writing", "resume_writing"):
            setattr(self, name, getattr(protocol, name))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(cast(asyncio.BaseTransport, _Disguise(transport)))


class _Disguise:
    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        info = self._transport.get_extra_info(name, default)
        if name != "peername" or info[0] == LOOPBACK:
            return info
        return (info[0].replace("127.", "10.", 1), *info[1:])
