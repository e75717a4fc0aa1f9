"""Requests to their handlers, answers to their requests.

This is a module of the hot path. The rules:

1. A handler that can answer now returns its answer, and no task is made. One that must wait is a coroutine; it becomes
   a task of the connection's owner, and its answer is sent when it comes. Work in slices (`net/slices.py`) is the same,
   but the peer's further requests wait for it: requests that do not wait act in the order of their sending.
2. Whatever a handler raises is an answer: `BrokerError` its own code, anything else code 1 with the exception's text.
   A `ProtocolError` is the peer's fault and is logged in one line; the rest is ours, and is logged with its traceback.
3. A one-way request gets no answer, whether it succeeds or fails; but the answer that its code is unknown is sent even
   then, as Apache's servers do.
4. Answers that the transport makes up (failed, busy, unknown) are written as JSON, whatever encoding the request had:
   Apache's servers do so, and every client reads both.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import iscoroutine
from struct import Struct
from traceback import extract_tb

from skyrocketmq.errors import BrokerError, FrameTooLarge, ProtocolError
from skyrocketmq.loop_watch import LoopWatch
from skyrocketmq.net.causes import request_cause
from skyrocketmq.net.connection import Connection
from skyrocketmq.net.slices import InOrder
from skyrocketmq.net.stream import Pause
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Encoding, Frame, decode_frame, encode_frame, encode_head, split_frames

__all__ = ["Dispatcher", "Handler", "Hook", "encode_reply", "failure_answer"]

logger = logging.getLogger(__name__)

Handler = Callable[[Frame, Connection], Frame | Awaitable[Frame | None] | None]
Hook = Callable[[Frame, Connection], object]

OVERLOAD_TAG = "[OVERLOAD]"
SERVER_HEADER_BYTES_MAX = 512 * 1024
REPLY_BYTES_TOGETHER_MAX = 1024 * 1024  # above, a feed lets the connection write before it answers more

_RESPONSE_BIT = 1
_ONEWAY_BIT = 2
_LENGTH = Struct(">I")


class Dispatcher:
    """A table of handlers by request code; `feed` is what a connection is given.

    `default` handles codes that no other handler has; without it they are answered with code 3, or not at all if
    `answer_unknown` is off (so Apache's name server keeps silent). `before` is called with each request first and may
    refuse it by raising. `in_flight_max` limits the requests that tasks are working on, over all connections: above it
    a request that needs a task is answered with code 2. A header of more than `header_bytes_max` is not the protocol:
    what Apache's clients send is far below `SERVER_HEADER_BYTES_MAX`, and a server has no time to read more.
    `watch` hears of what takes long.
    """

    def __init__(
        self,
        *,
        default: Handler | None = None,
        before: Hook | None = None,
        answer_unknown: bool = True,
        in_flight_max: int = 50_000,
        header_bytes_max: int = sys.maxsize,
        watch: LoopWatch | None = None,
    ) -> None:
        self.default = default
        self.before = before
        self.answer_unknown = answer_unknown
        self.in_flight_max = in_flight_max
        self.header_bytes_max = header_bytes_max
        self.in_flight_count = 0
        self._watch = watch
        self._handlers: dict[int, Handler] = {}

    @property
    def codes(self) -> list[int]:
        """The codes that have a handler of their own."""
        return list(self._handlers)

    def register(self, code: int, handler: Handler) -> None:
        """Let `handler` answer requests of this code; a second registration replaces the first."""
        self._handlers[int(code)] = handler

    def feed(self, data: bytes, connection: Connection) -> tuple[int, list[bytes]]:
        """Handle every complete frame of a buffer; give back the bytes used and the replies."""
        bad: ProtocolError | None = None  # what follows the good frames
        try:
            places, used_bytes = split_frames(data)
        except ProtocolError as error:
            places, used_bytes, bad = _places_before_bad_one(data), len(data), error
            if not places:
                raise
        replies: list[bytes] = []
        reply_bytes = 0
        for word, header_at, body_at, end in places:
            try:
                frame = self.decode(data, word, header_at, body_at, end)
            except ProtocolError as error:
                connection.refuse(error)
                return len(data), replies
            reply = self.handle(frame, connection)
            if reply is not None:
                encoded = encode_reply(frame, reply)
                replies.append(encoded)
                reply_bytes += len(encoded)
                if reply_bytes > REPLY_BYTES_TOGETHER_MAX:
                    return end, replies
            if connection.is_paused or connection.is_turn_over():
                return end, replies  # with what follows, be it good or bad, the next turn begins
        if bad is not None:
            connection.refuse(bad)
        return used_bytes, replies

    def decode(self, data: bytes, word: int, header_at: int, body_at: int, end: int) -> Frame:
        """A frame of a buffer. Raises `ProtocolError`."""
        if body_at - header_at > self.header_bytes_max:
            raise FrameTooLarge(f"a header of {body_at - header_at} bytes, at most {self.header_bytes_max} may be")
        return decode_frame(data, word, header_at, body_at, end)

    def handle(self, frame: Frame, connection: Connection) -> Frame | None:
        """Handle one frame: the reply if there is one now. Answers go to the requests that wait for them."""
        if frame.flag & _RESPONSE_BIT:
            connection.resolve(frame)
            return None
        handler = self._handlers.get(frame.code, self.default)
        if handler is None:
            return self._unknown(frame, connection)
        watch = self._watch
        started = 0.0 if watch is None else watch.now()
        try:
            if self.before is not None:
                self.before(frame, connection)
            reply = handler(frame, connection)
        except Exception as error:
            reply = failure_answer(frame, error)
        if watch is not None and watch.now() - started > watch.limit_s / 2:
            watch.end_part(started, partial(request_cause, frame, connection.peer))
        if reply is None or isinstance(reply, Frame):
            return None if frame.flag & _ONEWAY_BIT else reply
        return self._start(frame, reply, connection)

    def _unknown(self, frame: Frame, connection: Connection) -> Frame | None:
        logger.warning("request code not supported", extra={"code": frame.code, "peer": connection.peer})
        if not self.answer_unknown:
            return None
        remark = f"request type {frame.code} not supported"
        return _json_answer(frame, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)

    def _start(self, frame: Frame, work: Awaitable[Frame | None], connection: Connection) -> Frame | None:
        if self.in_flight_count >= self.in_flight_max and iscoroutine(work):
            work.close()  # it has not begun: a coroutine begins when it is first awaited
            if frame.flag & _ONEWAY_BIT:
                return None
            return _json_answer(
                frame, ResponseCode.SYSTEM_BUSY, f"{OVERLOAD_TAG}{self.in_flight_count} requests are being handled"
            )
        self.in_flight_count += 1

        def ended(_: object) -> None:
            self.in_flight_count -= 1
            if iscoroutine(work):
                work.close()  # a task that was cancelled before its first step never came to await it

        answering = self._answer_later(frame, work, connection)
        if self._watch is not None:
            answering = self._watch.steps(answering, partial(request_cause, frame, connection.peer))
        task = connection.start_handler(answering, name=f"request {frame.code}")
        task.add_done_callback(ended)
        if isinstance(work, InOrder):
            connection.pause_reading(Pause.ORDER)
            task.add_done_callback(lambda _: connection.resume_reading(Pause.ORDER))
        return None

    async def _answer_later(self, frame: Frame, work: Awaitable[Frame | None], connection: Connection) -> None:
        try:
            reply = await work
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the owner is closing
            reply = failure_answer(frame, error)  # the handler waited for something that was cancelled
        except Exception as error:
            reply = failure_answer(frame, error)
        if reply is not None and not frame.flag & _ONEWAY_BIT:
            connection.write([encode_reply(frame, reply)])


def failure_answer(frame: Frame, error: BaseException) -> Frame:
    """The answer to a request whose handler raised. What has no code of its own is logged."""
    if isinstance(error, BrokerError):
        logger.debug("request refused", extra={"code": frame.code, "reason": str(error)})
        return _json_answer(frame, error.code, error.remark)
    if isinstance(error, ProtocolError):  # the peer's fault: there is nothing of ours to look for
        logger.warning("request not understood", extra={"code": frame.code, "reason": str(error)})
        return _json_answer(frame, ResponseCode.SYSTEM_ERROR, f"request {frame.code} is not understood: {error}")
    return _our_failure(frame, error)


def _our_failure(frame: Frame, error: BaseException) -> Frame:
    logger.warning("request failed", extra={"code": frame.code}, exc_info=error)
    steps = extract_tb(error.__traceback__)
    where = f", at {steps[-1].name} line {steps[-1].lineno}" if steps else ""
    return _json_answer(frame, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}{where}")


def _json_answer(frame: Frame, code: int, remark: str) -> Frame:
    answer = frame.reply(code, remark=remark)
    answer.encoding = Encoding.JSON
    return answer


def encode_reply(frame: Frame, reply: Frame) -> bytes:
    """The bytes of an answer; of the failure, if it cannot be written."""
    try:
        return encode_head(reply, len(reply.body)) + reply.body
    except Exception as error:  # an answer that cannot be written is a failed request: too large, or wrongly typed
        return encode_frame(_our_failure(frame, error))


def _places_before_bad_one(data: bytes) -> list[tuple[int, int, int, int]]:
    """The good frames of a buffer in which a later one is bad: they were sent in good faith, and are handled."""
    good: list[tuple[int, int, int, int]] = []
    at = 0
    while len(data) - at >= 4:
        end = at + 4 + int(_LENGTH.unpack_from(data, at)[0])
        try:
            places, used_bytes = split_frames(data[at:end])
        except ProtocolError:
            break
        if not used_bytes:
            break
        good += [(word, header + at, body + at, stop + at) for word, header, body, stop in places]
        at = end
    return good
