"""Telling the user when a connection is made or lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from skyrocketmq.net import Connection

__all__ = ["ConnectionChange", "ConnectionChanges", "ConnectionListener"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionChange:
    """A connection to a name server or broker has been made, or lost for a reason."""

    address: str
    is_connected: bool
    reason: str = ""


ConnectionListener = Callable[[ConnectionChange], object]


class ConnectionChanges:
    """Who wants to know, and which connections there are to tell of."""

    def __init__(self) -> None:
        self._listeners: list[ConnectionListener] = []
        self._addresses: dict[Connection, str] = {}

    def watch(self, listener: ConnectionListener | None) -> Callable[[], None]:
        """Tell a listener from now on, until what is returned is called; None is nobody."""
        if listener is None:
            return lambda: None
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def opened(self, connection: Connection, address: str) -> None:
        self._addresses[connection] = address
        self._tell(ConnectionChange(address, is_connected=True))

    def closed(self, connection: Connection) -> None:
        address = self._addresses.pop(connection, None)
        if address is not None:
            self._tell(ConnectionChange(address, is_connected=False, reason=str(connection.close_reason)))

    def _tell(self, change: ConnectionChange) -> None:
        for listener in list(self._listeners):
            try:
                listener(change)
            except Exception:
                # The connection is as it is, whatever the user's function makes of the news.
                logger.exception("connection listener failed", extra={"address": change.address})
