"""Bodies between brokers and clients: members of a group, locks, and what a client reports about itself when asked.

Members are declared in alphabetical order, in which Java writes them.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.model.tables import MessageQueue, SubscriptionData

__all__ = [
    "CheckClientRequest",
    "ConsumeMessageDirectlyResult",
    "ConsumeResultName",
    "ConsumeStatus",
    "ConsumerIdList",
    "ConsumerRunningInfo",
    "ConsumerStatus",
    "LockedQueues",
    "ProcessQueueInfo",
    "QueueLockRequest",
    "QueueOffsetItem",
    "ResetOffsetList",
    "ResetOffsets",
]


class ConsumerIdList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """38: the client ids of a group's members."""

    consumer_id_list: tuple[str, ...] = ()


class CheckClientRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """46: a subscription that a client is about to use; the broker says whether its expression can be used."""

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None


class QueueLockRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """41, 42: the queues that a client of a group wants to have for itself, or gives back."""

    client_id: str | None = None
    consumer_group: str | None = None
    mq_set: tuple[MessageQueue, ...] = ()


class LockedQueues(msgspec.Struct, frozen=True, kw_only=True):
    """41: the queues, of those asked for, that the client now has."""

    lock_ok_mq_set: tuple[MessageQueue, ...] = msgspec.field(default=(), name="lockOKMQSet")


class ResetOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """220, 222: new offsets by queue."""

    offset_table: dict[MessageQueue, Int64] = {}


class QueueOffsetItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue with its offset, flat."""

    broker_name: str = ""
    offset: Int64 = 0
    queue_id: Int32 = 0
    topic: str = ""


class ResetOffsetList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """220 as C++ clients get it, whose JSON reader knows no objects as keys."""

    offset_table: tuple[QueueOffsetItem, ...] = ()


class ConsumerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """221: a client's offsets by queue (`message_queue_table`); 223: those of several clients (`consumer_table`)."""

    consumer_table: dict[str, dict[MessageQueue, Int64]] = {}
    message_queue_table: dict[MessageQueue, Int64] = {}


class ConsumeResultName(Enum):
    """309: what the listener made of a message. In Java's order: enums may travel by position."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """309: how a consumer handled the message it was given."""

    auto_commit: bool = True
    consume_result: ConsumeResultName | None = None
    order: bool = False
    remark: str | None = None
    spent_time_ms: Int64 = msgspec.field(default=0, name="spentTimeMills")


class ProcessQueueInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """307: what a consumer has of one queue in memory."""

    cached_msg_count: Int32 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_size_mib: Int32 = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    commit_offset: Int64 = 0
    dropped: bool = msgspec.field(default=False, name="droped")
    last_consume_timestamp: Int64 = 0
    last_lock_timestamp: Int64 = 0
    last_pull_timestamp: Int64 = 0
    locked: bool = False
    transaction_msg_count: Int32 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_min_offset: Int64 = 0
    try_unlock_times: Int64 = 0


class ConsumeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """307: rates and times of one topic, as the consumer measures them; times in milliseconds."""

    consume_failed_msgs: Int64 = 0
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_time_ms: float = msgspec.field(default=0.0, name="consumeRT")
    pull_time_ms: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")


class ConsumerRunningInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """307: how a consumer is doing. `properties` holds its configuration and a few facts under `PROP_` names."""

    jstack: str | None = None
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    properties: dict[str, str] = {}
    status_table: dict[str, ConsumeStatus] = {}
    subscription_set: tuple[SubscriptionData, ...] = ()
