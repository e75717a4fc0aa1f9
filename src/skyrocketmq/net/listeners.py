"""Ports to listen on, bound before anything is served: a broker's come in threes, and port 0 means any."""

from __future__ import annotations

from skyrocketmq.errors import NetError
from skyrocketmq.ports import Bound, Link, TcpLink

__all__ = ["bind", "bind_three", "three_ports"]

BACKLOG = 1024
_TRIES_MAX = 200  # of finding three free ports; each fails only if a neighbour is taken
_FAST_PORT_STEP = -2
_REPLICATION_PORT_STEP = 1


def bind(host: str, port: int, *, link: Link | None = None, backlog: int = BACKLOG) -> Bound:
    """An address to listen on. An empty host means every address of the machine, IPv6 and IPv4 where it has both."""
    return (link or TcpLink()).bind(host, port, backlog=backlog)


def three_ports(port: int) -> tuple[int, int, int]:
    """The ports of a broker that listens on `port`: its own, that of the fast channel, that of replication."""
    return port, port + _FAST_PORT_STEP, port + _REPLICATION_PORT_STEP


def bind_three(host: str, port: int, *, link: Link | None = None, backlog: int = BACKLOG) -> tuple[Bound, Bound, Bound]:
    """A broker's three: `port`, `port - 2` for the fast channel, `port + 1` for replication.

    With port 0, a port is chosen whose two neighbours are free as well.
    """
    link = link or TcpLink()
    for _ in range(_TRIES_MAX):
        opened = [link.bind(host, port, backlog=backlog)]
        try:
            _, fast_port, replication_port = three_ports(opened[0].port)
            opened.append(link.bind(host, fast_port, backlog=backlog))
            opened.append(link.bind(host, replication_port, backlog=backlog))
            return opened[0], opened[1], opened[2]
        except NetError as error:
            for bound in opened:
                bound.close()
            if port:
                text = f"cannot listen on {host or '*'}, ports {port - 2}, {port} and {port + 1}: {error}"
                raise NetError(text) from error
    raise NetError(f"found no three free ports on {host or '*'} in {_TRIES_MAX} tries")
