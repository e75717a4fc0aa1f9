"""Sockets to listen on, bound before anything is served: a broker's ports come in threes, and port 0 means any.

A socket that is bound here listens at once. Binding alone would not claim the port: two processes that may both re-use
addresses can bind the same one as long as neither listens.
"""

from __future__ import annotations

import errno
import socket

from skyrocketmq.errors import NetError

__all__ = ["bind", "bind_three"]

BACKLOG = 1024
_TRIES_MAX = 200  # of finding three free ports; each fails only if a neighbour is taken
_FAST_PORT_STEP = -2
_REPLICATION_PORT_STEP = 1


def bind(host: str, port: int, *, backlog: int = BACKLOG) -> socket.socket:
    """A listening socket. An empty host means every address of the machine, IPv6 and IPv4 where it has both."""
    try:
        return _bind(host, port, backlog)
    except OSError as error:
        raise NetError(f"cannot listen on {host or '*'}:{port}: {error.strerror or error}") from error


def bind_three(host: str, port: int, *, backlog: int = BACKLOG) -> tuple[socket.socket, socket.socket, socket.socket]:
    """A broker's three sockets: `port`, `port - 2` for the fast channel, `port + 1` for replication.

    With port 0, a port is chosen whose two neighbours are free as well.
    """
    for _ in range(_TRIES_MAX):
        main = bind(host, port, backlog=backlog)
        opened = [main]
        chosen = main.getsockname()[1]
        try:
            opened.append(_bind(host, chosen + _FAST_PORT_STEP, backlog))
            opened.append(_bind(host, chosen + _REPLICATION_PORT_STEP, backlog))
            return opened[0], opened[1], opened[2]
        except (OSError, OverflowError) as error:
            for sock in opened:
                sock.close()
            if port:
                text = f"cannot listen on {host or '*'}, ports {port - 2}, {port} and {port + 1}: {error}"
                raise NetError(text) from error
    raise NetError(f"found no three free ports on {host or '*'} in {_TRIES_MAX} tries")


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
