"""Which JSON body belongs to which request code, and to its answer.

A code that is missing has no body, or one that is not JSON: messages in their stored form (see `records`, `batches`),
`key=value` lines (see `java`), or a registration (see `registration`).
"""

from __future__ import annotations

import msgspec

from skyrocketmq.model.heartbeats import HeartbeatData
from skyrocketmq.model.routes import ClusterInfo, TopicRoute
from skyrocketmq.model.tables import DataVersion, SubscriptionGroupConfig, TopicConfig
from skyrocketmq.wire import bodies_admin as admin
from skyrocketmq.wire import bodies_clients as clients
from skyrocketmq.wire import bodies_tables as tables
from skyrocketmq.wire.codes import RequestCode

__all__ = ["MESSAGE_BODIES", "PROPERTIES_BODIES", "REQUEST_BODIES", "RESPONSE_BODIES"]

REQUEST_BODIES: dict[RequestCode, type[msgspec.Struct]] = {
    RequestCode.HEART_BEAT: HeartbeatData,
    RequestCode.CHECK_CLIENT_CONFIG: clients.CheckClientRequest,
    RequestCode.LOCK_BATCH_MQ: clients.QueueLockRequest,
    RequestCode.UNLOCK_BATCH_MQ: clients.QueueLockRequest,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: clients.ResetOffsets,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
}

RESPONSE_BODIES: dict[RequestCode, type[msgspec.Struct]] = {
    # name server
    RequestCode.REGISTER_BROKER: tables.KvTable,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: TopicRoute,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterInfo,
    RequestCode.GET_KVLIST_BY_NAMESPACE: tables.KvTable,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: tables.TopicList,
    RequestCode.GET_TOPICS_BY_CLUSTER: tables.TopicList,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: tables.TopicList,
    RequestCode.GET_UNIT_TOPIC_LIST: tables.TopicList,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: tables.TopicList,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: tables.TopicList,
    # broker
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: clients.ConsumerIdList,
    RequestCode.LOCK_BATCH_MQ: clients.LockedQueues,
    RequestCode.GET_ALL_TOPIC_CONFIG: tables.TopicConfigTable,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: tables.SubscriptionGroupTable,
    RequestCode.GET_ALL_CONSUMER_OFFSET: tables.ConsumerOffsetTable,
    RequestCode.GET_ALL_DELAY_OFFSET: tables.DelayOffsetTable,
    RequestCode.GET_BROKER_RUNTIME_INFO: tables.KvTable,
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: admin.AccessConfig,
    RequestCode.GET_TOPIC_STATS_INFO: admin.TopicStats,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: admin.ConsumerConnections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: admin.ProducerConnections,
    RequestCode.GET_ALL_PRODUCER_INFO: admin.ProducerTable,
    RequestCode.GET_CONSUME_STATS: admin.ConsumeStats,
    RequestCode.GET_BROKER_CONSUME_STATS: admin.ConsumeStatsList,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: clients.ResetOffsets,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: clients.ConsumerStatus,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: admin.GroupList,
    RequestCode.QUERY_CONSUME_TIME_SPAN: admin.ConsumeTimeSpans,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: tables.TopicList,
    RequestCode.QUERY_CORRECTION_OFFSET: tables.CorrectionOffsets,
    RequestCode.VIEW_BROKER_STATS_DATA: admin.BrokerStats,
    RequestCode.QUERY_CONSUME_QUEUE: admin.ConsumeQueueEntries,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: tables.TopicList,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: admin.GroupSubscription,
    RequestCode.GET_TOPIC_CONFIG: TopicConfig,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupConfig,
    # client
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: clients.ConsumerStatus,
    RequestCode.GET_CONSUMER_RUNNING_INFO: clients.ConsumerRunningInfo,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: clients.ConsumeMessageDirectlyResult,
}

# Messages, in requests: what is sent, checked or replied; in answers: what is pulled or found.
MESSAGE_BODIES = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.PULL_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
    }
)

# `key=value` lines, in requests (25, 318) and in answers (26, 319).
PROPERTIES_BODIES = frozenset(
    {
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.GET_NAMESRV_CONFIG,
    }
)
