"""The master's side of replication: sends the log to its slaves, each from where its copy ends, as the log grows.

A hot module: once a slave keeps up, each batch that is stored passes here, as slices of the mapped log in one write.

Rule 1: nothing is sent before the slave has said where its log ends; one whose log is no part of ours is refused, with
a line that says why.
Rule 2: a slave that does not read is not written to: what it lacks waits in the log, not in memory. Other slaves and
senders do not notice.
Rule 3: a connection that carries nothing gets a sign of life now and then. One that has reported nothing for long, or
has taken nothing of what waits for it, is closed. Slaves find their way back by themselves.
Rule 4: `admission` says who is let in, and whether that still holds. Until then nothing is sent and no report counts,
and there is little time. The number of slaves is limited, so what they can make the master keep in memory is too.
Rule 5: a connection that has yet to report is a stranger and takes no slave's place. A true slave reports within
seconds; of too many strangers the oldest go.
Rule 6: at a clean stop a slave that keeps up gets all that there is before its connection ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skyrocketmq.errors import ProtocolError
from skyrocketmq.ha.admission import Admission, Entry, Pass
from skyrocketmq.ha.connection import CLOSING_S, ReplicationStream, replication_setup
from skyrocketmq.ha.replicas import Replicas
from skyrocketmq.ha.rules import SlaveRefused, check_report, first_offset, next_pieces
from skyrocketmq.net.outbox import Part
from skyrocketmq.net.stream import close_all
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.net.tls import ServerTls, TlsMode
from skyrocketmq.ports import Bound, Chance, Clock, Disk, Link
from skyrocketmq.store.cold_reads import ColdReads
from skyrocketmq.store.commit_log import CommitLog
from skyrocketmq.wire.replication import ReportDecoder, encode_piece_head
from skyrocketmq.wire.replication_greeting import GreetingDecoder, Introduction, encode_challenge

__all__ = ["MasterOptions", "MasterService"]

logger = logging.getLogger(__name__)

ROUND_BYTES: Final = 512 << 10  # sent to one slave before others on the loop have their turn
UNSENT_BYTES_MAX: Final = 1 << 20  # above, a slave is waited for
BACKLOG: Final = 16
INTRODUCTION_S: Final = 5.0  # in which a slave that has to sign has to have signed
STRANGERS_MAX: Final = 64  # connections at a time that have yet to report


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
        tls: ServerTls,
    ) -> None:
        self.admission = admission
        self.chance = chance
        self.log = log
        self.replicas = replicas
        self.options = options
        self.reads = ColdReads(disk, clock)
        self.tasks = Tasks()
        self.setup = replication_setup(
            clock=clock,
            idle_timeout_s=options.idle_timeout_s,
            unsent_bytes_max=UNSENT_BYTES_MAX,
            server_tls=tls,
            tls_mode=options.tls_mode,
            on_open=self._opened,
            on_close=self._closed,
        )
        self._connections: dict[SlaveConnection, None] = {}
        self._server: asyncio.AbstractServer | None = None
        self._has_refused = False  # one for want of room; that is logged once

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

    def _make_room_for_stranger(self) -> None:
        """If there are too many, the oldest goes, of the address that has most. A true slave reports soon."""
        strangers = [each for each in self._connections if each.is_stranger and not each.is_closed]
        if len(strangers) < STRANGERS_MAX:
            return
        self._say_once("too many that have yet to report, the oldest have to go", len(strangers))
        ((crowd, _),) = Counter(each.host for each in strangers).most_common(1)
        next(each for each in strangers if each.host == crowd).abort("it made way for others")

    def _say_once(self, what: str, count: int) -> None:
        if not self._has_refused:
            logger.error(what, extra={"count": count})
        self._has_refused = True

    def _opened(self, connection: SlaveConnection) -> None:
        entry = self.admission.entry(connection.host)
        if entry is Entry.NONE:
            text = "slaves may not connect from its address: see haSlaveAddresses"
            connection.refuse(SlaveRefused(text))
        elif entry is Entry.FREE and not self.has_room():
            connection.abort("there are too many slaves")  # without a line of its own: there may be many of these
        else:
            connection.has_to_sign = entry is Entry.SIGN
            self._make_room_for_stranger()
            self._connections[connection] = None

    def _closed(self, connection: SlaveConnection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._has_refused = self._has_refused and connection.is_stranger
            self.replicas.leave(connection.peer)

    async def close(self) -> None:
        """End all connections, each once it has sent what it can; none takes longer than `CLOSING_S`."""
        if self._server is not None:
            self._server.close()
        await close_all(self._connections.keys(), "the master is stopping")
        await self.tasks.finish(clock=self.setup.clock, grace_s=CLOSING_S)
        self.replicas.close()


class SlaveConnection(ReplicationStream):
    """One slave."""

    def __init__(self, service: MasterService) -> None:
        super().__init__(service.setup, heartbeat_s=service.options.heartbeat_s)
        self._service = service
        self._log = service.log
        self._greetings: GreetingDecoder | None = GreetingDecoder()  # until the first report
        self._challenge: bytes | None = None
        self._pass: Pass | None = None  # what it was let in with, if not by its address
        self._decoder = ReportDecoder()
        self.is_stranger = True  # until its first report
        self.has_to_sign = True
        self._offset: int | None = None  # of the next byte to send, once the slave has said where it is
        self._is_scheduled = False
        self._is_fetching = False
        self._made_at = self._clock.monotonic()

    # ------------------------------------------------------------------------------------------------------ connection

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._greetings is None:  # else it was never a slave
            sent, end = self._offset, self._log.max_offset
            logger.info("slave left", extra={"slave": self.peer, "sent": sent, "end": end, "reason": self.close_reason})

    def resume_writing(self) -> None:
        super().resume_writing()
        self.wake()

    def close(self, reason: str = "closed by us") -> None:
        """Send what can be sent, then end."""
        while self._may_send() and self._send_round():
            pass
        super().close(reason)

    def refuse(self, error: Exception) -> None:
        """End it for good: an operator has to do something first."""
        if not self._is_closing:
            logger.error("slave refused", extra={"slave": self.peer, "reason": str(error)})
        self.abort(str(error))

    def _refuse_tls(self, reason: str) -> None:
        self.refuse(SlaveRefused(reason))

    def _drop(self, reason: str) -> None:
        """End it for now: a slave finds its way back by itself."""
        if not self._is_closing:
            logger.warning("slave dropped", extra={"slave": self.peer, "reason": reason})
        self.abort(reason)

    def _fell_idle(self) -> None:
        self._drop(f"nothing was heard of it for {self._options.idle_s:g} s")

    def may_stay(self) -> bool:
        if self.has_to_sign and self._clock.monotonic() - self._made_at >= INTRODUCTION_S:
            self.refuse(SlaveRefused(f"it has not signed within {INTRODUCTION_S:g} s"))
        elif not (self.has_to_sign or self._service.admission.is_good(self._pass, self.host)):
            self._drop("its account or its address may not copy the log any more")
        return not self._is_closing

    # --------------------------------------------------------------------------------------------------------- reports

    def take(self, data: bytes) -> None:
        if self._greetings is not None:
            data = self._greet(self._greetings, data)
        if data:
            self._read_report(data)

    def _greet(self, greetings: GreetingDecoder, data: bytes) -> bytes:
        """Take what a slave says about itself, until it begins to report; returns the reports."""
        said, reports = greetings.feed(data)
        for each in said:
            if each is not None:
                self._admit(each)
            elif self._challenge is None:
                chance = self._service.chance
                self._challenge = chance.uuid().bytes + chance.uuid().bytes
                self._outbox.send([encode_challenge(self._challenge)])
        if not reports:
            return b""
        if self.has_to_sign:
            raise SlaveRefused(
                "it has to sign: give it brokerAccessKey and brokerSecretKey of an administrator, or list its address "
                "in haSlaveAddresses (with accounts: or in globalWhiteRemoteAddresses)"
            )
        self._greetings = None
        return reports

    def _admit(self, introduction: Introduction) -> None:
        if not self.has_to_sign:
            return  # its address says enough
        if self._challenge is None:
            raise ProtocolError("the slave signs before it was asked to")
        challenge, self._challenge = self._challenge, b""
        if not challenge:
            raise ProtocolError("the slave signs twice")
        self._pass = self._service.admission.check(introduction, challenge)
        self._check_room()
        self.has_to_sign = False
        self._read_count += 1
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
        self._read_count += 1
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
            self._drop(f"the log was cut back to {self._log.max_offset}, and it has more")
            return
        if self._may_send() and self._send_round() and self._may_send():
            self.wake()

    def _may_send(self) -> bool:
        """Whether there is something to send, and the slave takes it."""
        if self._offset is None or self._outbox.is_full or self._is_fetching or self._is_closing:
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
        parts: list[Part] = []
        for offset, length in pieces:
            if not log.has(offset, length):
                self._drop(f"what it needs next, from {offset} on, is no longer kept")
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
            self._drop(f"the log could not be read at {pieces[0][0]}: {error}")
            return
        finally:
            self._is_fetching = False
        if self._is_closing:
            return
        parts: list[Part] = []
        for piece, read in zip(pieces, data, strict=True):
            parts += (encode_piece_head(*piece), read)
        self._write(parts, pieces)
        self.wake()

    def _write(self, parts: Sequence[Part], pieces: Sequence[tuple[int, int]]) -> None:
        self._outbox.send(parts)
        offset, length = pieces[-1]
        self._offset = offset + length

    def give_sign(self) -> None:
        if self._offset is not None and not self._outbox.is_full and not self._is_fetching:
            self._outbox.send([encode_piece_head(self._offset, 0)])
