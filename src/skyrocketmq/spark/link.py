"""One blocking connection to a server, for tasks: no event loop, no thread, any number of requests under way.

A Spark task is a plain loop in a process of its own. It sends requests, and takes the answers in whatever order they
come; `request` is the simple form of both. Everything has one time limit; an error names the address.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from skyrocketmq.errors import ConnectFailed, ConnectionLost, RequestTimeout, broker_error
from skyrocketmq.net import ClientTls, parse_address
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import FRAME_BYTES_MAX, Frame, decode_frame, encode_frame, split_frames
from skyrocketmq.wire.signing import sign_request

__all__ = ["BlockingLink", "LinkSettings"]

RECEIVE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How servers are spoken to. Travels to the tasks, so it holds values only."""

    timeout_s: float = 30.0
    access_key: str = ""
    secret_key: str = ""
    security_token: str | None = None
    tls: ClientTls | None = None

    def __repr__(self) -> str:
        """Without the secrets: Spark shows options and partitions in plans and logs."""
        return f"LinkSettings(timeout_s={self.timeout_s:g}, access_key={self.access_key!r}, tls={self.tls is not None})"


class BlockingLink:
    """A connection. Use it as `with`, or call `close`."""

    def __init__(self, address: str, settings: LinkSettings, *, is_replica: bool = False) -> None:
        """Connects; raises `ConnectFailed`."""
        self.address = address
        self.is_replica = is_replica  # a slave that stands in for its master, and may lack the newest messages
        self._settings = settings
        self._numbers = 0
        self._received = bytearray()
        self._view = memoryview(bytearray(RECEIVE_BYTES))
        try:
            self._socket = socket.create_connection(parse_address(address), settings.timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if settings.tls is not None:
                host, _ = parse_address(address)
                self._socket = settings.tls.context().wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            raise ConnectFailed(f"no connection to {address}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def request(self, frame: Frame, *, expected: tuple[int, ...] = (ResponseCode.SUCCESS,)) -> Frame:
        """The answer to one request. Raises the server's refusal unless its code is among the expected ones."""
        number = self.send(frame)
        while True:
            answer = self.receive()
            if answer.opaque == number and answer.is_response:
                break
        if answer.code not in expected:
            raise broker_error(answer.code, answer.remark, address=self.address)
        return answer

    def send(self, *frames: Frame) -> int:
        """Send requests with one call; the number of the last one, those before it have the numbers before."""
        settings = self._settings
        parts = []
        for frame in frames:
            self._numbers += 1
            frame.opaque = self._numbers
            if settings.access_key:
                frame.ext = sign_request(
                    frame.ext,
                    frame.body,
                    access_key=settings.access_key,
                    secret_key=settings.secret_key,
                    security_token=settings.security_token,
                )
            parts.append(encode_frame(frame))
        try:
            self._socket.sendall(b"".join(parts))
        except TimeoutError:
            raise RequestTimeout(f"{self.address} took no request for {settings.timeout_s:g} s") from None
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.address} ended: {error}") from error
        return self._numbers

    def receive(self) -> Frame:
        """The next answer, whichever request it belongs to."""
        received = self._received
        while True:
            if len(received) >= 4:
                end = 4 + int.from_bytes(received[:4], "big", signed=True)
                if len(received) >= end or not 4 < end <= FRAME_BYTES_MAX:
                    data = bytes(received[:end])
                    places, _ = split_frames(data)  # raises for a length that cannot be
                    del received[:end]
                    return decode_frame(data, *places[0])
            received += self._more()

    def _more(self) -> memoryview:
        try:
            count = self._socket.recv_into(self._view)
        except TimeoutError:
            text = f"{self.address} did not answer within {self._settings.timeout_s:g} s"
            raise RequestTimeout(text) from None
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.address} ended: {error}") from error
        if not count:
            raise ConnectionLost(f"{self.address} closed the connection")
        return self._view[:count]
