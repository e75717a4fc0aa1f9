"""Who a client is: `ip@instance`, and `@unit` and `@STREAM` behind it where they apply.

A broker tells the members of a group apart by this id, and they divide the queues in its order, so two clients of a
group that share one would each believe to be the only one. The instance name therefore becomes `pid#number` unless the
user gave one, or unless the client broadcasts: then the id names the file of its offsets, and has to be the same after
a restart.
"""

from __future__ import annotations

import socket
from itertools import count
from typing import Final

from skyrocketmq.client.settings import AUTOMATIC_INSTANCE, ClientSettings
from skyrocketmq.net import parse_address

__all__ = ["STREAM_MARK", "client_id_of", "local_ip", "unique_instance_name"]

STREAM_MARK: Final = "STREAM"  # the last part of a pull consumer's id
LOOPBACK: Final = "127.0.0.1"

# An address outside: connecting a datagram socket sends nothing, it only makes the system choose the way, and with it
# the address that others see. 192.0.2.0/24 is set aside for documentation and routed like the rest of the world.
_ELSEWHERE: Final = ("192.0.2.1", 9)

_numbers = count()


def client_id_of(settings: ClientSettings, *, ip: str, instance_name: str, is_stream: bool) -> str:
    """The id of a client with this instance name."""
    parts = [ip, instance_name, settings.unit_name, STREAM_MARK if is_stream else ""]
    return "@".join(part for part in parts if part)


def unique_instance_name(*, process_id: int, monotonic_ns: int) -> str:
    """A name that no other client of this or another process has: the family's form, `pid#nanoseconds`."""
    return f"{process_id}#{monotonic_ns + next(_numbers)}"


def is_automatic(settings: ClientSettings) -> bool:
    return settings.instance_name == AUTOMATIC_INSTANCE


def local_ip(namesrv: tuple[str, ...] = ()) -> str:
    """This machine's address as others see it; the loopback address where there is no network."""
    for target in (_ELSEWHERE, *((parse_address(address).host, 9) for address in namesrv)):
        found = _source_address(target)
        if found:
            return found
    return LOOPBACK


def _source_address(target: tuple[str, int]) -> str | None:
    try:
        socket.inet_pton(socket.AF_INET, target[0])  # a name would have to be looked up, and that may block
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return None
