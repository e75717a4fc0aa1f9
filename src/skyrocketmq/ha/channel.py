"""The bytes of one replication connection: as they are, or inside TLS. Both ends use it.

Rule 1: a master finds out by the first byte, as on its other ports. A TLS hello begins with 0x16; a report that did
would be of a log of more than a billion gigabytes.
Rule 2: plain bytes pass untouched: slices of the mapped log leave in one write.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

from skyrocketmq.errors import ProtocolError
from skyrocketmq.net.tls import TLS_HELLO_BYTE, ServerTls, TlsMode, TlsSession

__all__ = ["Channel", "accept_channel"]


class Channel:
    """Raises `ProtocolError` for a peer whose TLS cannot be used."""

    __slots__ = ("_session", "_transport")

    def __init__(self, transport: asyncio.Transport, session: TlsSession | None = None) -> None:
        self._transport = transport
        self._session = session

    @property
    def is_open(self) -> bool:
        """Whether something can be written."""
        return self._session is None or self._session.is_open

    def receive(self, data: bytes) -> bytes:
        """The plain bytes in what has come. With nothing, the side that dialled begins."""
        session = self._session
        if session is None:
            return data
        try:
            return session.receive(data)
        except ssl.SSLError as error:
            raise ProtocolError(f"TLS failed: {error}") from error
        finally:
            answer = session.take_output()
            if answer:
                self._transport.write(answer)

    def write(self, parts: Sequence[bytes | memoryview]) -> None:
        if self._session is None:
            self._transport.writelines(parts)
        else:
            self._transport.write(self._session.seal(parts))


def accept_channel(
    transport: asyncio.Transport, first: bytes, *, mode: TlsMode, tls: ServerTls | None, now_ms: int
) -> Channel:
    """The master's end, by the first bytes of its slave. Raises `ProtocolError` where the mode does not allow it."""
    is_hello = first[0] == TLS_HELLO_BYTE
    if is_hello and tls is not None and mode is not TlsMode.DISABLED:
        return Channel(transport, TlsSession(tls.context(now_ms=now_ms), server_side=True))
    if is_hello or mode is TlsMode.ENFORCING:
        raise ProtocolError(
            f"it connects {'with' if is_hello else 'without'} TLS, and TLS is {mode.value} here: see haUseTLS at the "
            "slave, haTlsMode at the master"
        )
    return Channel(transport)
