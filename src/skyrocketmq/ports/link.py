"""The network: connections out, listeners in, and the names of hosts."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from skyrocketmq.errors import NetError

__all__ = ["Bound", "Link", "TcpLink", "set_buffers", "set_no_delay"]

PORT_MAX: Final = 65535


@runtime_checkable
class Bound(Protocol):
    """An address that is ours to listen on, until it is closed."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    def close(self) -> None: ...


@runtime_checkable
class Link(Protocol):
    """The network, for `asyncio` protocols."""

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]: ...

    def bind(self, host: str, port: int, *, backlog: int) -> Bound:
        """Claim an address. An empty host means every address of the machine; port 0 means any that is free.

        Raises `NetError` if the port is taken, or the address is not this machine's.
        """
        ...

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], bound: Bound, *, backlog: int
    ) -> asyncio.AbstractServer:
        """Accept on an address that is bound already: binding comes first, because a broker's ports come in threes."""
        ...

    async def resolve(self, host: str) -> str:
        """The numeric address of a host. Raises `OSError` for one that nobody knows."""
        ...


class TcpLink:
    """TCP of the machine, without Nagle's delay, as Apache's clients and servers set it."""

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        transport, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        set_no_delay(transport)
        return transport, protocol

    def bind(self, host: str, port: int, *, backlog: int) -> BoundSocket:
        if not 0 <= port <= PORT_MAX:  # the system's look-up of addresses would take the rest of a division for it
            raise NetError(f"cannot listen on {host or '*'}:{port}: ports go from 0 to {PORT_MAX}")
        try:
            return BoundSocket(_bind(host, port, backlog))
        except OSError as error:
            raise NetError(f"cannot listen on {host or '*'}:{port}: {error.strerror or error}") from error

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], bound: Bound, *, backlog: int
    ) -> asyncio.AbstractServer:
        assert isinstance(bound, BoundSocket), "a link listens on what it has bound"
        return await asyncio.get_running_loop().create_server(factory, sock=bound.sock, backlog=backlog)

    async def resolve(self, host: str) -> str:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return str(found[0][4][0])


class BoundSocket:
    """A socket that listens. Binding alone would not claim the port: two processes that may both re-use addresses can
    bind the same one as long as neither listens."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        address = sock.getsockname()
        self.host: str = address[0]
        self.port: int = address[1]

    def close(self) -> None:
        self.sock.close()


def _bind(host: str, port: int, backlog: int) -> socket.socket:
    if host in ("", "*"):
        try:
            return _listen(socket.AF_INET6, ("::", port), backlog, dual_stack=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            return _listen(socket.AF_INET, ("0.0.0.0", port), backlog)  # a machine without IPv6
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return _listen(family, address, backlog)


def _listen(family: int, address: tuple[object, ...], backlog: int, *, dual_stack: bool = False) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual_stack else 1)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def set_no_delay(transport: asyncio.BaseTransport) -> None:
    """Answers leave when they are written, not when the peer acknowledges the one before."""
    sock: Any = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def set_buffers(transport: asyncio.BaseTransport, *, send_bytes: int | None, receive_bytes: int | None) -> None:
    """The kernel's buffers of a connection, where they are to be other than the system's."""
    sock: Any = transport.get_extra_info("socket")
    if sock is None:
        return
    if send_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
