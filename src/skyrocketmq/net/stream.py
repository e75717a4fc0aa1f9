"""The bytes of one TCP connection, either side: plain or TLS, at the pace of the peer, until it ends.

Rule 1: a server's end does not know what is coming until the first byte is there (see `net/tls.py`); what is written
        before that waits.
Rule 2: the peer decides how fast it is served. One that does not read what is written to it is not read from (on a
        server), and one that stays so is cut off (see `net/outbox.py`).
Rule 3: a message pays nothing for time-outs: coarse timers look at counters.

What the bytes mean is a subclass's business: `Connection` makes frames of them, `ha.connection` a copy of the log.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from collections.abc import Callable, Set
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, TypeVar, cast

from skyrocketmq.errors import ConnectFailed
from skyrocketmq.net.addresses import UNKNOWN_PEER, Address, pack_address, peer_address
from skyrocketmq.net.options import ConnectionOptions
from skyrocketmq.net.outbox import Outbox
from skyrocketmq.net.silence import CHECKS_PER_LIMIT, Silence
from skyrocketmq.net.tls import TLS_HELLO_BYTE, ServerTls, TlsMode, TlsSession
from skyrocketmq.ports import Clock, Link, Timer, set_buffers

__all__ = ["Pause", "Stage", "Stream", "StreamSetup", "close_all", "dial"]

logger = logging.getLogger(__name__)

PORT_BYTES = 4  # at the end of a packed host
_ids = itertools.count(1)


class Pause(IntFlag):
    """Why nothing is read from a peer for now."""

    WRITES = 1  # it does not read what is written to it
    HANDLERS = 2  # too many of its requests are being handled
    OWNER = 4  # the owner of the connection wants it so
    TURN = 8  # its turn is over: others come first
    ORDER = 16  # one of its requests is being handled in slices, and the next ones have to wait for that


UNTRUSTED_HINT = (
    "; name the certificate that vouches for the peer (trust_path, tls.client.trustCertPath); "
    "for tests, and for servers that make their own, ClientTls(verify=False)"
)


class Stage(IntEnum):
    """What received bytes are. Plain is zero: the hot path asks with one test."""

    PLAIN = 0
    FIRST_BYTE = 1  # it will say whether TLS comes
    TLS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamSetup:
    """What all connections of one server, or of one client, share."""

    clock: Clock
    options: ConnectionOptions
    on_open: Callable[[Any], object] | None = None  # called with the connection once it is made
    on_close: Callable[[Any], object] | None = None  # called with the connection once it is gone
    server_tls: ServerTls | None = None
    tls_mode: TlsMode | None = None  # of this port, where it is not that of `server_tls`
    # A server that cannot write stops reading: what it writes are answers. A client that cannot write goes on reading
    # answers, and its senders wait: if both ends stopped reading, neither would ever go on.
    pause_reading_when_full: bool = True


class Stream(asyncio.Protocol):
    """One connection as bytes. `attributes` is for its owners; `peer` and `peer_host` are the other end, as text and as
    records store it.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_closed",
        "_idle_timer",
        "_is_closing",
        "_linger_timer",
        "_loop",
        "_opened",
        "_options",
        "_outbox",
        "_pauses",
        "_read_count",
        "_setup",
        "_stage",
        "_tls",
        "_tls_timer",
        "_transport",
        "attributes",
        "close_reason",
        "id",
        "peer",
        "peer_host",
    )

    tls_keys: ClassVar[str] = "tls.server.mode"  # what decides about TLS on this port, for those who are refused
    _transport: asyncio.Transport
    _outbox: Outbox

    def __init__(self, setup: StreamSetup, *, tls: TlsSession | None = None) -> None:
        """`tls` makes this the client's end of a TLS connection; a server's end finds out by itself."""
        self._setup = setup
        self._options = setup.options
        self._clock = setup.clock
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._opened: asyncio.Future[None] | None = None
        self._tls = tls
        self._stage = Stage.TLS if tls else Stage.FIRST_BYTE if setup.server_tls else Stage.PLAIN
        self._pauses = 0
        self._read_count = 0
        self._is_closing = False
        self._idle_timer: Timer | None = None
        self._tls_timer: Timer | None = None
        self._linger_timer: Timer | None = None
        self.id = next(_ids)
        self.peer = str(UNKNOWN_PEER)
        self.peer_host = pack_address(UNKNOWN_PEER)
        self.attributes: dict[str, Any] = {}
        self.close_reason = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.peer}{' closed' if self.is_closed else ''}>"

    # ------------------------------------------------------------------------------------------------- what owners see

    @property
    def is_closed(self) -> bool:
        """Nothing can be sent any more; `closed` tells when the socket is gone too."""
        return self._is_closing

    @property
    def closed(self) -> asyncio.Future[None]:
        """Await this for the end of the connection."""
        return asyncio.shield(self._closed)

    @property
    def is_full(self) -> bool:
        """The peer does not keep up with what is written: a sender that can wait should."""
        return self._outbox.is_full

    @property
    def is_paused(self) -> bool:
        """Nothing is read for now."""
        return self._pauses != 0

    @property
    def has_received(self) -> bool:
        """Whether the peer has ever sent anything, TLS handshakes apart."""
        return self._read_count > 0

    @property
    def host(self) -> bytes:
        """Where the peer is, without its port."""
        return self.peer_host[:-PORT_BYTES]

    @property
    def is_encrypted(self) -> bool:
        return self._tls is not None

    @property
    def unsent_bytes(self) -> int:
        return self._outbox.unsent_bytes

    # ------------------------------------------------------------------------------------------------------- the start

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        options = self._options
        transport = self._transport = cast(asyncio.Transport, transport)
        address = peer_address(transport.get_extra_info("peername"))
        self.peer = str(address)
        self.peer_host = pack_address(address)
        set_buffers(transport, send_bytes=options.socket_send_bytes, receive_bytes=options.socket_receive_bytes)
        transport.set_write_buffer_limits(high=options.write_high_bytes, low=options.write_low_bytes)
        self._outbox = Outbox(transport, loop=self._loop, clock=self._clock, options=options, cut_off=self._cut_off)
        if options.idle_s:
            self._watch_idle(Silence(None, self._clock.monotonic()))
        logger.debug("connection opened", extra=self._log_fields())
        if self._stage is Stage.PLAIN:
            self._open()
        elif self._tls is not None:
            self._start_tls(self._tls)
            self._unwrap(b"")  # writes the hello
        self._tell(self._setup.on_open)

    async def wait_open(self) -> None:
        """For the side that dialled: until TLS is set up; raise `ConnectFailed` if the connection ends first."""
        if self._is_closing:
            raise self._not_opened()
        if self._tls is not None and not self._tls.is_open:
            self._opened = self._loop.create_future()
            await self._opened

    def _not_opened(self) -> ConnectFailed:
        return ConnectFailed(f"no connection to {self.peer}: {self.close_reason or 'closed by the peer'}")

    def _unwrap(self, data: bytes) -> bytes:
        """The plain bytes in what was received; nothing if there are none yet, or the connection is refused."""
        if self._stage is Stage.FIRST_BYTE and not self._choose_stage(is_hello=data[0] == TLS_HELLO_BYTE):
            return b""
        session = self._tls
        if session is None:
            return data
        was_open = session.is_open
        try:
            plain = session.receive(data)
        except ssl.SSLError as error:
            self._outbox.send_sealed(session.take_output())
            logger.warning("TLS failed", extra=self._log_fields() | {"reason": str(error)})
            hint = UNTRUSTED_HINT if isinstance(error, ssl.SSLCertVerificationError) else ""
            self.close(f"TLS failed: {error}{hint}")
            return b""
        self._outbox.send_sealed(session.take_output())
        if session.is_open and not was_open:
            self._open()
        if session.is_ended:
            self._loop.call_soon(self.eof_received)
        return plain

    def _choose_stage(self, *, is_hello: bool) -> bool:
        tls = self._setup.server_tls
        assert tls is not None
        mode = self._setup.tls_mode or tls.mode
        if is_hello and mode is not TlsMode.DISABLED:
            try:
                context = tls.context(now_ms=self._clock.now_ms())
            except Exception as error:  # no certificate could be made: plain connections are served all the same
                logger.exception("no TLS", extra=self._log_fields())
                self.abort(f"no TLS: {error}")
                return False
            self._start_tls(TlsSession(context, server_side=True))
        elif not is_hello and mode is not TlsMode.ENFORCING:
            self._stage = Stage.PLAIN
            self._open()
        else:
            kind = "TLS" if is_hello else "plain"
            self._refuse_tls(f"{kind} connection, and TLS is {mode.value} here: see {self.tls_keys}")
            return False
        return True

    def _refuse_tls(self, reason: str) -> None:
        logger.warning("peer refused", extra=self._log_fields() | {"reason": reason})
        self.abort(reason)

    def _start_tls(self, session: TlsSession) -> None:
        self._tls = session
        self._stage = Stage.TLS
        self._tls_timer = self._clock.call_later(
            self._options.tls_handshake_s, lambda: self.abort("the TLS handshake took too long")
        )

    def _open(self) -> None:
        """From here on bytes can be written."""
        if self._tls_timer is not None:
            self._tls_timer.cancel()
            self._tls_timer = None
        self._outbox.open(self._tls)
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    # -------------------------------------------------------------------------------------------------------- the pace

    def pause_writing(self) -> None:
        self._outbox.pause()
        if self._setup.pause_reading_when_full:
            self.pause_reading(Pause.WRITES)

    def resume_writing(self) -> None:
        self._outbox.resume()
        self.resume_reading(Pause.WRITES)

    def pause_reading(self, why: Pause = Pause.OWNER) -> None:
        """Read nothing more until every reason to pause is gone."""
        if not self._pauses and not self._is_closing:
            self._transport.pause_reading()
        self._pauses |= why

    def resume_reading(self, why: Pause = Pause.OWNER) -> None:
        """Take back one reason to pause; the last one gone, reading goes on."""
        if not self._pauses & why:
            return
        self._pauses &= ~why
        if not self._pauses and not self._is_closing:
            self._transport.resume_reading()

    def _watch_idle(self, silence: Silence) -> None:
        interval_s = self._options.idle_s / CHECKS_PER_LIMIT
        self._idle_timer = self._clock.call_later(interval_s, lambda: self._check_idle(silence))

    def _check_idle(self, silence: Silence) -> None:
        if silence.seconds(self._life_mark(), self._clock.monotonic()) >= self._options.idle_s:
            self._fell_idle()
        else:
            self._watch_idle(silence)

    def _life_mark(self) -> object:
        """What changes as long as the connection is of use."""
        # Unsent bytes count too: a large answer on a slow line is one write that goes on for minutes.
        return self._read_count, self._outbox.write_count, self._outbox.unsent_bytes

    def _fell_idle(self) -> None:
        self.close(f"idle for {self._options.idle_s:g} s")

    def _cut_off(self, reason: str) -> None:
        logger.warning("slow peer cut off", extra=self._log_fields() | {"reason": reason})
        self.abort(f"the peer is too slow: {reason}")

    # --------------------------------------------------------------------------------------------------------- the end

    def close(self, reason: str = "closed by us") -> None:
        """Let what is written leave, then close; what has not left after `linger_s` is given up. Twice is harmless."""
        if self._is_closing:
            return
        self._outbox.flush()
        if self._tls is not None:
            self._outbox.send_sealed(self._tls.close())
        self._is_closing = True
        self.close_reason = reason
        self._linger_timer = self._clock.call_later(self._options.linger_s, self._transport.abort)
        self._transport.close()

    def abort(self, reason: str = "cut off by us") -> None:
        """Close at once; unsent bytes are thrown away."""
        if not self._is_closing:
            self._is_closing = True
            self.close_reason = reason
        self._transport.abort()

    def eof_received(self) -> None:
        # Not left to the transport, which would wait for ever for a peer that hung up one way and reads no more.
        self.close("closed by the peer")

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self.close_reason = self.close_reason or (f"lost: {error}" if error else "closed by the peer")
        for timer in (self._idle_timer, self._tls_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        self._outbox.stop()
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(self._not_opened())
        logger.debug("connection closed", extra=self._log_fields() | {"reason": self.close_reason})
        self._closed.set_result(None)
        self._tell(self._setup.on_close)

    def _tell(self, listener: Callable[[Any], object] | None) -> None:
        if listener is not None:
            try:
                listener(self)
            except Exception:
                logger.exception("connection listener failed", extra=self._log_fields())

    def _log_fields(self) -> dict[str, object]:
        return {"peer": self.peer, "connection": self.id}


S = TypeVar("S", bound=Stream)


async def dial(stream: S, address: Address, *, link: Link, clock: Clock, timeout_s: float) -> S:
    """Connect, TLS included. Raises `TimeoutError`, `OSError` or `ConnectFailed`; then nothing is left of it."""
    async with clock.timeout(timeout_s):
        transport, _ = await link.connect(lambda: stream, address.host, address.port)
        try:
            await stream.wait_open()
        except BaseException:
            transport.abort()
            raise
    return stream


async def close_all(streams: Set[Stream], reason: str) -> None:
    """Close connections and wait until their sockets are gone; each lingers for its unsent bytes as its options say."""
    while streams:  # one may still be accepted by the loop while others are closed
        closing = list(streams)
        for stream in closing:
            stream.close(reason)
        for stream in closing:
            await stream.closed
