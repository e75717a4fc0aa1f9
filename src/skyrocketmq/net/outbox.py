"""What leaves on one connection.

This is a module of the hot path. The rules:

1. All replies to one received buffer leave in one write, made at once (`send`).
2. What is written from elsewhere (held answers, our own requests) is collected until the loop has run everything that
   is ready now, and leaves in one write then (`push`). Frames need no order: answers are matched by number.
3. A peer that does not take its bytes is measured while it does so, and only then: it is cut off once it holds more
   than `write_bytes_max` back, or has not taken a single byte for `write_stall_s`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from skyrocketmq.net.options import ConnectionOptions
from skyrocketmq.net.silence import CHECKS_PER_LIMIT, Silence
from skyrocketmq.net.tls import TlsSession
from skyrocketmq.ports import Clock, Timer

__all__ = ["Outbox", "Part"]

Part = bytes | memoryview


def _ignore(reason: str) -> None:
    pass


class Outbox:
    """Collects, writes, and watches a slow peer. `cut_off` is called with a reason when the peer is given up."""

    __slots__ = (
        "_clock",
        "_cut_off",
        "_is_open",
        "_loop",
        "_options",
        "_pushed",
        "_pushed_bytes",
        "_stall_timer",
        "_tls",
        "_transport",
        "_written_bytes",
        "is_paused",
        "write_count",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        options: ConnectionOptions,
        cut_off: Callable[[str], object],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._clock = clock
        self._options = options
        self._cut_off = cut_off
        self._pushed: list[Part] = []
        self._pushed_bytes = 0
        self._stall_timer: Timer | None = None
        self._written_bytes = 0  # counted only while paused: what was unsent then, and what was written since
        self._is_open = False
        self._tls: TlsSession | None = None
        self.is_paused = False  # the transport holds more than the high mark
        self.write_count = 0  # for the idle check

    @property
    def is_full(self) -> bool:
        """Whether a sender that can wait should."""
        return self.is_paused or self._pushed_bytes > self._options.write_high_bytes

    @property
    def unsent_bytes(self) -> int:
        return self._pushed_bytes + self._transport.get_write_buffer_size()

    def open(self, tls: TlsSession | None) -> None:
        """From now on bytes may leave, through `tls` if there is one. What was pushed before waited for this."""
        self._tls = tls
        self._is_open = True
        self.flush()

    def push(self, part: Part) -> None:
        """Write soon, together with whatever else is pushed until then."""
        if not self._pushed:
            self._loop.call_soon(self.flush)
        self._pushed.append(part)
        self._pushed_bytes += len(part)
        if self._pushed_bytes > self._options.write_high_bytes:
            self.flush()

    def push_now(self, part: Part) -> None:
        """Write at once, unless something waits to leave: to wait for a turn of the loop would only be a delay."""
        if self._is_open and not self._pushed:
            self._write((part,))
        else:
            self.push(part)

    def flush(self) -> None:
        """Write what was pushed."""
        if self._pushed and self._is_open:
            parts, self._pushed = self._pushed, []
            self._pushed_bytes = 0
            self._write(parts)

    def send(self, parts: Sequence[Part]) -> None:
        """Write now, and what was pushed before with it."""
        if self._pushed:
            parts = [*self._pushed, *parts]
            self._pushed = []
            self._pushed_bytes = 0
        self._write(parts)

    def send_sealed(self, data: bytes) -> None:
        """Write bytes of the TLS session itself: handshakes, alerts."""
        if data:
            self._transport.write(data)

    def _write(self, parts: Sequence[Part]) -> None:
        transport = self._transport
        if transport.is_closing():
            return  # those who wait for an answer hear of it from the connection
        self.write_count += 1
        if self.is_paused:
            self._written_bytes += sum(map(len, parts))
        if self._tls is not None:
            transport.write(self._tls.seal(parts))
        elif len(parts) == 1:
            transport.write(parts[0])
        else:
            transport.writelines(parts)
        if self.is_paused and transport.get_write_buffer_size() > self._options.write_bytes_max:
            self._cut_off(f"it left {transport.get_write_buffer_size()} bytes unread")

    # ------------------------------------------------------------------------------------------- a peer that is slow

    def pause(self) -> None:
        """The transport is above its high mark: start to watch whether the peer takes anything."""
        self.is_paused = True
        self._written_bytes = self._transport.get_write_buffer_size()
        self._watch(Silence(0, self._clock.monotonic()))

    def resume(self) -> None:
        """The transport is below its low mark."""
        self.is_paused = False
        self._stop_watching()

    def stop(self) -> None:
        """The connection is gone."""
        self._stop_watching()
        self._pushed = []
        self._cut_off = _ignore  # lets go of the connection: it is freed now, and not when cycles are next collected

    def _stop_watching(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _watch(self, silence: Silence) -> None:
        interval_s = self._options.write_stall_s / CHECKS_PER_LIMIT
        self._stall_timer = self._clock.call_later(interval_s, lambda: self._check(silence))

    def _check(self, silence: Silence) -> None:
        self._stall_timer = None
        taken_bytes = self._written_bytes - self._transport.get_write_buffer_size()
        if silence.seconds(taken_bytes, self._clock.monotonic()) >= self._options.write_stall_s:
            self._cut_off(f"it has read nothing for {self._options.write_stall_s:g} s")
        else:
            self._watch(silence)
