"""Bodies of administration: statistics, connections, consume queues, access control.

Members are declared in alphabetical order, in which Java writes them.
"""

from __future__ import annotations

import msgspec

from skyrocketmq.model.heartbeats import ConsumeFromWhere, ConsumeType, MessageModel
from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.model.tables import MessageQueue, SubscriptionData

__all__ = [
    "AccessConfig",
    "AccountConfig",
    "BrokerStats",
    "BrokerStatsItem",
    "ClientConnection",
    "ConsumeOffsets",
    "ConsumeQueueEntries",
    "ConsumeQueueEntry",
    "ConsumeStats",
    "ConsumeStatsList",
    "ConsumeTimeSpan",
    "ConsumeTimeSpans",
    "ConsumerConnections",
    "GroupList",
    "GroupSubscription",
    "OffsetMovedEvent",
    "ProducerConnections",
    "ProducerInfo",
    "ProducerTable",
    "QueueOffsets",
    "TopicStats",
]


class QueueOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """202: the bounds of one queue."""

    last_update_timestamp: Int64 = 0
    max_offset: Int64 = 0
    min_offset: Int64 = 0


class TopicStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """202: the bounds of every queue of a topic."""

    offset_table: dict[MessageQueue, QueueOffsets] = {}


class ConsumeOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """208: how far a group is in one queue; `last_timestamp` is the store time of the last message it consumed."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0


class ConsumeStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """208: how far a group is."""

    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, ConsumeOffsets] = {}


class ConsumeStatsList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """317: how far each group of a broker is: one map a group, with its topics in a list."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    total_diff: Int64 = 0


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """203, 204: a connected client. The language is given by name."""

    client_addr: str | None = None
    client_id: str | None = None
    language: str | None = None
    version: Int32 = 0


class ConsumerConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """203: the members of a consumer group and what they subscribe to."""

    connection_set: tuple[ClientConnection, ...] = ()
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = {}


class ProducerConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """204: the members of a producer group."""

    connection_set: tuple[ClientConnection, ...] = ()


class ProducerInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """328: a producer; the address begins with a slash, as Java prints it."""

    client_id: str | None = None
    language: str | None = None
    last_update_timestamp: Int64 = 0
    remote_ip: str | None = msgspec.field(default=None, name="remoteIP")
    version: Int32 = 0


class ProducerTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """328: all producers of a broker by group."""

    data: dict[str, list[ProducerInfo]] = {}


class GroupList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """300: the groups that consume a topic."""

    group_list: tuple[str, ...] = ()


class GroupSubscription(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """345: what a group subscribes to of a topic; nothing while no member of it is connected."""

    group: str | None = None
    subscription_data: SubscriptionData | None = None
    topic: str | None = None


class ConsumeTimeSpan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """303: the times at which a queue's messages were stored, and how late the group is.

    The texts repeat the numbers in the writer's local time; Java writes them and nobody reads them.
    """

    consume_timestamp: Int64 = msgspec.field(default=0, name="consumeTimeStamp")
    consume_timestamp_text: str | None = msgspec.field(default=None, name="consumeTimeStampStr")
    delay_time: Int64 = 0
    max_timestamp: Int64 = msgspec.field(default=0, name="maxTimeStamp")
    max_timestamp_text: str | None = msgspec.field(default=None, name="maxTimeStampStr")
    message_queue: MessageQueue | None = None
    min_timestamp: Int64 = msgspec.field(default=0, name="minTimeStamp")
    min_timestamp_text: str | None = msgspec.field(default=None, name="minTimeStampStr")


class ConsumeTimeSpans(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """303: the same for every queue of a topic."""

    consume_time_span_set: tuple[ConsumeTimeSpan, ...] = ()


class BrokerStatsItem(msgspec.Struct, frozen=True, kw_only=True):
    """315: a sum, its rate a second, and the average of an occurrence."""

    average: float = msgspec.field(default=0.0, name="avgpt")
    sum: Int64 = 0
    tps: float = 0.0


class BrokerStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """315: one statistic over the last minute, hour and day."""

    stats_day: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_minute: BrokerStatsItem | None = None


class ConsumeQueueEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """321: an entry of a consume queue; `eval` is whether the group's filter lets it through."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    log_offset: Int64 = msgspec.field(default=0, name="physicOffset")
    size_bytes: Int32 = msgspec.field(default=0, name="physicSize")
    tags_code: Int64 = 0


class ConsumeQueueEntries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """321: some entries of a consume queue, its bounds, and the filter that was applied."""

    filter_data: str | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
    queue_data: list[ConsumeQueueEntry] = []
    subscription_data: SubscriptionData | None = None


class OffsetMovedEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a broker stores as a message when a pull asked for an offset that does not exist."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_new: Int64 = 0
    offset_request: Int64 = 0


class AccountConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """54: an account and what it may do; permissions are `name=PUB|SUB`."""

    access_key: str | None = None
    admin: bool = False
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] = []
    secret_key: str | None = None
    topic_perms: list[str] = []
    white_remote_address: str | None = None

    def __repr__(self) -> str:
        return f"AccountConfig(access_key={self.access_key!r}, admin={self.admin}, ...)"  # no secret gets into a log


class AccessConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """54: a broker's access control: addresses that need no account, and the accounts."""

    global_white_addrs: list[str] = []
    plain_access_configs: list[AccountConfig] = []
