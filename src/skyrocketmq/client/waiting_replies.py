"""The requests of a client instance that wait for their replies, by correlation id.

Brokers push replies (326) over the instance's connections, whichever of its producers asked. One that nobody waits for
came too late: it is acknowledged all the same, as Apache's clients do, or its sender would try again elsewhere.
"""

from __future__ import annotations

import asyncio
import logging

from skyrocketmq.client.replies import read_pushed_reply
from skyrocketmq.errors import ClientError, ProtocolError, broker_error
from skyrocketmq.model import MessageView
from skyrocketmq.model import properties as names
from skyrocketmq.net import Connection
from skyrocketmq.ports import Clock
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import decode_header
from skyrocketmq.wire.headers_send import PushReplyMessageHeader
from skyrocketmq.wire.properties import decode_properties

__all__ = ["Reply", "WaitingReplies"]

logger = logging.getLogger(__name__)

Reply = asyncio.Future[MessageView]


class WaitingReplies:
    """The table; `receive` is the handler of code 326."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, Reply] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, correlation_id: str) -> Reply:
        """A future for the reply to a request that is about to be sent; `forget` it, whatever comes of it."""
        reply: Reply = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        return reply

    def forget(self, correlation_id: str) -> None:
        reply = self._waiting.pop(correlation_id, None)
        if reply is not None and not reply.cancel() and not reply.cancelled():
            reply.exception()  # looked at: it may be that the request has failed by other means

    def fail(self, correlation_id: str, error: ClientError) -> None:
        """End a wait: the client that asked is closing."""
        reply = self._waiting.get(correlation_id)
        if reply is not None and not reply.done():
            reply.set_exception(error)

    def receive(self, frame: Frame, connection: Connection) -> Frame:
        """326: a reply. Of several to one request the first counts."""
        try:
            message = read_pushed_reply(frame, now_ms=self._clock.now_ms())
        except ProtocolError as error:
            self._refuse(frame, error)
            raise broker_error(ResponseCode.SYSTEM_ERROR, f"the reply cannot be read: {error}") from error
        correlation_id = message.properties.get(names.CORRELATION_ID, "")
        reply = self._waiting.get(correlation_id)
        if reply is None or reply.done():
            logger.info("reply came too late", extra={"correlation_id": correlation_id, "broker": connection.peer})
        else:
            reply.set_result(message)
        return frame.reply()

    def _refuse(self, frame: Frame, error: ProtocolError) -> None:
        """Tell who asked that the reply is unreadable, if the frame still says who that is."""
        logger.warning("reply not readable", extra={"reason": str(error)})
        try:
            properties = decode_header(PushReplyMessageHeader, frame.ext).properties or ""
        except ProtocolError:
            return
        reply = self._waiting.get(decode_properties(properties).get(names.CORRELATION_ID, ""))
        if reply is not None and not reply.done():
            reply.set_exception(ProtocolError(f"the reply came, but cannot be read: {error}"))
