"""Bodies that are tables: what brokers and name servers keep, hand to each other, and write into their files."""

from __future__ import annotations

import msgspec

from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.model.tables import DataVersion, MessageQueue, SubscriptionGroupConfig, TopicConfig

__all__ = [
    "BloomFilterData",
    "ConsumerFilter",
    "ConsumerFilterTable",
    "ConsumerFiltersOfTopic",
    "ConsumerOffsetTable",
    "CorrectionOffsets",
    "DelayOffsetTable",
    "KvTable",
    "QueueLockTable",
    "SubscriptionGroupTable",
    "TopicConfigTable",
    "TopicList",
]


class TopicConfigTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """21, and part of 103: a broker's topics."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}


class SubscriptionGroupTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """201: a broker's consumer groups."""

    data_version: DataVersion = DataVersion()
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class ConsumerOffsetTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """43: consumer offsets by `topic@group`, then by queue id."""

    offset_table: dict[str, dict[Int32, Int64]] = {}


class QueueLockTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of no request: which client of a group has which queues for itself, as our brokers keep it over a restart."""

    noted_ms: Int64 = 0  # wall time; 0 where it was not kept yet
    owner_table: dict[str, dict[MessageQueue, str]] = {}


class BloomFilterData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The places of a subscriber in a Bloom filter of so many bits."""

    bit_num: Int32 = 0
    bit_pos: tuple[Int32, ...] = ()


class ConsumerFilter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The expression that a group filters a topic by, since when, and when the group was last there."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: Int64 = 0
    client_version: Int64 = 0
    consumer_group: str = ""
    dead: bool = False
    dead_time: Int64 = 0
    expression: str = ""
    expression_type: str | None = None
    topic: str = ""


class ConsumerFiltersOfTopic(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The filters on one topic, by group."""

    group_filter_data: dict[str, ConsumerFilter] = {}
    topic: str = ""


class ConsumerFilterTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """consumerFilter.json: the filters of all groups that do not filter by tags, by topic."""

    filter_data_by_topic: dict[str, ConsumerFiltersOfTopic] = {}


class DelayOffsetTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """45: the offset reached in the queue of each delay level."""

    offset_table: dict[Int32, Int64] = {}


class CorrectionOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """308: by queue id, the smallest offset among groups."""

    correction_offsets: dict[Int32, Int64] = {}


class KvTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """28, 103, 219: texts by name."""

    table: dict[str, str] = {}


class TopicList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """206, 224, 304, 305, 311 to 313: names of topics (304: of clusters and brokers); 304 adds a broker's address."""

    broker_addr: str | None = None
    topic_list: tuple[str, ...] = ()
