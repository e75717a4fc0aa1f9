"""One connection as frames: both ends may send requests, many at a time.

This is a module of the hot path: a received buffer costs `data_received`, one call of the feed, and one write. Rules:

1. Received bytes go to a **feed**, which answers what it can at once: `(buffer, connection) -> (bytes used, replies)`.
   It may stop before the end of the buffer when the connection is paused or its turn is over (`is_turn_over`); the
   rest is given to it again later, after others have had their turn.
2. Bytes that are not the protocol close this connection and touch nothing else.
3. Nothing is lost silently: a request of ours ends with its answer, `RequestTimeout` or `ConnectionLost`.

Everything here runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from skyrocketmq.errors import ConnectionLost, FrameTooLarge, ProtocolError, RequestTimeout, TooManyRequests
from skyrocketmq.hot.sends import SendAnswer
from skyrocketmq.net.gate import Gate
from skyrocketmq.net.outbox import Part
from skyrocketmq.net.rest import Budget, Rest, needed_bytes
from skyrocketmq.net.stream import Pause, Stream, StreamSetup
from skyrocketmq.net.tasks import Tasks
from skyrocketmq.net.tls import TlsSession
from skyrocketmq.net.waiting import Answer, WaitingRequests
from skyrocketmq.ports import Timer
from skyrocketmq.wire.frames import Frame, encode_frame

__all__ = ["Connection", "ConnectionSetup", "Feed", "Request"]

logger = logging.getLogger(__name__)

Feed = Callable[[bytes, "Connection"], tuple[int, Sequence[Part]]]

TURN_S = 0.005  # for so long a connection's requests are handled before those of others have their turn
TURN_FRAMES = 4096  # and so many, for where no clock runs

_RESPONSE_BIT = 1
_ONEWAY_BIT = 2


class Request(Protocol):
    """A frame, or what knows a quicker way to become one."""

    code: int

    def encode(self, opaque: int) -> bytes: ...

    def frame(self) -> Frame: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionSetup(StreamSetup):
    """What all connections of one server, or of one client, share."""

    feed: Feed
    tasks: Tasks
    incomplete: Budget[Connection]  # what is kept of large frames that have not arrived completely
    close_if_timeout: bool = False
    silent_s: float = 0.0  # for how long at least nothing must have come


class Connection(Stream):
    """One connection: `request`, `oneway` and `send_later` for senders; the rest is for feeds and owners."""

    __slots__ = (
        "_close_if_timeout",
        "_feed",
        "_frame_began_s",
        "_gate",
        "_handler_count",
        "_incomplete",
        "_refusal",
        "_rest",
        "_silence_timer",
        "_silent_s",
        "_tasks",
        "_turn_end_s",
        "_turn_frames",
        "_waiting",
    )

    def __init__(self, setup: ConnectionSetup, *, tls: TlsSession | None = None) -> None:
        super().__init__(setup, tls=tls)
        self._feed = setup.feed
        self._tasks = setup.tasks
        self._close_if_timeout = setup.close_if_timeout
        self._silent_s = setup.silent_s
        self._silence_timer: Timer | None = None
        self._waiting = WaitingRequests(setup.clock)
        self._gate = Gate(self._room)
        self._rest: Rest[Connection] = Rest(setup.incomplete, self)
        self._frame_began_s = 0.0
        self._incomplete = setup.incomplete
        self._refusal: ProtocolError | None = None
        self._handler_count = 0
        self._turn_end_s = 0.0
        self._turn_frames = 0

    @property
    def waiting_count(self) -> int:
        """Our requests that have no answer yet."""
        return len(self._waiting)

    @property
    def handler_count(self) -> int:
        """The peer's requests that tasks are working on."""
        return self._handler_count

    # --------------------------------------------------------------------------------------------------------- sending

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Send a request and wait for its answer; see `call`."""
        return frame_of(await self.call(frame, timeout_s))

    async def call(self, request: Request, timeout_s: float) -> Frame | SendAnswer:
        """Send a request, with a number of this connection, and wait for its answer as it was read.

        One deadline covers the wait for room and the answer. Raises `TooManyRequests` (no room in time),
        `RequestTimeout`, `ConnectionLost`, or `FrameTooLarge` before anything is sent.
        """
        deadline = self._clock.monotonic() + timeout_s
        waiting = self._waiting
        if self._gate.turns or self._outbox.is_full or len(waiting.answers) >= self._options.requests_max:
            await self._wait_for_room(request.code, timeout_s)
        if self._is_closing:
            raise self._lost()
        opaque = waiting.next_opaque()
        data = request.encode(opaque)
        answer: Answer = self._loop.create_future()
        is_alone = not waiting.answers
        waiting.add(opaque, answer, deadline)
        if is_alone:  # nothing is under way that it could leave together with
            self._outbox.push_now(data)
        else:
            self._outbox.push(data)
        read_count = self._read_count
        try:
            reply = await answer
        except asyncio.CancelledError:
            waiting.forget(opaque)
            raise
        finally:
            if self._gate.turns:
                self._gate.admit()
        if reply is None:
            text = f"no answer from {self.peer} to request {request.code} within {timeout_s:g} s"
            if self._close_if_timeout and self._read_count == read_count:
                self._abort_if_silent(text, timeout_s)
            raise RequestTimeout(text)
        return reply

    def _abort_if_silent(self, text: str, silent_s: float) -> None:
        """An answer is overdue, and nothing has come for so long. Others may be in less of a hurry."""
        if silent_s >= self._silent_s:
            self.abort(text)
        elif self._silence_timer is None:
            read_count = self._read_count

            def look() -> None:
                self._silence_timer = None
                if self._read_count == read_count:
                    self.abort(text)

            self._silence_timer = self._clock.call_later(self._silent_s - silent_s, look)

    async def oneway(self, frame: Frame, timeout_s: float) -> None:
        """Send a request that has no answer; wait for room, but not for the bytes to leave."""
        if not self._gate.is_open:
            await self._wait_for_room(frame.code, timeout_s)
        self._push_oneway(frame)
        if self._gate:
            self._gate.admit(1)

    def send_oneway(self, frame: Frame) -> None:
        """Send a request that has no answer, now or not at all: `TooManyRequests` if the peer does not keep up."""
        if self._outbox.is_full:
            raise TooManyRequests(
                f"{self.peer} has {self.unsent_bytes} bytes yet to read; request {frame.code} not sent"
            )
        self._push_oneway(frame)

    def _push_oneway(self, frame: Frame) -> None:
        if self._is_closing:
            raise self._lost()
        frame.flag |= _ONEWAY_BIT
        self._outbox.push(frame.encode(self._waiting.next_opaque()))

    def send_later(self, frame: Frame) -> bool:
        """Send an answer that was held back; False if the connection is closed. All of one loop run leave together."""
        if self._is_closing:
            return False
        self._outbox.push(encode_frame(frame))
        return True

    def write(self, parts: Sequence[Part]) -> bool:
        """Send encoded frames, in one or more parts; False if the connection is closed. Leaves as in `send_later`."""
        if self._is_closing:
            return False
        for part in parts:
            self._outbox.push(part)
        return True

    def send_now(self, part: Part) -> None:
        """Send encoded frames at once, with all that was to leave later; nothing if the connection is closed."""
        if not self._is_closing:
            self._outbox.send((part,))

    def _room(self) -> int:
        return 0 if self._outbox.is_full else self._options.requests_max - len(self._waiting)

    async def _wait_for_room(self, code: int, timeout_s: float) -> None:
        if self._is_closing:
            raise self._lost()
        try:
            await self._gate.enter(clock=self._clock, timeout_s=timeout_s)
        except TimeoutError:
            raise TooManyRequests(
                f"request {code} to {self.peer} found no room within {timeout_s:g} s: "
                f"{len(self._waiting)} requests wait for answers, {self.unsent_bytes} bytes are unsent"
            ) from None

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.peer} is closed: {self.close_reason}")

    # ------------------------------------------------------------------------------------------------------- receiving

    def data_received(self, data: bytes) -> None:
        if self._stage:
            data = self._unwrap(data)
            if not data:
                return
        self._read_count += 1
        if self._rest.have_bytes:
            data = self._rest.add(data)
            if not data:
                if self._incomplete.is_exceeded:
                    self._incomplete.heaviest()._refuse_incomplete()
                elif not self._rest.is_held and self._clock.monotonic() - self._frame_began_s > self._options.frame_s:
                    self._refuse(ProtocolError(f"a frame that takes longer than {self._options.frame_s:g} s"))
                return
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Give a buffer to the feed, as often as it makes progress, and keep what it leaves."""
        self._turn_end_s = self._clock.monotonic() + TURN_S
        self._turn_frames = TURN_FRAMES
        while True:
            try:
                used_bytes, replies = self._feed(data, self)
            except ProtocolError as error:
                self._refuse(error)
                return
            except Exception as error:
                logger.exception("feed failed", extra=self._log_fields())
                self.abort(f"internal error: {error!r}")
                return
            if replies:
                self._outbox.send(replies)
            if self._refusal is not None:
                self._refuse(self._refusal)
                return
            if used_bytes == len(data):
                return
            if used_bytes:
                data = data[used_bytes:]
            needed = needed_bytes(data)
            if len(data) < needed:
                self._rest.keep(data, needed)
                self._frame_began_s = self._clock.monotonic()
                return
            if self._is_closing:
                return
            if not self._pauses and self.is_turn_over():
                self.pause_reading(Pause.TURN)
                self._loop.call_soon(self.resume_reading, Pause.TURN)
            if self._pauses:
                self._rest.hold(data)
                return
            assert used_bytes, "a feed that is not paused uses every complete frame"

    def _refuse_incomplete(self) -> None:
        self._rest.take()  # at once: closing may take a while, and the next to exceed the limit is somebody else
        self._refuse(FrameTooLarge("incomplete frames take too much memory, and those of this host the most of it"))

    def _refuse(self, error: ProtocolError) -> None:
        logger.warning("peer refused", extra=self._log_fields() | {"reason": str(error)})
        self.close(f"not the protocol: {error}")

    def resume_reading(self, why: Pause = Pause.OWNER) -> None:
        """Take back one reason to pause; the last one gone, what was left in the buffer is fed, and reading goes on."""
        super().resume_reading(why)
        if self._rest.is_held and not self._pauses and not self._is_closing:
            self._take(self._rest.take())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._gate.admit()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self._rest.close()
        self._waiting.fail(self._lost)
        self._gate.fail(self._lost)

    # ------------------------------------------------------------------------------------------------------- for feeds

    def is_turn_over(self) -> bool:
        """Asked by a feed after each request that took more than a few microseconds: whether to leave the rest."""
        self._turn_frames -= 1
        return self._turn_frames <= 0 or self._clock.monotonic() >= self._turn_end_s

    def refuse(self, error: ProtocolError) -> None:
        """Bad bytes follow good ones: close once the replies that the feed returns are written."""
        self._refusal = error

    def resolve(self, frame: Frame) -> bool:
        """Give an answer to the request that waits for it; a stray is dropped."""
        if self._waiting.resolve(frame.opaque, frame):
            return True
        logger.debug("stray answer dropped", extra=self._log_fields() | {"opaque": frame.opaque})
        return False

    def resolve_sends(self, answers: Iterable[SendAnswer]) -> None:
        """Give answers to the sends that wait for them; strays are dropped."""
        for opaque in self._waiting.resolve_sends(answers):
            logger.debug("stray answer dropped", extra=self._log_fields() | {"opaque": opaque})

    def start_handler(self, work: Coroutine[Any, Any, object], *, name: str) -> asyncio.Task[Any]:
        """Work on a request that cannot be answered at once. Too many of them pause the connection."""
        self._handler_count += 1
        if self._handler_count >= self._options.handlers_max:
            self.pause_reading(Pause.HANDLERS)
        task = self._tasks.start(work, name=name)
        task.add_done_callback(self._handler_ended)
        return task

    def _handler_ended(self, _: asyncio.Task[Any]) -> None:
        self._handler_count -= 1
        # At half the limit, not one below it: a buffer of many small requests is then given to the feed a few times,
        # not once for each request.
        if self._pauses and self._pauses & Pause.HANDLERS and self._handler_count <= self._options.handlers_max // 2:
            self.resume_reading(Pause.HANDLERS)


def frame_of(answer: Frame | SendAnswer) -> Frame:
    """An answer as a frame, however it was read."""
    if isinstance(answer, Frame):
        return answer
    opaque, msg_id, queue_id, queue_offset, transaction_id, region, trace_on = answer
    ext = {
        "msgId": msg_id,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        "transactionId": transaction_id,
        "MSG_REGION": region,
        "TRACE_ON": "true" if trace_on else "false",
    }
    return Frame(0, opaque, _RESPONSE_BIT, ext)
