"""The send path: received bytes in, stored messages and answers out.

A hot module. A buffer is a batch: all plain sends in it become records that are written with one call, and their
answers leave with one. Steps a message: find its frame, recognise its header (`send_headers`), add its record
(`Appender.add`), format its answer. No object is made for it but its record's head, its cell and its answer.

Rule 1: this path takes plain sends only. Transactions are added to the batch by `TransactionPath`, as far as they need
no decision. Any other frame, and a send that cannot be added, is handled by `PullHandler` or the dispatcher, after what
came before it has been stored: requests of one connection act in the order of their sending. After such a frame the
rest may be left for the connection's next turn; plain sends are so quick that a buffer of them is handled whole, unless
they have thousands of keys.
Rule 2: an answer leaves only when its message is stored as safely as the broker's settings and the message ask for.
Rule 3: a failed write takes back what it could not store; those sends are answered with the reason, the others with
success.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.durability import Durability
from skyrocketmq.broker.pull import PullHandler
from skyrocketmq.broker.send_headers import SendHeaders
from skyrocketmq.broker.send_rules import put_status_answer
from skyrocketmq.broker.transaction_path import TransactionPath
from skyrocketmq.errors import ProtocolError
from skyrocketmq.net import Connection, Dispatcher
from skyrocketmq.net.dispatch import REPLY_BYTES_TOGETHER_MAX, encode_reply
from skyrocketmq.net.outbox import Part
from skyrocketmq.store import MessageStore
from skyrocketmq.store.appender import REFUSED
from skyrocketmq.store.statuses import PutStatus, Refusal
from skyrocketmq.wire.codes import ResponseCode
from skyrocketmq.wire.frames import FRAME_BYTES_MAX, ONEWAY_BIT, Frame, decode_frame, encode_frame, split_frames
from skyrocketmq.wire.ids import decode_offset_id

__all__ = ["SendPath"]

KEYS_A_TURN: Final = 2_048  # with more keys to index, what follows waits until others have had their turn
_BEFORE_HEADER_BYTES: Final = 8
_SIGNED_BYTES_MAX: Final = 64 * 1024  # a signature over more takes long: it is looked at once, in the general way
_BINARY_WORD: Final = 0x01000000
_PULL_STARTS: Final = (b"\0\x0b", b'{"code":11,')  # binary and JSON; others go through the dispatcher
_length_and_word: Final = Struct(">II").unpack_from
_json_start: Final = Struct(">ii").pack  # | length | header word |
_number: Final = Struct(">i").pack


class SendPath:
    """A feed for a broker's connections: plain sends here, pulls to their handler, the rest to the dispatcher."""

    def __init__(
        self,
        store: MessageStore,
        durability: Durability,
        headers: SendHeaders,
        dispatcher: Dispatcher,
        *,
        pulls: PullHandler | None,
        transactions: TransactionPath,
    ) -> None:
        self.accept_from_ms = 0  # before this time sends are refused, in the general way
        self._store = store
        self._durability = durability
        self._headers = headers
        self._dispatcher = dispatcher
        self._pulls = pulls  # None where nobody may pull
        self._transactions = transactions
        self.access: AccessControl | None = None  # asked of each send, where access is controlled

    def feed(self, data: bytes, connection: Connection) -> tuple[int, Sequence[Part]]:
        """Handle the complete frames of a buffer; see `Connection`."""
        pulls = self._pulls
        if pulls is not None and data.startswith(_PULL_STARTS, _BEFORE_HEADER_BYTES):
            used_bytes, parts = self._pull_first(data, connection, pulls)
            if used_bytes:
                return used_bytes, parts
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
        access = self.access
        answers: list[Part] = []  # these may leave
        answer_bytes = 0
        patient: list[bytes] = []  # to messages that were added; they leave when those are stored, and safe
        hasty: list[bytes] = []  # the same, of senders who do not wait for the disk or a slave
        is_safe_at_once = self._durability.is_at_once
        key_count = 0
        for place in places:
            word, header_at, body_at, end = place
            if key_count > KEYS_A_TURN:
                return header_at - _BEFORE_HEADER_BYTES, [*answers, *self._settle(patient, hasty, connection)]
            is_json = word < _BINARY_WORD
            if pulls is not None and data.startswith(_PULL_STARTS[is_json], header_at):
                answers += self._settle(patient, hasty, connection)
                patient, hasty = [], []
                try:
                    pulled = pulls.answer(data, word, header_at, body_at, end, connection)
                except ProtocolError as error:
                    connection.refuse(error)
                    return end, answers
                if pulled is not None:
                    answers += pulled
                    answer_bytes += sum(map(len, pulled))
                if (
                    answer_bytes > REPLY_BYTES_TOGETHER_MAX
                    or connection.is_paused
                    or connection.is_turn_over()
                    or not appender.begin()
                ):
                    return end, answers
                continue
            send = read_json(data, header_at, body_at) if is_json else read_binary(data, header_at, body_at)
            if send is not None and send[1].is_plain and (access is None or _passes(access, data, place, connection)):
                queue, shape, key, opaque, frame_flag, sys_flag, born_ms, flag, reconsumed = send
                queue_offset = queue.queue.next_offset
                log_offset = add(
                    queue.queue, shape, key, data[body_at:end], flag, sys_flag, born_ms, born_host, reconsumed
                )
                if log_offset != REFUSED:
                    key_count += len(shape.keys)
                    if frame_flag & ONEWAY_BIT:
                        continue
                    if is_json:
                        text = queue.json % (log_offset, queue_offset, opaque)
                        answer = _json_start(4 + len(text), len(text)) + text
                    elif queue.binary_from <= queue_offset < queue.binary_until:
                        answer = queue.binary % (_number(opaque), log_offset, queue_offset)
                    else:
                        answer = queue.make_binary(queue_offset) % (_number(opaque), log_offset, queue_offset)
                    if is_safe_at_once or shape.waits:
                        patient.append(answer)
                    else:
                        hasty.append(answer)
                    continue
            if access is None:
                added = self._transactions.add(data, place, connection)
                if added is not None:
                    if added:
                        patient.append(added)
                    continue
            # What was added so far comes first, and what follows may not see half a batch.
            answers += self._settle(patient, hasty, connection)
            patient, hasty = [], []
            try:
                answer = self._handle_other(data, place, connection)
            except ProtocolError as error:
                connection.refuse(error)
                return end, answers
            if answer:
                answers.append(answer)
                answer_bytes += len(answer)
            if (
                answer_bytes > REPLY_BYTES_TOGETHER_MAX
                or connection.is_paused
                or connection.is_turn_over()
                or not appender.begin()
            ):
                return end, answers
        settled = self._settle(patient, hasty, connection)
        return used_bytes, [*answers, *settled] if answers else settled

    def _pull_first(self, data: bytes, connection: Connection, pulls: PullHandler) -> tuple[int, list[Part]]:
        """Answer the pull that a buffer begins with, if it has come whole."""
        length, word = _length_and_word(data)
        end, body_at = 4 + length, _BEFORE_HEADER_BYTES + (word & 0xFFFFFF)
        if not _BEFORE_HEADER_BYTES < body_at <= end <= len(data) or word >= 0x02000000 or end > FRAME_BYTES_MAX:
            return 0, []
        try:
            return end, list(pulls.answer(data, word, _BEFORE_HEADER_BYTES, body_at, end, connection) or ())
        except ProtocolError as error:
            connection.refuse(error)
            return end, []

    def _handle_other(self, data: bytes, place: tuple[int, int, int, int], connection: Connection) -> bytes:
        """Let the dispatcher handle a frame; its answer, empty if there is none now."""
        word, header_at, body_at, end = place
        frame = self._dispatcher.decode(data, word, header_at, body_at, end)
        answer = self._dispatcher.handle(frame, connection)
        if answer.code == 0 if answer is not None else self._may_learn(frame, connection):
            self._headers.learn(frame, data, header_at, body_at)  # of what was refused, nothing is kept
        return b"" if answer is None else encode_reply(frame, answer)

    def _may_learn(self, frame: Frame, connection: Connection) -> bool:
        """Whether a send that is answered later was let in."""
        access = self.access
        return access is None or (len(frame.body) <= _SIGNED_BYTES_MAX and access.passes(frame, connection))

    def _settle(self, patient: list[bytes], hasty: list[bytes], connection: Connection) -> list[bytes]:
        """Store what was added. Returns the answers that may leave now; the others leave when their time has come."""
        appender = self._store.appender
        if not appender.commit():
            assert appender.refusal is not None, "whoever refuses says why"
            failed_from, refusal = appender.failed_from, appender.refusal
            self._transactions.take_back(failed_from)
            patient = [_corrected(answer, failed_from, refusal) for answer in patient]
            hasty = [_corrected(answer, failed_from, refusal) for answer in hasty]
        if self._durability.is_at_once or not patient:
            return patient + hasty if hasty else patient

        def leave(status: PutStatus) -> None:
            connection.write(patient if status is PutStatus.PUT_OK else [_less_safe(each, status) for each in patient])

        self._durability.when_safe(self._store.log.max_offset, leave)
        return hasty


def _passes(access: AccessControl, data: bytes, place: tuple[int, int, int, int], connection: Connection) -> bool:
    """Whether a send may be taken; a large one, or one whose header cannot be read, is left to the general way."""
    if place[3] - place[2] > _SIGNED_BYTES_MAX:
        return False
    try:
        frame = decode_frame(data, *place)
    except ProtocolError:
        return False
    return access.passes(frame, connection)


def _corrected(answer: bytes, failed_from: int, refusal: Refusal) -> bytes:
    """The answer as it has to be after a failed write: it says itself which message it speaks of."""
    frame = _read_answer(answer)
    if frame.ext is None or (message_id := frame.ext.pop("msgId", None)) is None:
        # The end of a transaction: it may be stored, and its producer will hear so when it says it again.
        return encode_frame(put_status_answer(frame, refusal.status, refusal.remark))
    if decode_offset_id(message_id)[1] < failed_from:
        return answer
    corrected = put_status_answer(frame, refusal.status, refusal.remark)
    corrected.ext = {name: text for name, text in frame.ext.items() if name not in ("queueId", "queueOffset")}
    return encode_frame(corrected)


def _less_safe(answer: bytes, status: PutStatus) -> bytes:
    """The answer to a message that is stored, but not flushed or replicated in time."""
    frame = _read_answer(answer)
    if frame.code != ResponseCode.SUCCESS:
        return answer
    less_safe = put_status_answer(frame, status, "")
    less_safe.ext = frame.ext
    return encode_frame(less_safe)


def _read_answer(answer: bytes) -> Frame:
    places, _ = split_frames(answer)
    return decode_frame(answer, *places[0])
