"""The send path's way with transactions: half messages and ends that need no decision.

A hot module: what it takes is added to the batch of the received buffer like any plain send. What it does not recognise
at once (None) takes the general way, so it may be strict: it has to be right only about what it accepts.

Rule 1: of half messages those are taken whose like was accepted in the general way before: same topic and queue, same
properties but for the unique id. Of ends those whose transaction is pending and lies in memory.
Rule 2: nothing here is asked of plain sends; the send path comes here with frames that are none.
"""

from __future__ import annotations

from typing import Final

from skyrocketmq.broker.send_headers import SendHeaders
from skyrocketmq.broker.transaction_records import HalfMessage
from skyrocketmq.broker.transactions import Transactions
from skyrocketmq.config import BrokerConfig, ConfigHolder
from skyrocketmq.errors import ProtocolError
from skyrocketmq.model import TransactionType
from skyrocketmq.net import Connection
from skyrocketmq.net.dispatch import encode_reply
from skyrocketmq.store import REFUSED
from skyrocketmq.store.cold_reads import Pending
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import ONEWAY_BIT, RESPONSE_BIT, Frame, decode_frame

__all__ = ["TransactionPath"]

_HALF_MARK: Final = b"TRAN_MSG"
_JSON_END: Final = b'"code":37,'
_BINARY_END: Final = b"\x00\x25"
_BINARY_WORD: Final = 0x01000000
_ENDS: Final = {"8": TransactionType.COMMIT, "12": TransactionType.ROLLBACK}
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_END: Final = int(RequestCode.END_TRANSACTION)


class TransactionPath:
    """Adds transactions to the open batch of the store's appender."""

    def __init__(self, transactions: Transactions, headers: SendHeaders, config: ConfigHolder[BrokerConfig]) -> None:
        self.take_back = transactions.log.take_back
        self._log = transactions.log
        self._reads = transactions.reads
        self._headers = headers
        self._cluster = b""
        self._is_open = False
        self._body_bytes_max = 0
        self.apply_config(config.current)

    def apply_config(self, config: BrokerConfig) -> None:
        self._cluster = config.cluster_name.encode()
        self._is_open = not config.reject_transactions
        self._body_bytes_max = config.store.message_bytes_max

    def add(self, data: bytes, place: tuple[int, int, int, int], connection: Connection) -> bytes | None:
        """Add what a frame asks for: the answer for when it is stored, empty if none is wanted. None: not taken."""
        word, header_at, body_at, _ = place
        if word < _BINARY_WORD:
            is_end = data.find(_JSON_END, header_at, body_at) >= 0
        else:
            is_end = data.startswith(_BINARY_END, header_at)
        if not is_end and data.find(_HALF_MARK, header_at, body_at) < 0:
            return None
        try:
            frame = decode_frame(data, *place)
            if frame.flag & RESPONSE_BIT or frame.ext is None:
                return None
            if frame.code == _END:
                return self._add_end(frame)
            return self._add_half(frame, connection) if frame.code == _SEND and self._is_open else None
        except (KeyError, ValueError, TypeError, AttributeError, ProtocolError):
            return None  # a field is missing, or is something else

    def _add_half(self, frame: Frame, connection: Connection) -> bytes | None:
        ext = frame.ext
        assert ext is not None, "looked at before"
        topic = self._headers.find_topic(ext["b"] or "")
        properties = (ext["i"] or "").encode()
        queue_id = _number(ext["e"], 32)
        _number(ext.get("d") or "0", 32)  # of no use here, but no send without it being a number
        _number(ext.get("l") or "0", 32)
        if topic is None or (ext.get("m") or "false") != "false" or len(frame.body) > self._body_bytes_max:
            return None
        queue = topic.find_queue(queue_id)
        if queue is None or not self._log.records.knows_half(topic.name, queue_id, properties, cluster=self._cluster):
            return None
        log_offset, offset = self._log.add_half(
            topic.name,
            queue_id,
            properties,
            frame.body,
            _number(ext["h"], 32),
            _number(ext["f"], 32) | topic.extra_sys_flag,
            _number(ext["g"], 64),
            connection.peer_host,
            _number(ext.get("j") or "0", 32),
            self._cluster,
        )
        if log_offset == REFUSED:
            return None
        if frame.flag & ONEWAY_BIT:
            return b""
        return queue.answer(frame, log_offset, offset)

    def _add_end(self, frame: Frame) -> bytes | None:
        ext = frame.ext
        assert ext is not None, "looked at before"
        end = _ENDS.get(ext["commitOrRollback"] or "")
        if end is None:
            return None
        steps = self._log.find_half(_number(ext["tranStateTableOffset"], 64), _number(ext["commitLogOffset"], 64))
        half: HalfMessage | Pending[HalfMessage | None] | None = self._reads.start(steps)
        if half is None or isinstance(half, Pending):
            return None
        newest = self._log.pending.find(half.transaction)
        if newest is None or half.kind.group != (ext["producerGroup"] or "").encode():
            return None
        if len(half.body) > self._body_bytes_max or not self._log.add_end(half, newest, end):
            return None
        return b"" if frame.flag & ONEWAY_BIT else encode_reply(frame, frame.reply())


def _number(text: str | None, bits: int) -> int:
    """A number in the form in which everybody writes it; `ValueError` for any other."""
    value = int(text or "")
    if str(value) != text or value.bit_length() >= bits:
        raise ValueError(f"{text!r} is left to the general way")
    return value
