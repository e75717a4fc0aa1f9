"""What both ends of a replication connection share, on top of `net.Stream`, which has the bytes, TLS and the pace.

Rule 1: an end that has written nothing for `heartbeat_s` gives a sign of life.
Rule 2: an end that has heard nothing for `idle_s` hangs up, however much it has written itself. Each end counts what it
takes for a sign of life in `_read_count`.
Rule 3: a slave that reads nothing does not keep its master from hearing its reports, nor the other way round.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final

from skyrocketmq.errors import MQError
from skyrocketmq.net.options import ConnectionOptions
from skyrocketmq.net.silence import CHECKS_PER_LIMIT, Silence
from skyrocketmq.net.stream import Stream, StreamSetup
from skyrocketmq.net.tls import TlsSession
from skyrocketmq.ports import Clock, Timer

__all__ = ["CLOSING_S", "ReplicationStream", "replication_setup"]

CLOSING_S: Final = 2.0  # for what is unsent at the end


def replication_setup(*, clock: Clock, idle_timeout_s: float, unsent_bytes_max: int, **more: Any) -> StreamSetup:
    """Above `unsent_bytes_max` the peer is waited for; one that takes nothing at all meanwhile is cut off in time."""
    options = ConnectionOptions(
        idle_s=idle_timeout_s,
        write_high_bytes=unsent_bytes_max,
        write_low_bytes=unsent_bytes_max // 4,
        write_stall_s=idle_timeout_s,
        linger_s=CLOSING_S,
    )
    return StreamSetup(clock=clock, options=options, pause_reading_when_full=False, **more)


class ReplicationStream(Stream):
    """One end. It takes plain bytes, and says what its sign of life is."""

    tls_keys: ClassVar[str] = "haTlsMode at the master, haUseTLS at the slave"

    def __init__(self, setup: StreamSetup, *, heartbeat_s: float, tls: TlsSession | None = None) -> None:
        super().__init__(setup, tls=tls)
        self._heartbeat_s = heartbeat_s
        self._heartbeat_timer: Timer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._watch_writes(Silence(self._outbox.write_count, self._clock.monotonic()))

    def connection_lost(self, error: Exception | None) -> None:
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()
        super().connection_lost(error)

    def eof_received(self) -> None:
        self.abort("closed by the peer")  # a peer that hangs up reads no more

    def data_received(self, data: bytes) -> None:
        if self._stage:
            data = self._unwrap(data)
        if not data or self._is_closing:
            return
        try:
            self.take(data)
        except (MQError, OSError) as error:
            self.refuse(error)

    def take(self, data: bytes) -> None:
        """Handle what the peer has sent. An `MQError` or `OSError` is given to `refuse`."""
        raise NotImplementedError

    def refuse(self, error: Exception) -> None:
        """End the connection because of what the peer has sent."""
        raise NotImplementedError

    def give_sign(self) -> None:
        """Write a sign of life, unless it is too early for one."""
        raise NotImplementedError

    def may_stay(self) -> bool:
        """Asked now and then. One that may not stay has been ended."""
        return True

    def _watch_writes(self, silence: Silence) -> None:
        interval_s = self._heartbeat_s / CHECKS_PER_LIMIT
        self._heartbeat_timer = self._clock.call_later(interval_s, lambda: self._look(silence))

    def _look(self, silence: Silence) -> None:
        if self._is_closing or not self.may_stay():
            return
        if silence.seconds(self._outbox.write_count, self._clock.monotonic()) >= self._heartbeat_s:
            self.give_sign()
        self._watch_writes(silence)

    def _life_mark(self) -> object:
        return self._read_count

    def _fell_idle(self) -> None:
        self.abort(f"nothing was heard of it for {self._options.idle_s:g} s")
