"""Addresses of peers: as text for people and tables, as bytes for records.

Rule 1: the text is `host:port` and is split at the last colon, so that `::1:9876` is a host and a port. Brackets around
an IPv6 host are understood, and never written: Apache RocketMQ does not write them.
Rule 2: an IPv4 peer of a socket that serves IPv6 as well is an IPv4 peer; it does not show as `::ffff:10.0.0.1`.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import Any, NamedTuple

from skyrocketmq.errors import IllegalArgument

__all__ = ["UNKNOWN_PEER", "Address", "format_address", "pack_address", "parse_address", "peer_address"]

_PORT = Struct(">i")  # records and ids keep a port in four bytes
_MAPPED_PREFIX = "::ffff:"


class Address(NamedTuple):
    """Where a peer listens, or where its end of a connection is."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_address(self.host, self.port)


UNKNOWN_PEER = Address("0.0.0.0", 0)  # a peer that was gone before anyone could ask for its address


def format_address(host: str, port: int) -> str:
    return f"{host}:{port}"


def parse_address(text: str) -> Address:
    """Split `host:port` at the last colon; raise `IllegalArgument` for anything else."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise IllegalArgument(f"{text!r} is not an address: write host:port, for example localhost:9876")
    return Address(host, int(port))


def peer_address(peername: Any) -> Address:
    """The address in what a transport says about its peer: (host, port), with two fields more for IPv6, or nothing."""
    if not isinstance(peername, tuple | list) or len(peername) < 2:
        return UNKNOWN_PEER
    host = str(peername[0])
    if host.startswith(_MAPPED_PREFIX) and "." in host:
        host = host.removeprefix(_MAPPED_PREFIX)
    return Address(host, int(peername[1]))


def pack_address(address: Address) -> bytes:
    """The address as records store it: 4 or 16 bytes of IP, then 4 bytes of port. The host must be numeric."""
    host = address.host.partition("%")[0]  # a link-local address may name its interface
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.inet_pton(family, host) + _PORT.pack(address.port)
