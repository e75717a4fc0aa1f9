"""The broker's front door: every frame of a received buffer, in order, one way each.

    ordinary sends   all that stand together, in one call, into the batch of this turn (`ordinary_sends`)
    pulls            answered from memory, or held (`pull`)
    all else         decoded, checked and handled by the dispatcher

Rule 1: requests of one connection act in the order of their sending. Readers see only what is committed, so sends that
stand before another request in a buffer are committed before that is handled. What other connections have added in this
turn need not be seen: a pull that finds nothing is woken by the commit.
Rule 2: a turn of a connection is bounded in time and count, so that pipelined requests hold up nobody else. What is
left is fed again later.
Rule 3: where access is controlled, each send is checked on its own, and nothing is kept of those that are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.ordinary_sends import OrdinarySends
from skyrocketmq.broker.pull import PullHandler
from skyrocketmq.errors import ProtocolError
from skyrocketmq.hot.send_reader import ENOUGH
from skyrocketmq.net import Connection, Dispatcher
from skyrocketmq.net.dispatch import REPLY_BYTES_TOGETHER_MAX, encode_reply
from skyrocketmq.net.outbox import Part
from skyrocketmq.store import MessageStore
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import decode_frame, find_frame

__all__ = ["Router"]

_PLACE: Final = Struct(">II")  # | length | header word |
_BINARY_SEND: Final = RequestCode.SEND_MESSAGE_V2.to_bytes(2, "big")
_JSON_SEND: Final = b"%d" % RequestCode.SEND_MESSAGE_V2  # what does not have it anywhere is no such send
# How pulls begin, binary and as Java's clients write them; others come to the same handler through the dispatcher.
_PULLS: Final = (b"\0\x0b", b'{"code":11,')
SIGNED_BYTES_MAX: Final = 64 * 1024  # a signature over more takes long: it is looked at once, in the general way


class Router:
    """A feed for a broker's connections; see `net.Connection`. `pulls` is None where nobody may pull."""

    def __init__(
        self,
        store: MessageStore,
        sends: OrdinarySends,
        dispatcher: Dispatcher,
        *,
        pulls: PullHandler | None,
        access: AccessControl | None,
    ) -> None:
        self._store = store
        self._sends = sends
        self._dispatcher = dispatcher
        self._pulls = pulls
        self._access = access

    def feed(self, data: bytes, connection: Connection) -> tuple[int, Sequence[Part]]:
        """Handle the complete frames of a buffer; the bytes used, and what is answered at once."""
        sends, access = self._sends, self._access
        answers: list[Part] = []
        answer_bytes = at = 0
        while True:
            first = at
            if access is None and _may_be_send(data, at):
                at = sends.take(data, at, connection)
                if sends.stop == ENOUGH:
                    return at, answers
            try:
                place = find_frame(data, at)
            except ProtocolError as error:
                self._store.commit_open()  # the good frames before it are answered, then it is refused
                connection.refuse(error)
                return len(data), answers
            if place is None:
                return at, answers
            if at > first:
                self._store.commit_open()
            if access is None or not self._take_signed(data, at, place, connection, access):
                try:
                    answer_bytes += self._handle(data, place, connection, answers)
                except ProtocolError as error:
                    connection.refuse(error)
                    return len(data), answers
            at = place[3]
            if answer_bytes > REPLY_BYTES_TOGETHER_MAX or connection.is_paused or connection.is_turn_over():
                return at, answers

    def _take_signed(
        self,
        data: bytes,
        at: int,
        place: tuple[int, int, int, int],
        connection: Connection,
        access: AccessControl,
    ) -> bool:
        """Whether a frame was an ordinary send of somebody who may send it, and was taken."""
        if place[3] - place[2] > SIGNED_BYTES_MAX:
            return False
        try:
            frame = decode_frame(data, *place)
        except ProtocolError:
            return False
        return access.passes(frame, connection) and self._sends.take(data, at, connection, only_one=True) > at

    def _handle(
        self, data: bytes, place: tuple[int, int, int, int], connection: Connection, answers: list[Part]
    ) -> int:
        """Handle a frame that is no ordinary send; the bytes of its answer, if there is one now."""
        word, header_at, body_at, end = place
        if self._pulls is not None and data.startswith(_PULLS, header_at):
            parts = self._pulls.answer(data, word, header_at, body_at, end, connection) or ()
            answers += parts
            return sum(map(len, parts))
        self._store.commit_open()
        frame = self._dispatcher.decode(data, word, header_at, body_at, end)
        answer = self._dispatcher.handle(frame, connection)
        if answer is None:
            return 0
        encoded = encode_reply(frame, answer)
        answers.append(encoded)
        return len(encoded)


def _may_be_send(data: bytes, at: int) -> bool:
    """Whether the frame that begins here can be a send, seen from its code: no batch is opened for others."""
    if len(data) - at < _PLACE.size:
        return False
    _, word = _PLACE.unpack_from(data, at)
    header_at = at + _PLACE.size
    if word >> 24:
        return data.startswith(_BINARY_SEND, header_at)
    return data.find(_JSON_SEND, header_at, header_at + word) >= 0
