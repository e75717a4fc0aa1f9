"""Which header belongs to which request code, and to its answer.

Both tables have an entry for every code: `NoFields` where nothing is carried. The structs are in `headers_namesrv`,
`headers_send`, `headers_pull`, `headers_clients` and `headers_admin`; the conversions in `headers_codec`.
"""

from __future__ import annotations

from skyrocketmq.wire import headers_admin as admin
from skyrocketmq.wire import headers_clients as clients
from skyrocketmq.wire import headers_namesrv as namesrv
from skyrocketmq.wire import headers_pull as pull
from skyrocketmq.wire import headers_send as send
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.headers_codec import Ext, Header, NoFields, decode_header, encode_header

__all__ = ["REQUEST_HEADERS", "RESPONSE_HEADERS", "Ext", "Header", "NoFields", "decode_header", "encode_header"]

REQUEST_HEADERS: dict[RequestCode, type[Header]] = dict.fromkeys(RequestCode, NoFields) | {
    # messages
    RequestCode.SEND_MESSAGE: send.SendMessageHeader,
    RequestCode.SEND_MESSAGE_V2: send.SendMessageHeaderV2,
    RequestCode.SEND_BATCH_MESSAGE: send.SendMessageHeaderV2,
    RequestCode.SEND_REPLY_MESSAGE: send.SendMessageHeader,
    RequestCode.SEND_REPLY_MESSAGE_V2: send.SendMessageHeaderV2,
    RequestCode.CONSUMER_SEND_MSG_BACK: send.SendBackHeader,
    RequestCode.PULL_MESSAGE: pull.PullMessageHeader,
    RequestCode.QUERY_MESSAGE: pull.QueryMessageHeader,
    RequestCode.VIEW_MESSAGE_BY_ID: pull.ViewMessageHeader,
    # offsets
    RequestCode.QUERY_CONSUMER_OFFSET: pull.QueryConsumerOffsetHeader,
    RequestCode.UPDATE_CONSUMER_OFFSET: pull.UpdateConsumerOffsetHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: pull.SearchOffsetHeader,
    RequestCode.GET_MAX_OFFSET: pull.QueueHeader,
    RequestCode.GET_MIN_OFFSET: pull.QueueHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: pull.QueueHeader,
    # clients and groups
    RequestCode.UNREGISTER_CLIENT: clients.UnregisterClientHeader,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: clients.ConsumerGroupHeader,
    RequestCode.END_TRANSACTION: clients.EndTransactionHeader,
    # what a broker asks of a client
    RequestCode.CHECK_TRANSACTION_STATE: clients.CheckTransactionStateHeader,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: clients.ConsumerGroupHeader,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: clients.ResetOffsetHeader,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: clients.ConsumerStatusHeader,
    RequestCode.GET_CONSUMER_RUNNING_INFO: clients.ConsumerRunningInfoHeader,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: clients.ConsumeMessageDirectlyHeader,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: send.PushReplyMessageHeader,
    # name server
    RequestCode.PUT_KV_CONFIG: namesrv.PutKvConfigHeader,
    RequestCode.GET_KV_CONFIG: namesrv.KvKeyHeader,
    RequestCode.DELETE_KV_CONFIG: namesrv.KvKeyHeader,
    RequestCode.GET_KVLIST_BY_NAMESPACE: namesrv.KvNamespaceHeader,
    RequestCode.REGISTER_BROKER: namesrv.RegisterBrokerHeader,
    RequestCode.UNREGISTER_BROKER: namesrv.UnregisterBrokerHeader,
    RequestCode.QUERY_DATA_VERSION: namesrv.QueryDataVersionHeader,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: namesrv.GetRouteInfoHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: namesrv.BrokerNameHeader,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: namesrv.BrokerNameHeader,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: namesrv.DeleteTopicInNamesrvHeader,
    RequestCode.GET_TOPICS_BY_CLUSTER: namesrv.GetTopicsByClusterHeader,
    # administration of a broker
    RequestCode.UPDATE_AND_CREATE_TOPIC: admin.CreateTopicHeader,
    RequestCode.DELETE_TOPIC_IN_BROKER: admin.TopicHeader,
    RequestCode.GET_TOPIC_STATS_INFO: admin.TopicHeader,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: admin.TopicHeader,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: admin.CreateAccessConfigHeader,
    RequestCode.DELETE_ACL_CONFIG: admin.DeleteAccessConfigHeader,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: admin.UpdateWhiteAddressesHeader,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: admin.DeleteSubscriptionGroupHeader,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: clients.ConsumerGroupHeader,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: admin.ProducerGroupHeader,
    RequestCode.GET_CONSUME_STATS: admin.GetConsumeStatsHeader,
    RequestCode.GET_BROKER_CONSUME_STATS: admin.GetBrokerConsumeStatsHeader,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: clients.ResetOffsetHeader,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: clients.ConsumerStatusHeader,
    RequestCode.QUERY_CONSUME_TIME_SPAN: admin.TopicOfGroupHeader,
    RequestCode.QUERY_CORRECTION_OFFSET: admin.CorrectionOffsetHeader,
    RequestCode.CLONE_GROUP_OFFSET: admin.CloneGroupOffsetHeader,
    RequestCode.VIEW_BROKER_STATS_DATA: admin.BrokerStatsHeader,
    RequestCode.QUERY_CONSUME_QUEUE: admin.QueryConsumeQueueHeader,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: admin.ResumeCheckHalfMessageHeader,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: admin.GroupHeader,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: admin.TopicOfGroupHeader,
    RequestCode.GET_TOPIC_CONFIG: admin.TopicHeader,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: admin.GroupHeader,
}

RESPONSE_HEADERS: dict[RequestCode, type[Header]] = dict.fromkeys(RequestCode, NoFields) | {
    RequestCode.SEND_MESSAGE: send.SendMessageAnswer,
    RequestCode.SEND_MESSAGE_V2: send.SendMessageAnswer,
    RequestCode.SEND_BATCH_MESSAGE: send.SendMessageAnswer,
    RequestCode.SEND_REPLY_MESSAGE: send.SendMessageAnswer,
    RequestCode.SEND_REPLY_MESSAGE_V2: send.SendMessageAnswer,
    RequestCode.PULL_MESSAGE: pull.PullMessageAnswer,
    RequestCode.QUERY_MESSAGE: pull.QueryMessageAnswer,
    RequestCode.QUERY_CONSUMER_OFFSET: pull.OffsetAnswer,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: pull.OffsetAnswer,
    RequestCode.GET_MAX_OFFSET: pull.OffsetAnswer,
    RequestCode.GET_MIN_OFFSET: pull.OffsetAnswer,
    RequestCode.GET_EARLIEST_MSG_STORETIME: pull.EarliestStoreTimeAnswer,
    RequestCode.GET_KV_CONFIG: namesrv.GetKvConfigAnswer,
    RequestCode.REGISTER_BROKER: namesrv.RegisterBrokerAnswer,
    RequestCode.QUERY_DATA_VERSION: namesrv.QueryDataVersionAnswer,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: namesrv.WipeWritePermAnswer,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: namesrv.AddWritePermAnswer,
    RequestCode.GET_BROKER_CONFIG: admin.GetBrokerConfigAnswer,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: admin.BrokerAclInfoAnswer,
}
