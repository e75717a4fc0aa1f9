"""Addresses as messages keep them: the IP's 4 or 16 bytes, then the port as a 4-byte number.

Rule 1: the packed form is what travels and is stored; text is made when somebody wants to read it.
Rule 2: IPv6 is written in brackets, `[::1]:10911`; both forms are read, and a port follows the last colon.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from skyrocketmq.errors import IllegalArgument

HOST_BYTES_V4: Final = 8
HOST_BYTES_V6: Final = 20


def pack_host(ip: str, port: int) -> bytes:
    """The packed form of a numeric address; raises `IllegalArgument` for a name or a port that cannot be."""
    try:
        address = ip_address(ip.strip("[]").partition("%")[0])  # a zone (fe80::1%eth0) has no place in the packed form
    except ValueError:
        raise IllegalArgument(f"{ip!r} is not a numeric IP address") from None
    if not 0 <= port <= 65_535:
        raise IllegalArgument(f"{port} is not a port")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # an IPv4 peer of a socket that serves both, ::ffff:10.0.0.1
    return address.packed + port.to_bytes(4, "big")


def pack_address(address: str) -> bytes:
    """The packed form of `ip:port`."""
    ip, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        raise IllegalArgument(f"{address!r} is not an address of the form ip:port")
    return pack_host(ip, int(port))


def unpack_host(host: bytes) -> tuple[str, int]:
    """IP and port of a packed host. The port is given as it is stored, be it impossible."""
    assert len(host) in (HOST_BYTES_V4, HOST_BYTES_V6), "a packed host has 8 or 20 bytes"
    ip = IPv4Address(host[:4]) if len(host) == HOST_BYTES_V4 else IPv6Address(host[:16])
    return str(ip), int.from_bytes(host[-4:], "big", signed=True)


def host_text(host: bytes) -> str:
    """A packed host for people and for connecting: `10.0.0.1:10911`, `[2001:db8::1]:10911`."""
    ip, port = unpack_host(host)
    return f"[{ip}]:{port}" if len(host) == HOST_BYTES_V6 else f"{ip}:{port}"
