"""The slave's side of replication: one connection to the master, for as long as the broker runs.

A hot module: all that the master stores passes here.

Rule 1: what has arrived together is written together, then reported, then dispatched: a synchronous sender waits for
the first two only.
Rule 2: where the copy ends is all that the slave has to say. After whatever happened, a new connection and the next
report put everything right; nothing is remembered from one connection to the next.
Rule 3: a master that is gone is dialled again at least twice a second; its address is asked for anew meanwhile.
Rule 4: nothing is reported, and so nothing is sent, before `check` has compared the two logs through this connection's
master. A check that cannot be done ends the connection, and the next attempt begins with it again.
Rule 5: a slave with an account shows it before anything else (`wire.replication_greeting`). A master that does not
ask for it, Apache's for one, is followed all the same after a moment.
Rule 6: a master that does not fit (another log, other file sizes) is not followed. That is said once, loudly, and tried
again, ever more rarely, since an operator may put it right; at once if the master is elsewhere now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from skyrocketmq.errors import ConnectFailed, MQError, ProtocolError
from skyrocketmq.ha.connection import ReplicationStream, replication_setup
from skyrocketmq.net.addresses import Address, parse_address
from skyrocketmq.net.stream import StreamSetup, dial
from skyrocketmq.net.tls import ClientTls, TlsSession
from skyrocketmq.ports import Clock, Link
from skyrocketmq.store.replica import LogCopy, NotContinuous
from skyrocketmq.wire.replication import PieceDecoder, encode_report
from skyrocketmq.wire.replication_greeting import HELLO, decode_challenge, encode_introduction, sign_introduction

__all__ = ["SlaveAccount", "SlaveOptions", "SlaveService"]

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 1.0  # a new attempt finds a machine that has come back sooner than a patient one
RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 0.5
LOOK_FOR_MASTER_S: Final = 1.0
REFUSED_FIRST_S: Final = 0.1  # bytes that were lost on the way look like another log too, and are soon put right
REFUSED_MAX_S: Final = 30.0
CHALLENGE_S: Final = 1.0  # a master that asks its slaves who they are does so at once


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveAccount:
    """What a slave shows of itself."""

    access_key: str
    secret_key: str = field(repr=False)
    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlaveOptions:
    heartbeat_s: float = 5.0
    idle_timeout_s: float = 20.0
    account: SlaveAccount | None = None
    tls: ClientTls | None = None


async def _nothing() -> None:
    """The default for what is awaited: nothing to do."""


class SlaveService:
    """Follows a master. `run` it as a task; cancel that to stop.

    `find_master` is awaited now and then while there is no connection: it should end in a call of `set_master`.
    `prepare` is awaited before an empty copy asks for the log, and may raise an `MQError` not to let it. `check` is
    awaited on each new connection before anything is said through it: it raises `NotContinuous` if the master's log is
    another one, any other `MQError` if it cannot find out. `on_joined` is called once the log is asked for.
    The owner of the copy closes it, after the task has ended.
    """

    def __init__(
        self,
        copy: LogCopy,
        options: SlaveOptions,
        *,
        link: Link,
        clock: Clock,
        find_master: Callable[[], Awaitable[object]] = _nothing,
        prepare: Callable[[], Awaitable[object]] = _nothing,
        check: Callable[[], Awaitable[object]] = _nothing,
        on_joined: Callable[[], object] = lambda: None,
    ) -> None:
        self._copy = copy
        self._options = options
        self._link = link
        self._clock = clock
        self._find_master = find_master
        self._prepare = prepare
        self._check = check
        self._on_joined = on_joined
        # Reports leave at once, not at the end of the loop's turn, which is what an event loop makes of a limit of 0:
        # senders at the master wait for them, and dispatching what was received takes longer than anything else here.
        self._setup = replication_setup(clock=clock, idle_timeout_s=options.idle_timeout_s, unsent_bytes_max=0)
        self._master: str | None = None
        self._refusal_count = 0  # in a row
        self._refused_until = 0.0
        self._connection: _MasterConnection | None = None
        self._finding: asyncio.Task[None] | None = None
        self._said: str | None = None  # the last complaint: each is logged once

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_following

    def set_master(self, address: str | None) -> None:
        """Where the master takes slaves; None changes nothing, because one that is gone may come back there."""
        if address is None or address == self._master:
            return
        self._master = address
        self._refusal_count, self._refused_until = 0, 0.0
        if self._connection is not None:
            self._connection.abort("the master has another address now")

    async def run(self) -> None:
        """Copy for ever."""
        failures = 0
        looked_at = self._clock.monotonic()
        try:
            while True:
                if self._master is not None and self._clock.monotonic() >= self._refused_until:
                    failures = 0 if await self._follow(self._master) else failures + 1
                if self._clock.monotonic() - looked_at >= LOOK_FOR_MASTER_S:
                    looked_at = self._clock.monotonic()
                    if self._finding is None or self._finding.done():  # one that takes long holds nothing up
                        self._finding = asyncio.get_running_loop().create_task(self._ask_for_master())
                await self._clock.sleep(min(RETRY_FIRST_S * 2.0 ** min(failures, 10), RETRY_MAX_S))
        finally:
            if self._finding is not None:
                self._finding.cancel()

    async def _ask_for_master(self) -> None:
        try:
            await self._find_master()
        except (MQError, OSError) as error:
            logger.debug("master not found", extra={"error": str(error)})
        except Exception:  # nobody waits for this task: what is not said here is never said
            logger.exception("looking for the master failed")

    async def _follow(self, address: str) -> bool:
        """One connection, from its beginning to its end; whether anything came through it."""
        try:
            connection = self._connection = await self._connect(parse_address(address))
            if self._options.account is not None:
                await connection.introduce(self._options.account)
            # After the connection is there, not before: the master that answers now is the one that would be followed.
            # If it is restarted meanwhile, without its newest messages, this connection ends with it.
            await self._check()
            # What there is of a record that came in part is not compared: it is asked for again.
            await self._copy.drop_unfinished()
            begin = self._copy.end
            connection.begin()
            self._on_joined()
            await connection.closed
        except NotContinuous as error:
            self._refuse(address, str(error))
            return False
        except (MQError, OSError, TimeoutError) as error:
            self._complain(address, str(error) or f"no connection within {CONNECT_TIMEOUT_S:g} s")
            return False
        finally:
            if self._connection is not None:
                self._connection.abort("given up")
                self._connection = None
        reason = connection.close_reason
        if self._copy.end > begin or (connection.has_received and not connection.is_refused):
            self._said = None
            self._refusal_count = 0
        if connection.is_refused:
            self._refuse(address, reason)
        else:
            self._complain(address, reason)
        return connection.has_received

    async def _connect(self, address: Address) -> _MasterConnection:
        options, tls = self._options, self._options.tls
        session = None if tls is None else TlsSession(tls.context(), server_side=False, hostname=address.host)
        connection = _MasterConnection(self._copy, self._setup, heartbeat_s=options.heartbeat_s, tls=session)
        self._copy.dispatch()  # of what the disk may have refused before
        if self._copy.is_empty:
            await self._prepare()
        return await dial(connection, address, link=self._link, clock=self._clock, timeout_s=CONNECT_TIMEOUT_S)

    def _refuse(self, address: str, reason: str) -> None:
        """The two logs do not fit: leave the master alone for a while, longer each time."""
        pause_s = min(REFUSED_FIRST_S * 2.0 ** min(self._refusal_count, 10), REFUSED_MAX_S)
        self._refusal_count += 1
        self._refused_until = self._clock.monotonic() + pause_s
        if reason != self._said:
            logger.error("the master's log does not fit this copy", extra={"master": address, "reason": reason})
            self._said = reason

    def _complain(self, address: str, reason: str) -> None:
        if reason != self._said:
            logger.warning("not replicating", extra={"master": address, "reason": reason, "end": self._copy.end})
            self._said = reason


class _MasterConnection(ReplicationStream):
    """One connection to the master. It says nothing about the log until `begin`."""

    def __init__(self, copy: LogCopy, setup: StreamSetup, *, heartbeat_s: float, tls: TlsSession | None = None) -> None:
        super().__init__(setup, heartbeat_s=heartbeat_s, tls=tls)
        self.is_refused = False  # it ended because what came does not fit
        self._copy = copy
        self._decoder = PieceDecoder()
        self._has_begun = False
        self._challenge: asyncio.Future[bytes] | None = None  # what the master asks to sign, while that is waited for
        self._greeting = b""
        self._reported = 0

    @property
    def is_following(self) -> bool:
        return self._has_begun and not self._is_closing

    async def introduce(self, account: SlaveAccount) -> None:
        """Offer to sign, and do it if the master asks for it. Raises an `MQError` if the connection ends meanwhile."""
        self._challenge = self._loop.create_future()
        self._outbox.send([HELLO])
        try:
            async with self._clock.timeout(CHALLENGE_S):
                challenge = await self._challenge
        except TimeoutError:
            return  # this master does not ask
        finally:
            self._challenge = None
        introduction = sign_introduction(
            challenge,
            access_key=account.access_key,
            secret_key=account.secret_key,
            broker_name=account.broker_name,
        )
        self._outbox.send([encode_introduction(introduction)])

    def begin(self) -> None:
        """Ask for the log: say where the copy ends. Nothing happens if the connection has ended meanwhile."""
        self._has_begun = True
        self._report()

    def give_sign(self) -> None:
        if self._has_begun:
            self._report()

    def eof_received(self) -> None:
        self.abort("the master closed the connection: see its log")

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._challenge is not None and not self._challenge.done():
            self._challenge.set_exception(ConnectFailed(self.close_reason))

    # ---------------------------------------------------------------------------------------------------------- copying

    def take(self, data: bytes) -> None:
        if not self._has_begun:
            self._read_greeting(data)
            return
        if not self.has_received:
            logger.info("replicating", extra={"from": self._copy.end})
        self._read_count += 1
        self._take_pieces(data)

    def refuse(self, error: Exception) -> None:
        self.is_refused = isinstance(error, NotContinuous)
        self.abort(str(error))

    def _read_greeting(self, data: bytes) -> None:
        """Before the log is asked for, only one thing can come."""
        if self._challenge is None:
            raise ProtocolError("the master sent something before it was asked")
        self._greeting += data
        challenge = decode_challenge(self._greeting)
        if challenge is not None and not self._challenge.done():
            self._challenge.set_result(challenge)

    def _take_pieces(self, data: bytes) -> None:
        copy = self._copy
        try:
            begin, end, run = 0, 0, list[memoryview]()
            for offset, piece in self._decoder.feed(data):
                if run and (offset != end or copy.is_file_start(offset)):
                    copy.append(begin, run)
                    run = []
                if not piece:
                    if not run and not copy.is_empty and offset != copy.end:
                        raise NotContinuous(f"the master goes on at {offset}, the copy ends at {copy.end}")
                    continue
                if not run:
                    begin = offset
                run.append(piece)
                end = offset + len(piece)
            if run:
                copy.append(begin, run)
        finally:
            if copy.end > self._reported:
                self._report()
            copy.dispatch()

    def _report(self) -> None:
        self._reported = self._copy.end
        self._outbox.send([encode_report(self._reported)])
