"""What a transaction is to its producer: its states, what the local code gets, and what became of it; and the requests.

Pure: who sends these is `transaction_producer`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from skyrocketmq.client.send_result import SendResult
from skyrocketmq.errors import IllegalArgument
from skyrocketmq.model import Message, MessageView, TransactionType
from skyrocketmq.model import properties as names
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_clients import CheckTransactionStateHeader, EndTransactionHeader
from skyrocketmq.wire.headers_codec import encode_header
from skyrocketmq.wire.ids import decode_offset_id

__all__ = ["Check", "Execute", "Transaction", "TransactionResult", "TransactionState", "half_message", "state_of"]


class TransactionState(Enum):
    """How a local transaction ended."""

    COMMIT = TransactionType.COMMIT
    ROLLBACK = TransactionType.ROLLBACK
    UNKNOWN = TransactionType.NONE  # not yet: the broker asks later


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction whose message is stored and waits: what the local code gets.

    `id` is what it will be asked by, if its producer dies: keep it with what the local transaction changes.
    """

    message: Message
    sent: SendResult

    @property
    def id(self) -> str:
        return self.sent.msg_id


Execute = Callable[[Transaction, Any], "TransactionState | Awaitable[TransactionState | None] | None"]
Check = Callable[[MessageView], "TransactionState | Awaitable[TransactionState | None] | None"]


class TransactionResult(msgspec.Struct, frozen=True):
    """What became of a transaction.

    `is_confirmed`: the broker has said that it has done what `state` says. If not, it did not hear of it or its answer
    was lost, and it asks the group's `check`. `error` is what the local code raised.
    """

    state: TransactionState
    sent: SendResult
    is_confirmed: bool = False
    error: Exception | None = None

    @property
    def transaction_id(self) -> str:
        return self.sent.msg_id


def state_of(outcome: object) -> TransactionState:
    """What the user's code returned; nothing means that it does not know."""
    if outcome is None:
        return TransactionState.UNKNOWN
    if not isinstance(outcome, TransactionState):
        raise IllegalArgument(f"a local transaction ends with a TransactionState, or None, and not with {outcome!r}")
    return outcome


def half_message(message: Message, group: str) -> Message:
    """The message as the first half of a transaction. `group` is the producer group on the wire."""
    if message.delay_level:
        raise IllegalArgument("a message of a transaction cannot be delayed: send it without a delay level")
    return Message(
        message.topic,
        message.body,
        tags=message.tags,
        keys=message.keys,
        properties=message.properties,
        flag=message.flag,
        wait_for_store=message.wait_for_store,
        system_properties={**message.system_properties, names.TRAN_MSG: "true", names.PGROUP: group},
    )


def end_of_sent(sent: SendResult, state: TransactionState, group: str, *, remark: str | None = None) -> Frame:
    """37: the end of a transaction by the producer that sent it."""
    header = EndTransactionHeader(
        producer_group=group,
        tran_state_table_offset=int(sent.queue_offset),
        commit_log_offset=int(decode_offset_id(sent.offset_msg_id)[1]),
        commit_or_rollback=int(state.value),
        from_transaction_check=False,
        msg_id=sent.msg_id,
        transaction_id=sent.transaction_id or sent.msg_id,
        broker_name=sent.queue.broker_name,
    )
    return Frame(RequestCode.END_TRANSACTION, ext=encode_header(header), remark=remark)


def end_of_checked(
    asked: CheckTransactionStateHeader,
    message: MessageView,
    state: TransactionState,
    group: str,
    *,
    remark: str | None = None,
) -> Frame:
    """37: the end of a transaction by the producer that was asked about it; the places are those of the question."""
    unique_id = message.properties.get(names.UNIQ_KEY) or asked.msg_id or message.msg_id
    header = EndTransactionHeader(
        producer_group=group,
        tran_state_table_offset=asked.tran_state_table_offset,
        commit_log_offset=asked.commit_log_offset,
        commit_or_rollback=int(state.value),
        from_transaction_check=True,
        msg_id=unique_id,
        transaction_id=asked.transaction_id,
        broker_name=asked.broker_name,
    )
    return Frame(RequestCode.END_TRANSACTION, ext=encode_header(header), remark=remark)
