"""What the machine contributes to the defaults: its name, its address, the user's home, the number of processors.

Each is asked for when a configuration is built, never at import, because a laptop changes networks.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

__all__ = ["host_name", "local_address", "processors", "user_home"]


def user_home() -> Path:
    """The directory below which stores and name server files are kept by default, as with Apache RocketMQ."""
    return Path.home()


def host_name() -> str:
    """The machine's name; `DEFAULT_BROKER` if it has none, which is what Apache calls such a broker."""
    return socket.gethostname() or "DEFAULT_BROKER"


def local_address() -> str:
    """The address other machines reach this one by: that of the route out, or 127.0.0.1 where there is none.

    A datagram socket that is connected sends nothing; it only makes the kernel choose the route and so the address.
    """
    for family, far_away in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far_away, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


def processors() -> int:
    """How many processors Java would count."""
    return os.cpu_count() or 1
