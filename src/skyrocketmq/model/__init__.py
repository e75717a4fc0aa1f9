"""The values of the domain, frozen: what brokers, clients, name servers and tools talk about. Pure.

A value whose shape on the wire is the same is an `msgspec.Struct` that `wire` reads and writes as it is: attributes are
in snake case, the names on the wire in camel case. What only exists on the wire lives in `wire`.

Reading order: `numbers`, `tables` (topics, queues, groups, subscriptions), `routes`, `heartbeats`; for messages
`offsets`, `names`, `properties`, `flags`, `hosts`, `message`.
"""

from __future__ import annotations

from skyrocketmq.model.flags import CompressionType, TransactionType
from skyrocketmq.model.heartbeats import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
)
from skyrocketmq.model.message import Message, MessageView
from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.model.offsets import LogOffset, QueueOffset
from skyrocketmq.model.routes import MASTER_ID, QUEUE_COUNT_MAX, BrokerData, ClusterInfo, QueueData, TopicRoute
from skyrocketmq.model.tables import (
    SQL92_EXPRESSION,
    TAG_EXPRESSION,
    DataVersion,
    MessageQueue,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicFilterType,
)

__all__ = [
    "MASTER_ID",
    "QUEUE_COUNT_MAX",
    "SQL92_EXPRESSION",
    "TAG_EXPRESSION",
    "BrokerData",
    "ClusterInfo",
    "CompressionType",
    "ConsumeFromWhere",
    "ConsumeType",
    "ConsumerData",
    "DataVersion",
    "HeartbeatData",
    "Int32",
    "Int64",
    "LogOffset",
    "Message",
    "MessageModel",
    "MessageQueue",
    "MessageView",
    "ProducerData",
    "QueueData",
    "QueueOffset",
    "SubscriptionData",
    "SubscriptionGroupConfig",
    "TopicConfig",
    "TopicFilterType",
    "TopicRoute",
    "TransactionType",
]
