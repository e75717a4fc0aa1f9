"""Headers between brokers and the clients they know: leaving, members of a group, transactions, and what a broker asks
of a client (39, 40, 220, 221, 307, 309)."""

from __future__ import annotations

import msgspec

from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.wire.headers_codec import Header

__all__ = [
    "CheckTransactionStateHeader",
    "ConsumeMessageDirectlyHeader",
    "ConsumerGroupHeader",
    "ConsumerRunningInfoHeader",
    "ConsumerStatusHeader",
    "EndTransactionHeader",
    "ResetOffsetHeader",
    "UnregisterClientHeader",
]


class UnregisterClientHeader(Header):
    """35: a client leaves a producer group, a consumer group, or both."""

    client_id: str | None = msgspec.field(default=None, name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupHeader(Header):
    """38, 40, 203: a consumer group: whose members are asked for, or have changed."""

    consumer_group: str | None = None


class EndTransactionHeader(Header):
    """37: what becomes of a half message, which is named by its places in the half topic and in the commit log."""

    producer_group: str | None = None
    tran_state_table_offset: Int64 | None = None
    commit_log_offset: Int64 | None = None
    commit_or_rollback: Int32 | None = None  # 8 commit, 12 rollback, 0 unknown
    from_transaction_check: bool | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class CheckTransactionStateHeader(Header):
    """39, broker to producer: what became of this half message? The message is the body."""

    tran_state_table_offset: Int64 | None = None
    commit_log_offset: Int64 | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = msgspec.field(default=None, name="bname")


class ResetOffsetHeader(Header):
    """222, admin to broker: put a group back (or forward) to a time; 220, broker to consumer: the offsets that gave."""

    topic: str | None = None
    group: str | None = None
    timestamp: Int64 | None = None
    is_force: bool = False


class ConsumerStatusHeader(Header):
    """223, admin to broker: how far are the members of a group; 221, broker to consumer: how far are you."""

    topic: str | None = None
    group: str | None = None
    client_addr: str | None = None  # in fact a client id


class ConsumerRunningInfoHeader(Header):
    """307, relayed by the broker: how one consumer is doing."""

    consumer_group: str | None = None
    client_id: str | None = None
    jstack_enable: bool = False


class ConsumeMessageDirectlyHeader(Header):
    """309, relayed by the broker, which adds its name and the message: let one consumer handle this message now."""

    consumer_group: str | None = None
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
