"""The end of a transaction (37), and asking about a given-up one again (323).

| end | answer |
|---|---|
| commit or rollback of what is pending | 0, once that is stored as safely as a send |
| the same again | 0, and nothing is stored: committing twice delivers once |
| the other one, afterwards | 1 |
| unknown | none: the broker asks later |
| no such half message, another group's, other places than the broker's | 1 |
| on a slave | 11 |
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Final

from skyrocketmq.access.accounts import Permission
from skyrocketmq.broker.access import AccessControl
from skyrocketmq.broker.access_rules import ADMIN, SIGNATURE
from skyrocketmq.broker.answers import master_only, read_header, required
from skyrocketmq.broker.durability import Durability
from skyrocketmq.broker.send_rules import put_status_answer
from skyrocketmq.broker.transaction_records import ENDS, HalfMessage, read_half
from skyrocketmq.broker.transactions import Transactions
from skyrocketmq.config import BrokerConfig, BrokerRole, ConfigHolder
from skyrocketmq.errors import BrokerError, MQError, broker_error
from skyrocketmq.model import TransactionType
from skyrocketmq.model.names import TRANSACTION_GIVEN_UP_TOPIC, TRANSACTION_HALF_TOPIC
from skyrocketmq.net import Connection, Request, answers, answers_frames
from skyrocketmq.store import MessageStore, PutResult
from skyrocketmq.store.cold_reads import Pending
from skyrocketmq.store.statuses import PutStatus
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_admin import ResumeCheckHalfMessageHeader
from skyrocketmq.wire.headers_clients import EndTransactionHeader
from skyrocketmq.wire.ids import decode_offset_id
from skyrocketmq.wire.records import scan_record

__all__ = ["TransactionHandlers"]

logger = logging.getLogger(__name__)

UNKNOWN: Final = TransactionType.NONE  # the producer does not know yet
_TOPICS: Final = (TRANSACTION_HALF_TOPIC.encode(), TRANSACTION_GIVEN_UP_TOPIC.encode())


class TransactionHandlers:
    """Answers about transactions."""

    def __init__(
        self,
        transactions: Transactions,
        *,
        config: ConfigHolder[BrokerConfig],
        store: MessageStore,
        durability: Durability,
        access: AccessControl | None = None,
    ) -> None:
        self._transactions = transactions
        self._log = transactions.log
        self._config = config
        self._store = store
        self._durability = durability
        self._access = access

    # ---------------------------------------------------------------------------------------------------------- ending

    @answers_frames(RequestCode.END_TRANSACTION, header=EndTransactionHeader, needs=SIGNATURE)
    def end(self, frame: Frame, connection: Connection) -> Frame | Awaitable[Frame | None] | None:
        """Commit or roll back a half message; no answer is waited for."""
        config = self._config.current
        if config.store.broker_role is BrokerRole.SLAVE:
            raise broker_error(
                ResponseCode.SLAVE_NOT_AVAILABLE, f"{config.broker_name} is a slave here: end it at the master"
            )
        header = read_header(EndTransactionHeader, frame)
        end = _end_of(required(header.commit_or_rollback, "commitOrRollback", frame))
        offset = required(header.tran_state_table_offset, "tranStateTableOffset", frame)
        log_offset = required(header.commit_log_offset, "commitLogOffset", frame)
        required(header.producer_group, "producerGroup", frame)
        if end is UNKNOWN:
            logger.info("producer does not know yet", extra={"group": header.producer_group, "remark": frame.remark})
            return None
        self._store.commit_open()
        self._store.writer.write_pool()
        found = self._transactions.reads.start(self._log.find_half(offset, log_offset))
        if isinstance(found, Pending):
            return self._end_cold(frame, connection, header, found, end)
        return self._end_found(frame, connection, header, found, end)

    async def _end_cold(
        self,
        frame: Frame,
        connection: Connection,
        header: EndTransactionHeader,
        found: Pending[HalfMessage | None],
        end: TransactionType,
    ) -> Frame | None:
        answer = self._end_found(frame, connection, header, await found.finish(), end)
        return answer if isinstance(answer, Frame) else await answer

    def _end_found(
        self,
        frame: Frame,
        connection: Connection,
        header: EndTransactionHeader,
        half: HalfMessage | None,
        end: TransactionType,
    ) -> Frame | Awaitable[Frame]:
        if half is not None and self._access is not None:  # before a remark tells whose it is
            self._access.check_message(frame, connection, half.topic, permission=Permission.PUB)
        half = self._checked(half, header)
        newest = self._log.pending.find(half.transaction)
        if newest is None:
            return self._end_late(frame, half, end)
        return self._answer(frame, self._log.put_end(half, newest, end))

    def _checked(self, half: HalfMessage | None, header: EndTransactionHeader) -> HalfMessage:
        broker = self._config.current.broker_name
        if half is None:
            raise _refused(
                f"there is no half message at offset {header.tran_state_table_offset} of the half queue of broker "
                f"{broker} that lies at {header.commit_log_offset} in its log: it has expired, or came from another one"
            )
        if half.group != (header.producer_group or "").encode():
            raise _refused(
                f"the half message belongs to producer group {half.group.decode('utf-8', 'replace')}, not to "
                f"{header.producer_group}"
            )
        return half

    async def _end_late(self, frame: Frame, half: HalfMessage, end: TransactionType) -> Frame:
        outcome = await self._transactions.end_late(half, end)
        if isinstance(outcome, PutResult):
            answer = self._answer(frame, outcome)
            return answer if isinstance(answer, Frame) else await answer
        if outcome is end:
            # The first answer may have been lost, or a failure: what this one confirms has to be as safe.
            remark = f"this transaction was ended before ({ENDS[end].decode()}): nothing was done"
            status = await self._durability.wait_safe(int(self._store.log.max_offset))
            return (
                frame.reply(remark=remark) if status is PutStatus.PUT_OK else put_status_answer(frame, status, remark)
            )
        if outcome is None:
            raise _refused(
                "this transaction is not pending, and how it ended is not known any more: nothing was done; if it was "
                "given up, let an administrator resume it"
            )
        raise _refused(f"this transaction was ended before, otherwise ({ENDS[outcome].decode()}): nothing was done")

    def _answer(self, frame: Frame, result: PutResult) -> Frame | Awaitable[Frame]:
        answer = put_status_answer(frame, result.status, result.remark)
        if not result.status.is_stored or frame.is_oneway or self._durability.is_at_once:
            return answer
        return self._answer_when_safe(frame, int(self._store.log.max_offset))

    async def _answer_when_safe(self, frame: Frame, end_offset: int) -> Frame:
        return put_status_answer(frame, await self._durability.wait_safe(end_offset), "")

    # -------------------------------------------------------------------------------------------------------- resuming

    @answers(RequestCode.RESUME_CHECK_HALF_MESSAGE, needs=ADMIN)
    async def resume(self, request: Request[ResumeCheckHalfMessageHeader]) -> None:
        """Ask again about a half message that was given up, as often as about a new one."""
        master_only(self._config.current, "resume a transaction")
        half = await self._find(request.required(request.header.msg_id, "msgId"))
        result = await self._transactions.ask_again(half)
        if result is None:
            raise _refused("this transaction is over, or the store takes no messages now: nothing was done")

    async def _find(self, message_id: str) -> HalfMessage:
        try:
            _, log_offset = decode_offset_id(message_id)
            record = await self._store.message_at(log_offset)
            if record is not None:
                scanned = scan_record(record, 0, len(record), check_crc=False)
                if scanned is not None and scanned.topic in _TOPICS:
                    return read_half(record)
        except MQError as error:
            raise _refused(f"msgId {message_id} is no id of a half message: {error}") from error
        raise _refused(
            f"there is no half message with the id {message_id} on broker {self._config.current.broker_name}: take the "
            f"offset id of a message of {TRANSACTION_GIVEN_UP_TOPIC} or {TRANSACTION_HALF_TOPIC}"
        )


def _end_of(number: int) -> TransactionType:
    if number in ENDS:
        return TransactionType(number)
    if number == UNKNOWN:
        return UNKNOWN
    raise _refused(f"commitOrRollback = {number} is none of 8 (commit), 12 (rollback), 0 (unknown)")


def _refused(remark: str) -> BrokerError:
    return broker_error(ResponseCode.SYSTEM_ERROR, remark)
