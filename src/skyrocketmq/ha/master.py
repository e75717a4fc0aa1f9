"""The master's side of replication: whoever connects is sent the log, from where its own ends, as it grows.

A hot module: once a slave keeps up, each batch that is stored passes here, as slices of the mapped log in one write.

Rule 1: nothing is sent before the slave has said where its log ends; one whose log is no part of ours is refused, with
a line that says why.
Rule 2: a slave that does not read is not written to: what it lacks waits in the log, not in memory. Other slaves and
senders do not notice.
Rule 3: a connection that carries nothing gets a sign of life now and then, and one that has not been heard of for long
is closed. Slaves find their way back by themselves.
Rule 4: at a clean stop a slave that keeps up gets all that there is before its connection ends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from skyrocketmq.errors import ProtocolError
from skyrocketmq.ha.replicas import Replicas
from skyrocketmq.ha.rules import SlaveRefused, check_report, first_offset, next_pieces
from skyrocketmq.net.addresses import peer_address
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.ports import Clock, Disk, Link, Timer, set_no_delay
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.wire.replication import ReportDecoder, encode_piece_head

__all__ = ["MasterOptions", "MasterService"]

logger = logging.getLogger(__name__)

ROUND_BYTES: Final = 512 << 10  # sent to one slave before others on the loop have their turn
UNSENT_BYTES_MAX: Final = 1 << 20  # above, a slave is waited for
CLOSING_S: Final = 2.0
BACKLOG: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterOptions:
    heartbeat_s: float = 5.0
    idle_timeout_s: float = 20.0
    piece_bytes_max: int = 32 << 10
    newest_file_only: bool = False  # for slaves that are empty


class MasterService:
    """Serves all slaves of one broker. A slave's broker has one too: a slave of a slave is a slave."""

    def __init__(self, log: CommitLog, replicas: Replicas, options: MasterOptions, *, disk: Disk, clock: Clock) -> None:
        self.log = log
        self.replicas = replicas
        self.options = options
        self.clock = clock
        self.reads = ColdReads(disk, clock)
        self.tasks = Tasks()
        self._connections: set[SlaveConnection] = set()
        self._server: asyncio.AbstractServer | None = None
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def start(self, sock: socket.socket, link: Link) -> None:
        """Accept slaves on a socket that is bound, until `close`."""
        self._server = await link.listen(lambda: SlaveConnection(self), sock, backlog=BACKLOG)
        self.log.on_append = self._wake

    def _wake(self) -> None:
        for connection in self._connections:
            connection.wake()

    def joined(self, connection: SlaveConnection) -> None:
        self._connections.add(connection)
        self._is_empty.clear()

    def left(self, connection: SlaveConnection) -> None:
        self._connections.discard(connection)
        self.replicas.leave(connection.peer)
        if not self._connections:
            self._is_empty.set()

    async def close(self) -> None:
        """End all connections, each once it has sent what it can; none takes longer than `CLOSING_S`."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        try:
            async with self.clock.timeout(CLOSING_S):
                await self._is_empty.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort("the master is stopping")
        await self.tasks.finish(clock=self.clock, grace_s=CLOSING_S)
        await self._is_empty.wait()
        self.replicas.close()


class SlaveConnection(asyncio.Protocol):
    """One slave."""

    def __init__(self, service: MasterService) -> None:
        self.peer = ""
        self._service = service
        self._log = service.log
        self._clock = service.clock
        self._decoder = ReportDecoder()
        self._transport: asyncio.Transport
        self._offset: int | None = None  # of the next byte to send, once the slave has said where it is
        self._is_scheduled = False
        self._is_paused = False
        self._is_fetching = False
        self._is_closing = False
        self._heard_at = self._wrote_at = self._clock.monotonic()
        self._timer: Timer | None = None

    # ------------------------------------------------------------------------------------------------------ connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        set_no_delay(transport)
        self.peer = str(peer_address(transport.get_extra_info("peername")))
        self._service.joined(self)
        self._set_timer()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        self._service.left(self)
        logger.info(
            "slave left",
            extra={"slave": self.peer, "sent": self._offset, "end": self._log.max_offset, "error": str(error or "")},
        )

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.wake()

    def close(self) -> None:
        """Send what can be sent, then end."""
        while self._may_send() and self._send_round():
            pass
        self._is_closing = True
        self._transport.close()

    def abort(self, reason: str) -> None:
        if not self._is_closing:
            logger.warning("slave dropped", extra={"slave": self.peer, "reason": reason})
        self._is_closing = True
        self._transport.abort()

    # --------------------------------------------------------------------------------------------------------- reports

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._clock.monotonic()
        log = self._log
        try:
            reported = self._decoder.feed(data)
            if reported is None or self._is_closing:
                return
            if self._offset is None:
                self._offset = first_offset(
                    reported,
                    min_offset=log.min_offset,
                    max_offset=log.max_offset,
                    file_bytes=log.file_bytes,
                    newest_file_only=self._service.options.newest_file_only,
                )
                logger.info("slave joined", extra={"slave": self.peer, "reported": reported, "from": self._offset})
            check_report(reported, max_offset=log.max_offset)
        except (ProtocolError, SlaveRefused) as error:
            logger.error("slave refused", extra={"slave": self.peer, "reason": str(error)})
            self._is_closing = True
            self._transport.abort()
            return
        self._service.replicas.report(self.peer, reported)
        if self._offset < log.max_offset:
            self.wake()

    # --------------------------------------------------------------------------------------------------------- sending

    def wake(self) -> None:
        """There may be something to send. What is stored until the loop's next turn is sent together."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_scheduled = False
        if self._offset is not None and self._offset > self._log.max_offset:
            # Only at a slave that has slaves of its own: it has dropped the beginning of a record, so must they.
            self.abort(f"the log was cut back to {self._log.max_offset}, and it has more")
            return
        if self._may_send() and self._send_round() and self._may_send():
            self.wake()

    def _may_send(self) -> bool:
        """Whether there is something to send, and the slave takes it."""
        if self._offset is None or self._is_paused or self._is_fetching or self._is_closing:
            return False
        return self._offset < self._log.max_offset

    def _send_round(self) -> bool:
        """Send the next bytes, if they are in memory; else fetch them, and go on when they are there."""
        assert self._offset is not None, "the slave has said where it is"
        log = self._log
        pieces = next_pieces(
            self._offset,
            log.max_offset,
            file_bytes=log.file_bytes,
            piece_bytes_max=self._service.options.piece_bytes_max,
            bytes_max=ROUND_BYTES,
        )
        parts: list[bytes | memoryview] = []
        for offset, length in pieces:
            if not log.has(offset, length):
                self.abort(f"what it needs next, from {offset} on, is no longer kept")
                return False
            data = log.peek(offset, length)
            if data is None:
                break
            parts += (encode_piece_head(offset, length), data)
        if not parts:
            self._is_fetching = True
            self._service.tasks.start(self._send_cold(pieces), name=f"replicate to {self.peer}")
            return False
        self._write(parts, pieces[: len(parts) // 2])
        return True

    async def _send_cold(self, pieces: Sequence[tuple[int, int]]) -> None:
        """The same for what has to be read from the disk: a slave that was away for long."""
        try:
            data = await self._service.reads.fetch([self._log.cold_range(*piece) for piece in pieces])
        except OSError as error:
            self.abort(f"the log could not be read at {pieces[0][0]}: {error}")
            return
        finally:
            self._is_fetching = False
        if self._is_closing:
            return
        parts: list[bytes | memoryview] = []
        for piece, read in zip(pieces, data, strict=True):
            parts += (encode_piece_head(*piece), read)
        self._write(parts, pieces)
        self.wake()

    def _write(self, parts: Sequence[bytes | memoryview], pieces: Sequence[tuple[int, int]]) -> None:
        self._transport.writelines(parts)
        self._wrote_at = self._clock.monotonic()
        offset, length = pieces[-1]
        self._offset = offset + length

    # ----------------------------------------------------------------------------------------------------------- time

    def _set_timer(self) -> None:
        options, now = self._service.options, self._clock.monotonic()
        due_at = min(self._wrote_at + options.heartbeat_s, self._heard_at + options.idle_timeout_s)
        self._timer = self._clock.call_later(max(due_at - now, 0.001), self._look)

    def _look(self) -> None:
        options, now = self._service.options, self._clock.monotonic()
        if self._is_closing:
            return
        if now - self._heard_at >= options.idle_timeout_s:
            self.abort(f"nothing was heard of it for {options.idle_timeout_s:g} s")
            return
        if now - self._wrote_at >= options.heartbeat_s:
            self._wrote_at = now
            if self._offset is not None and not self._is_paused and not self._is_fetching:
                self._transport.write(encode_piece_head(self._offset, 0))
        self._set_timer()
