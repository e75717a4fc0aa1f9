"""The send path: received bytes in, stored messages and answers out.

A hot module. A buffer is a batch: all plain sends in it become records that are written with one call, and their
answers leave with one. Steps a message: find its frame, recognise its header (`send_headers`), add its record
(`Appender.add`), format its answer. No object is made for it but its record's head, its cell and its answer.

Rule 1: this path takes plain sends only. Any other frame is handled by the dispatcher, after what came before it has
been stored, so that requests of one connection act in the order in which they were sent.
Rule 2: an answer leaves only when its message is stored as safely as the broker's settings and the message ask for.
Rule 3: a failed write takes back what it could not store; those sends are answered with the reason, the others with
success.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from skyrocketmq.broker.durability import Durability
from skyrocketmq.broker.send_headers import SendHeaders
from skyrocketmq.broker.send_rules import put_status_answer
from skyrocketmq.errors import ProtocolError
from skyrocketmq.net import Connection, Dispatcher
from skyrocketmq.net.dispatch import encode_reply
from skyrocketmq.store import MessageStore
from skyrocketmq.store.appender import REFUSED
from skyrocketmq.store.statuses import PutStatus, Refusal
from skyrocketmq.wire.frames import Frame, decode_frame, encode_frame, split_frames
from skyrocketmq.wire.ids import decode_offset_id

__all__ = ["SendPath"]

REPLY_BYTES_TOGETHER_MAX: Final = 1024 * 1024
_BINARY_WORD: Final = 0x01000000
_ONEWAY_BIT: Final = 2
_json_start: Final = Struct(">ii").pack  # | length | header word |
_number: Final = Struct(">i").pack


class SendPath:
    """A feed for a broker's connections: plain sends here, everything else to the dispatcher."""

    def __init__(
        self, store: MessageStore, durability: Durability, headers: SendHeaders, dispatcher: Dispatcher
    ) -> None:
        self.accept_from_ms = 0  # before this time sends are refused, in the general way
        self._store = store
        self._durability = durability
        self._headers = headers
        self._dispatcher = dispatcher

    def feed(self, data: bytes, connection: Connection) -> tuple[int, Sequence[bytes]]:
        """Handle the complete frames of a buffer; see `Connection`."""
        appender = self._store.appender
        if not appender.begin() or appender.now_ms < self.accept_from_ms:
            return self._dispatcher.feed(data, connection)
        try:
            places, used_bytes = split_frames(data)
        except ProtocolError:
            return self._dispatcher.feed(data, connection)
        headers = self._headers
        read_json, read_binary = headers.read_json, headers.read_binary
        add = appender.add
        born_host = connection.peer_host
        replies: list[bytes] = []
        now: list[bytes] = []  # answers that wait for nothing, where others do
        is_safe_at_once = self._durability.is_at_once
        for place in places:
            word, header_at, body_at, end = place
            is_json = word < _BINARY_WORD
            send = read_json(data[header_at:body_at]) if is_json else read_binary(data, header_at, body_at)
            if send is None or not send[1].is_plain:
                # What was added so far comes first, and what follows may not see half a batch.
                replies = self._settle(replies, connection)
                if not self._handle_other(data, place, connection, now) or not appender.begin():
                    return end, now + replies
                continue
            queue, shape, key, opaque, frame_flag, sys_flag, born_ms, flag, reconsumed = send
            queue_offset = queue.queue.next_offset
            log_offset = add(queue.queue, shape, key, data[body_at:end], flag, sys_flag, born_ms, born_host, reconsumed)
            if frame_flag & _ONEWAY_BIT:
                continue
            if log_offset == REFUSED:
                now.append(self._refused(data, place))
                continue
            if is_json:
                text = queue.json % (log_offset, queue_offset, opaque)
                reply = _json_start(4 + len(text), len(text)) + text
            else:
                form = queue.binary if queue_offset < queue.binary_until else queue.make_binary(queue_offset)
                reply = form % (_number(opaque), log_offset, queue_offset)
            if is_safe_at_once or shape.waits:
                replies.append(reply)
            else:
                now.append(reply)
        replies = self._settle(replies, connection)
        return used_bytes, now + replies if now else replies

    # ------------------------------------------------------------------------------------------- other requests

    def _handle_other(
        self, data: bytes, place: tuple[int, int, int, int], connection: Connection, replies: list[bytes]
    ) -> bool:
        """Let the dispatcher handle a frame; False if the feed has to stop behind it."""
        word, header_at, body_at, end = place
        try:
            frame = decode_frame(data, word, header_at, body_at, end)
        except ProtocolError as error:
            connection.refuse(error)
            return False
        reply = self._dispatcher.handle(frame, connection)
        self._headers.learn(frame, data, header_at, body_at)
        if reply is not None:
            replies.append(encode_reply(frame, reply))
            return sum(map(len, replies)) < REPLY_BYTES_TOGETHER_MAX
        return not connection.is_paused

    # ------------------------------------------------------------------------------------------------- settling

    def _settle(self, replies: list[bytes], connection: Connection) -> list[bytes]:
        """Store what was added. Returns the answers that may leave now; the others leave when their time has come."""
        appender = self._store.appender
        if not appender.has_pending:
            return replies
        if not appender.commit():
            assert appender.refusal is not None, "whoever refuses says why"
            replies = [self._corrected(reply, appender.failed_from, appender.refusal) for reply in replies]
        if self._durability.is_at_once or not replies:
            return replies

        def answer(status: PutStatus) -> None:
            connection.write(replies if status is PutStatus.PUT_OK else [_less_safe(r, status) for r in replies])

        self._durability.when_safe(self._store.log.max_offset, answer)
        return []

    def _refused(self, data: bytes, place: tuple[int, int, int, int]) -> bytes:
        refusal = self._store.appender.refusal
        assert refusal is not None, "whoever refuses says why"
        frame = decode_frame(data, *place)
        return encode_frame(put_status_answer(frame, refusal.status, refusal.remark))

    @staticmethod
    def _corrected(reply: bytes, failed_from: int, refusal: Refusal) -> bytes:
        """The answer as it has to be after a failed write: it says itself which message it speaks of."""
        frame = _read_reply(reply)
        assert frame.ext is not None, "the answer to a send has fields"
        message_id = frame.ext.get("msgId")
        if frame.code != 0 or message_id is None or decode_offset_id(message_id)[1] < failed_from:
            return reply
        return encode_frame(put_status_answer(frame, refusal.status, refusal.remark))


def _read_reply(reply: bytes) -> Frame:
    places, _ = split_frames(reply)
    return decode_frame(reply, *places[0])


def _less_safe(reply: bytes, status: PutStatus) -> bytes:
    """The answer to a message that is stored, but not flushed or replicated in time."""
    frame = _read_reply(reply)
    if frame.code != 0:
        return reply
    answer = put_status_answer(frame, status, "")
    answer.ext = frame.ext
    return encode_frame(answer)
