"""One blocking connection to a server, for tasks: no event loop, no thread, any number of requests under way.

A Spark task is a plain loop in a process of its own. It sends requests, and takes the answers in whatever order they
come; `request` is the simple form of both. Everything has one time limit; an error names the address.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from struct import Struct
from types import TracebackType
from typing import Final, Self

from skyrocketmq.errors import ConnectFailed, ConnectionLost, RequestTimeout, broker_error
from skyrocketmq.net import ClientTls, parse_address
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Frame, decode_frame, encode_frame, encode_head, split_frames
from skyrocketmq.wire.signing import sign_request

__all__ = ["NOTHING", "BlockingLink", "LinkSettings"]

RECEIVE_BYTES: Final = 1 << 20
FRAME_START: Final = Struct(">ii")  # | length | header word |
RECEIVE_BYTES_MIN: Final = 64 << 10  # with less room left than this a call is not worth it
NOTHING: Final = memoryview(b"")
LARGE_BODY_BYTES: Final = 64 << 10


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
        self._view = NOTHING
        self._begin = self._end = 0  # of what was received and not taken yet
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
        """Send requests together; the number of the last one, those before it have the numbers before."""
        settings = self._settings
        small: list[bytes] = []
        calls: list[bytes] = []
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
            if len(frame.body) < LARGE_BODY_BYTES:
                small.append(encode_frame(frame))
                continue
            calls += (b"".join([*small, encode_head(frame, len(frame.body))]), frame.body)  # large ones are not copied
            small.clear()
        try:
            for data in [*calls, b"".join(small)] if small else calls:
                self._socket.sendall(data)
        except TimeoutError:
            raise RequestTimeout(f"{self.address} took no request for {settings.timeout_s:g} s") from None
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.address} ended: {error}") from error
        return self._numbers

    def receive(self) -> Frame:
        """The next answer, whichever request it belongs to."""
        frame, body = self.receive_view()
        frame.body = bytes(body)
        return frame

    def receive_view(self) -> tuple[Frame, memoryview]:
        """The same without its body, and the body where it was received: nothing is written there any more."""
        while True:
            have = self._end - self._begin
            needed = FRAME_START.size
            if have >= needed:
                length, word = FRAME_START.unpack_from(self._view, self._begin)
                split_frames(bytes(self._view[self._begin : self._begin + needed]))  # raises for what cannot be
                needed = 4 + length
                if have >= needed:
                    return self._take_frame(needed, word)
            self._receive_more(needed)

    def _take_frame(self, frame_bytes: int, word: int) -> tuple[Frame, memoryview]:
        begin, end = self._begin, self._begin + frame_bytes
        body_at = begin + FRAME_START.size + (word & 0xFFFFFF)
        head = bytes(self._view[begin:body_at])
        frame = decode_frame(head, word, FRAME_START.size, len(head), len(head))
        self._begin = end
        return frame, self._view[body_at:end]

    def _receive_more(self, needed: int) -> None:
        """Have more of a frame of so many bytes, which begins where what was taken ends."""
        if self._begin + needed > len(self._view) or len(self._view) - self._end < RECEIVE_BYTES_MIN:
            # A new buffer: who holds views of the old one keeps it.
            left = self._view[self._begin : self._end]
            view = memoryview(bytearray(max(RECEIVE_BYTES, needed)))
            view[: len(left)] = left
            self._view, self._begin, self._end = view, 0, len(left)
        self._end += self._received_count(self._view[self._end :])

    def _received_count(self, place: memoryview) -> int:
        try:
            count = self._socket.recv_into(place)
        except TimeoutError:
            text = f"{self.address} did not answer within {self._settings.timeout_s:g} s"
            raise RequestTimeout(text) from None
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.address} ended: {error}") from error
        if not count:
            raise ConnectionLost(f"{self.address} closed the connection")
        return count
