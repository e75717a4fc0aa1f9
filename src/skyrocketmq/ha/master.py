"""The master's side of replication: whoever is let in is sent the log, from where its own ends, as it grows.

A hot module: once a slave keeps up, each batch that is stored passes here, as slices of the mapped log in one write.

Rule 1: nothing is sent before the slave has said where its log ends; one whose log is no part of ours is refused, with
a line that says why.
Rule 2: a slave that does not read is not written to: what it lacks waits in the log, not in memory. Other slaves and
senders do not notice.
Rule 3: a connection that carries nothing gets a sign of life now and then. One that has reported nothing for long, or
has taken nothing of what waits for it, is closed. Slaves find their way back by themselves.
Rule 4: `admission` says who is let in, and whether that still holds. Until then nothing is sent and no report counts,
and there is little time. The number of slaves is limited, so what they can make the master keep in memory is too.
Rule 5: whoever has yet to report is a stranger, let in or not, and takes no slave's place. A true slave reports within
seconds; of too many strangers the oldest go.
Rule 6: at a clean stop a slave that keeps up gets all that there is before its connection ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from skyrocketmq.errors import ProtocolError
from skyrocketmq.ha.admission import Admission, Entry, Pass
from skyrocketmq.ha.channel import Channel, accept_channel
from skyrocketmq.ha.replicas import Replicas
from skyrocketmq.ha.rules import SlaveRefused, check_report, first_offset, next_pieces
from skyrocketmq.net.addresses import pack_address, peer_address
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.net.tls import ServerTls, TlsMode
from skyrocketmq.ports import Bound, Chance, Clock, Disk, Link, Timer, set_no_delay
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.wire.replication import ReportDecoder, encode_piece_head
from skyrocketmq.wire.replication_greeting import GreetingDecoder, Introduction, encode_challenge

__all__ = ["MasterOptions", "MasterService"]

logger = logging.getLogger(__name__)

ROUND_BYTES: Final = 512 << 10  # sent to one slave before others on the loop have their turn
UNSENT_BYTES_MAX: Final = 1 << 20  # above, a slave is waited for
CLOSING_S: Final = 2.0
BACKLOG: Final = 16
INTRODUCTION_S: Final = 5.0  # in which a slave that has to sign has to have signed
STRANGERS_MAX: Final = 64  # connections at a time that have yet to report
PORT_BYTES: Final = 4  # at the end of a packed address


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterOptions:
    heartbeat_s: float = 5.0
    idle_timeout_s: float = 20.0
    piece_bytes_max: int = 32 << 10
    newest_file_only: bool = False  # for slaves that are empty
    slave_count_max: int = 16
    tls_mode: TlsMode = TlsMode.DISABLED


class MasterService:
    """Serves all slaves of one broker. A slave's broker has one too: a slave of a slave is a slave."""

    def __init__(
        self,
        log: CommitLog,
        replicas: Replicas,
        options: MasterOptions,
        *,
        admission: Admission,
        disk: Disk,
        clock: Clock,
        chance: Chance,
        tls: ServerTls | None = None,
    ) -> None:
        self.admission = admission
        self.tls = tls
        self.chance = chance
        self.log = log
        self.replicas = replicas
        self.options = options
        self.clock = clock
        self.reads = ColdReads(disk, clock)
        self.tasks = Tasks()
        self._connections: dict[SlaveConnection, None] = {}
        self._server: asyncio.AbstractServer | None = None
        self._has_refused = False  # one for want of room; that is logged once
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def start(self, bound: Bound, link: Link) -> None:
        """Accept slaves on an address that is bound, until `close`."""
        self._server = await link.listen(lambda: SlaveConnection(self), bound, backlog=BACKLOG)
        self.log.on_append = self._wake

    def _wake(self) -> None:
        for connection in self._connections:
            connection.wake()

    def has_room(self) -> bool:
        """Whether one more slave may come in; strangers do not take the places of slaves."""
        count = sum(not connection.is_stranger for connection in self._connections)
        if count < self.options.slave_count_max:
            return True
        self._say_once("too many slaves, more are refused", count)
        return False

    def make_room_for_stranger(self) -> None:
        """Of too many the oldest goes, of the address that has most: a true slave reports soon, and is none then."""
        strangers = [each for each in self._connections if each.is_stranger and not each.is_closing]
        if len(strangers) < STRANGERS_MAX:
            return
        self._say_once("too many that have yet to report, the oldest have to go", len(strangers))
        ((crowd, _),) = Counter(each.address for each in strangers).most_common(1)
        next(each for each in strangers if each.address == crowd).make_way()

    def _say_once(self, what: str, count: int) -> None:
        if not self._has_refused:
            logger.error(what, extra={"count": count})
        self._has_refused = True

    def joined(self, connection: SlaveConnection) -> None:
        self._connections[connection] = None
        self._is_empty.clear()

    def left(self, connection: SlaveConnection) -> None:
        if connection not in self._connections:
            return
        del self._connections[connection]
        if not connection.is_stranger:
            self._has_refused = False
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
        self.address = b""  # packed, without the port
        self._service = service
        self._log = service.log
        self._clock = service.clock
        self._channel: Channel | None = None  # once it is known whether there is TLS in it
        self._greetings: GreetingDecoder | None = GreetingDecoder()  # until the first report
        self._challenge: bytes | None = None
        self._pass: Pass | None = None  # what it was let in with, if not by its address
        self._decoder = ReportDecoder()
        self._transport: asyncio.Transport
        self.is_stranger = True  # until its first report
        self._has_to_sign = True
        self._offset: int | None = None  # of the next byte to send, once the slave has said where it is
        self._is_scheduled = False
        self._is_paused = False
        self._is_fetching = False
        self.is_closing = False
        self._made_at = self._heard_at = self._wrote_at = self._moved_at = self._clock.monotonic()
        self._unsent_bytes = 0  # as last looked at
        self._timer: Timer | None = None

    # ------------------------------------------------------------------------------------------------------ connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        set_no_delay(transport)
        address = peer_address(transport.get_extra_info("peername"))
        self.peer = str(address)
        self.address = pack_address(address)[:-PORT_BYTES]
        entry = self._service.admission.entry(self.address)
        if entry is Entry.NONE:
            self._refuse("its address is none of those that slaves may connect from: see haSlaveAddresses")
            return
        self._has_to_sign = entry is Entry.SIGN
        if not (self._has_to_sign or self._service.has_room()):
            self.make_way()
            return
        self._service.make_room_for_stranger()
        self._service.joined(self)
        self._set_timer()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        self._service.left(self)
        if self._greetings is not None:
            return  # it was never a slave
        logger.info(
            "slave left",
            extra={"slave": self.peer, "sent": self._offset, "end": self._log.max_offset, "error": str(error or "")},
        )

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.wake()

    def make_way(self) -> None:
        """End without a word: there are many of these, and one line in the log tells of all."""
        self.is_closing = True
        self._transport.abort()

    def _refuse(self, reason: str) -> None:
        if not self.is_closing:
            logger.error("slave refused", extra={"slave": self.peer, "reason": reason})
        self.is_closing = True
        self._transport.abort()

    def close(self) -> None:
        """Send what can be sent, then end."""
        while self._may_send() and self._send_round():
            pass
        self.is_closing = True
        self._transport.close()

    def abort(self, reason: str) -> None:
        if not self.is_closing:
            logger.warning("slave dropped", extra={"slave": self.peer, "reason": reason})
        self.is_closing = True
        self._transport.abort()

    # --------------------------------------------------------------------------------------------------------- reports

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return
        try:
            if self._channel is None:
                self._channel = self._accept(data)
            data = self._channel.receive(data)
            if self._greetings is not None:
                data = self._greet(self._greetings, data)
            if data:
                self._read_report(data)
        except (ProtocolError, SlaveRefused) as error:
            self._refuse(str(error))

    def _accept(self, data: bytes) -> Channel:
        service = self._service
        mode, now_ms = service.options.tls_mode, self._clock.now_ms()
        return accept_channel(self._transport, data, mode=mode, tls=service.tls, now_ms=now_ms)

    def _greet(self, greetings: GreetingDecoder, data: bytes) -> bytes:
        """Take what a slave says about itself, until it begins to report; returns the reports."""
        said, reports = greetings.feed(data)
        for each in said:
            if each is not None:
                self._admit(each)
            elif self._challenge is None:
                chance = self._service.chance
                self._challenge = chance.uuid().bytes + chance.uuid().bytes
                self._write_out([encode_challenge(self._challenge)])
        if not reports:
            return b""
        if self._has_to_sign:
            raise SlaveRefused(
                "it has to sign: give it brokerAccessKey and brokerSecretKey of an administrator, or list its address "
                "in haSlaveAddresses (with accounts: or in globalWhiteRemoteAddresses)"
            )
        self._greetings = None
        return reports

    def _admit(self, introduction: Introduction) -> None:
        if not self._has_to_sign:
            return  # its address says enough
        if self._challenge is None:
            raise ProtocolError("the slave signs before it was asked to")
        challenge, self._challenge = self._challenge, b""
        if not challenge:
            raise ProtocolError("the slave signs twice")
        self._pass = self._service.admission.check(introduction, challenge)
        self._check_room()
        self._has_to_sign = False
        self._heard_at = self._clock.monotonic()
        logger.info("slave signed", extra={"slave": self.peer, "account": introduction.access_key})

    def _check_room(self) -> None:
        if not self._service.has_room():
            raise SlaveRefused("there are too many slaves: see haSlavesMax")

    def _read_report(self, data: bytes) -> None:
        """Raises `ProtocolError` or `SlaveRefused`."""
        log = self._log
        reported = self._decoder.feed(data)
        if reported is None:
            return
        self._heard_at = self._clock.monotonic()
        if self._offset is None:
            self._check_room()
            self._offset = first_offset(
                reported,
                min_offset=log.min_offset,
                max_offset=log.max_offset,
                file_bytes=log.file_bytes,
                newest_file_only=self._service.options.newest_file_only,
            )
            logger.info("slave joined", extra={"slave": self.peer, "reported": reported, "from": self._offset})
        check_report(reported, max_offset=log.max_offset, sent=self._offset)
        self.is_stranger = False
        self._service.replicas.report(self.peer, reported)
        if self._offset < log.shippable_offset:
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
        if self._offset is None or self._is_paused or self._is_fetching or self.is_closing:
            return False
        return self._offset < self._log.shippable_offset

    def _send_round(self) -> bool:
        """Send the next bytes, if they are in memory; else fetch them, and go on when they are there."""
        assert self._offset is not None, "the slave has said where it is"
        log = self._log
        pieces = next_pieces(
            self._offset,
            log.shippable_offset,
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
        if self.is_closing:
            return
        parts: list[bytes | memoryview] = []
        for piece, read in zip(pieces, data, strict=True):
            parts += (encode_piece_head(*piece), read)
        self._write(parts, pieces)
        self.wake()

    def _write(self, parts: Sequence[bytes | memoryview], pieces: Sequence[tuple[int, int]]) -> None:
        self._write_out(parts)
        offset, length = pieces[-1]
        self._offset = offset + length

    def _write_out(self, parts: Sequence[bytes | memoryview]) -> None:
        assert self._channel is not None, "it has been heard of"
        self._channel.write(parts)
        self._wrote_at = self._clock.monotonic()

    # ----------------------------------------------------------------------------------------------------------- time

    def _set_timer(self) -> None:
        options, now = self._service.options, self._clock.monotonic()
        due_at = min(self._wrote_at + options.heartbeat_s, self._heard_at + options.idle_timeout_s)
        if self._has_to_sign:
            due_at = min(due_at, self._made_at + INTRODUCTION_S)
        self._timer = self._clock.call_later(max(due_at - now, 0.001), self._look)

    def _look(self) -> None:
        options, now = self._service.options, self._clock.monotonic()
        if self.is_closing:
            return
        if self._has_to_sign and now - self._made_at >= INTRODUCTION_S:
            self._refuse(f"it has not signed within {INTRODUCTION_S:g} s")
            return
        if not (self._has_to_sign or self._service.admission.is_good(self._pass, self.address)):
            self.abort("its account or its address may not copy the log any more")
            return
        if now - self._heard_at >= options.idle_timeout_s:
            self.abort(f"nothing was heard of it for {options.idle_timeout_s:g} s")
            return
        if self._is_stuck(now):
            self.abort(f"it has read nothing for {options.idle_timeout_s:g} s")
            return
        if now - self._wrote_at >= options.heartbeat_s:
            self._wrote_at = now
            if self._offset is not None and not self._is_paused and not self._is_fetching:
                self._write_out([encode_piece_head(self._offset, 0)])
        self._set_timer()

    def _is_stuck(self, now: float) -> bool:
        """Whether a slave reads nothing of what waits for it, though it may say something now and then."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if not unsent_bytes or unsent_bytes != self._unsent_bytes:
            self._unsent_bytes, self._moved_at = unsent_bytes, now
        return now - self._moved_at >= self._service.options.idle_timeout_s
