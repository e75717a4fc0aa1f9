"""Asking an address server for the list of name servers.

An address server is a plain HTTP server that answers one GET with the name servers' addresses, `host:port;host:port`.
Operators who move name servers change that one page, and brokers and clients follow.
"""

from __future__ import annotations

import asyncio

from skyrocketmq.errors import ConnectFailed, NetError, RequestTimeout
from skyrocketmq.ports import Clock, Link

__all__ = ["address_server_url", "fetch_addresses"]

DEFAULT_DOMAIN = "jmenv.tbsite.net"
DEFAULT_SUBGROUP = "nsaddr"
DEFAULT_PORT = 8080
ANSWER_BYTES_MAX = 64 * 1024


def address_server_url(domain: str = DEFAULT_DOMAIN, subgroup: str = DEFAULT_SUBGROUP, *, unit: str = "") -> str:
    """The page to ask: a domain with a port of its own keeps it; a unit asks for that unit's name servers."""
    host = domain if ":" in domain else f"{domain}:{DEFAULT_PORT}"
    suffix = f"-{unit}?nofix=1" if unit else ""
    return f"http://{host}/rocketmq/{subgroup}{suffix}"


async def fetch_addresses(url: str, *, link: Link, clock: Clock, timeout_s: float = 3.0) -> list[str]:
    """The addresses the page lists, or a `NetError` that says what was asked and what came back."""
    host, port, path = _split_url(url)
    answer = _Answer()
    try:
        async with clock.timeout(timeout_s):
            transport, _ = await link.connect(lambda: answer, host, port)
            try:
                # HTTP/1.0: the server closes when it is done, and never sends chunks.
                transport.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: text/plain\r\n\r\n".encode())
                await answer.ended
            finally:
                transport.abort()
    except TimeoutError as error:
        raise RequestTimeout(f"the address server {url} did not answer within {timeout_s:g} s") from error
    except OSError as error:
        raise ConnectFailed(f"no connection to the address server {url}: {error}") from error
    return _read_answer(bytes(answer.data), url)


def _split_url(url: str) -> tuple[str, int, str]:
    address, _, path = url.removeprefix("http://").partition("/")
    host, _, port = address.rpartition(":")
    return host, int(port), "/" + path


def _read_answer(data: bytes, url: str) -> list[str]:
    head, _, body = data.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split()
    if len(status) < 2 or status[1] != b"200":
        said = head.split(b"\r\n", 1)[0].decode("ascii", "replace")
        raise NetError(f"the address server {url} answered {said!r} instead of a list of addresses")
    return [part.strip() for part in body.decode("utf-8", "replace").strip().split(";") if part.strip()]


class _Answer(asyncio.Protocol):
    """Collects what the server sends until it closes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > ANSWER_BYTES_MAX:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
