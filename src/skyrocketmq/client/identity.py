"""Who a client is: `ip@instance`, followed by `@unit` and `@STREAM` where they apply.

A broker tells the members of a group apart by this id, and they divide the queues in its order, so two clients of a
group that share one would each believe to be the only one. The instance name therefore becomes `pid#number` unless the
user gave one, or unless the client broadcasts: then the id names the file of its offsets, and has to be the same after
a restart.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from skyrocketmq.client.settings import AUTOMATIC_INSTANCE, ClientSettings

__all__ = ["STREAM_MARK", "client_id_of", "unique_instance_name"]

STREAM_MARK: Final = "STREAM"  # the last part of a pull consumer's id

_numbers = count()


def client_id_of(settings: ClientSettings, *, ip: str, instance_name: str, is_stream: bool) -> str:
    """The id of a client with this instance name."""
    parts = [ip, instance_name, settings.unit_name, STREAM_MARK if is_stream else ""]
    return "@".join(part for part in parts if part)


def unique_instance_name(*, process_id: int, monotonic_ns: int) -> str:
    """A name that no other client of this or another process has, in the form of Apache's client: `pid#nanoseconds`."""
    return f"{process_id}#{monotonic_ns + next(_numbers)}"


def is_automatic(settings: ClientSettings) -> bool:
    return settings.instance_name == AUTOMATIC_INSTANCE
