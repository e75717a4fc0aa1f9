"""Apache's keys that have no effect here: known, so that its files start without a warning, and shown as unused.

Each says why. A key that later gets a meaning moves to the section it belongs to; files need not change.
"""

from __future__ import annotations

from dataclasses import dataclass

from skyrocketmq.config.fields import Section, conf
from skyrocketmq.config.machine import processors

__all__ = ["IgnoredBrokerKeys", "IgnoredClientKeys", "IgnoredServerKeys", "IgnoredStoreKeys"]

ONE_LOOP = "one event loop serves all connections"
NO_POOLS = "one event loop serves all requests: no pool to size"
NO_POOL_QUEUES = "one event loop serves all requests: no queue before a pool"
NO_COMMERCE = "counters of a commercial edition"
NO_POOLED_BUFFERS = "Python manages its buffers itself"
NO_DLEDGER = "no DLedger; replication is by master and slaves"
ONE_WRITER = "the store has one writer and needs no lock"
NO_WAITING_DELIVERY = "delayed messages are delivered many at once, and none waits for another"
NOT_AT_APACHE_EITHER = "Apache does not use it either"


@dataclass(frozen=True, kw_only=True, slots=True)
class IgnoredBrokerKeys(Section, title="broker: unused"):
    """Sizes of pools and of the queues before them, and keys of other editions."""

    store_plugins: str = conf(
        "messageStorePlugIn", default="", doc="classes around the store", unused="Java classes cannot be loaded"
    )
    send_threads: int = conf(
        "sendMessageThreadPoolNums",
        factory=lambda: min(processors(), 4),
        default_text="min(processors, 4)",
        doc="threads for sends",
        unused=NO_POOLS,
    )
    put_future_threads: int = conf(
        "putMessageFutureThreadPoolNums",
        factory=lambda: min(processors(), 4),
        default_text="min(processors, 4)",
        doc="threads that finish sends",
        unused=NO_POOLS,
    )
    pull_threads: int = conf(
        "pullMessageThreadPoolNums",
        factory=lambda: 16 + 2 * processors(),
        default_text="16 + 2 x processors",
        doc="threads for pulls",
        unused=NO_POOLS,
    )
    reply_threads: int = conf(
        "processReplyMessageThreadPoolNums",
        factory=lambda: 16 + 2 * processors(),
        default_text="16 + 2 x processors",
        doc="threads for replies",
        unused=NO_POOLS,
    )
    query_threads: int = conf(
        "queryMessageThreadPoolNums",
        factory=lambda: 8 + processors(),
        default_text="8 + processors",
        doc="threads for queries",
        unused=NO_POOLS,
    )
    admin_threads: int = conf(
        "adminBrokerThreadPoolNums", default=16, doc="threads for admin requests", unused=NO_POOLS
    )
    client_manage_threads: int = conf(
        "clientManageThreadPoolNums", default=32, doc="threads for clients that come and go", unused=NO_POOLS
    )
    consumer_manage_threads: int = conf(
        "consumerManageThreadPoolNums", default=32, doc="threads for offsets and members", unused=NO_POOLS
    )
    heartbeat_threads: int = conf(
        "heartbeatThreadPoolNums",
        factory=lambda: min(32, processors()),
        default_text="min(32, processors)",
        doc="threads for heartbeats",
        unused=NO_POOLS,
    )
    end_transaction_threads: int = conf(
        "endTransactionThreadPoolNums",
        factory=lambda: max(8 + 2 * processors(), 4 * min(processors(), 4)),
        default_text="max(8 + 2 x processors, 4 x sendMessageThreadPoolNums)",
        doc="threads for the ends of transactions",
        unused=NO_POOLS,
    )
    send_queue_capacity: int = conf(
        "sendThreadPoolQueueCapacity", default=10000, doc="sends that may wait", unused=NO_POOL_QUEUES
    )
    put_queue_capacity: int = conf(
        "putThreadPoolQueueCapacity", default=10000, doc="ends of sends that may wait", unused=NO_POOL_QUEUES
    )
    pull_queue_capacity: int = conf(
        "pullThreadPoolQueueCapacity", default=100000, doc="pulls that may wait", unused=NO_POOL_QUEUES
    )
    reply_queue_capacity: int = conf(
        "replyThreadPoolQueueCapacity", default=10000, doc="replies that may wait", unused=NO_POOL_QUEUES
    )
    query_queue_capacity: int = conf(
        "queryThreadPoolQueueCapacity", default=20000, doc="queries that may wait", unused=NO_POOL_QUEUES
    )
    client_manager_queue_capacity: int = conf(
        "clientManagerThreadPoolQueueCapacity", default=1000000, doc="clients that may wait", unused=NO_POOL_QUEUES
    )
    consumer_manager_queue_capacity: int = conf(
        "consumerManagerThreadPoolQueueCapacity", default=1000000, doc="offsets that may wait", unused=NO_POOL_QUEUES
    )
    heartbeat_queue_capacity: int = conf(
        "heartbeatThreadPoolQueueCapacity", default=50000, doc="heartbeats that may wait", unused=NO_POOL_QUEUES
    )
    end_transaction_queue_capacity: int = conf(
        "endTransactionPoolQueueCapacity", default=100000, doc="ends that may wait", unused=NO_POOL_QUEUES
    )
    transfer_by_heap: bool = conf(
        "transferMsgByHeap",
        default=True,
        doc="copy messages before they are sent",
        unused="the faster way is taken for each pull; the bytes are the same",
    )
    offset_history_interval_ms: int = conf(
        "flushConsumerOffsetHistoryInterval", default=60000, doc="offset history", unused=NOT_AT_APACHE_EITHER
    )
    filter_server_count: int = conf("filterServerNums", default=0, doc="filter servers", unused=NOT_AT_APACHE_EITHER)
    high_speed_mode: bool = conf("highSpeedMode", default=False, doc="another mode", unused=NOT_AT_APACHE_EITHER)
    commercial_enable: bool = conf("commercialEnable", default=True, doc="count at all", unused=NO_COMMERCE)
    commercial_timer_count: int = conf("commercialTimerCount", default=1, doc="delayed messages", unused=NO_COMMERCE)
    commercial_trans_count: int = conf("commercialTransCount", default=1, doc="transactions", unused=NO_COMMERCE)
    commercial_big_count: int = conf("commercialBigCount", default=1, doc="large messages", unused=NO_COMMERCE)
    commercial_base_count: int = conf("commercialBaseCount", default=1, doc="all messages", unused=NO_COMMERCE)
    delay_hours_max: int = conf("maxDelayTime", default=40, doc="longest delay", unused=NOT_AT_APACHE_EITHER)


@dataclass(frozen=True, kw_only=True, slots=True)
class IgnoredStoreKeys(Section, title="store: unused"):
    """Locks that one writer does not need, queues of deliveries, and DLedger."""

    append_lock_is_mutex: bool = conf(
        "useReentrantLockWhenPutMessage", default=True, doc="kind of lock around an append", unused=ONE_WRITER
    )
    debug_lock: bool = conf(
        "debugLockEnable", default=False, doc="report an append lock held for a second", unused=ONE_WRITER
    )
    delay_async: bool = conf(
        "enableScheduleAsyncDeliver",
        default=False,
        doc="deliver delayed messages without waiting for each other",
        unused=NO_WAITING_DELIVERY,
    )
    delay_pending_max: int = conf(
        "scheduleAsyncDeliverMaxPendingLimit",
        default=2000,
        doc="most such deliveries under way a level",
        unused=NO_WAITING_DELIVERY,
    )
    delay_resend_max: int = conf(
        "scheduleAsyncDeliverMaxResendNum2Blocked",
        default=3,
        doc="failures after which a level waits",
        unused=NO_WAITING_DELIVERY,
    )
    duplication: bool = conf(
        "duplicationEnable",
        default=False,
        doc="dispatch only what is confirmed",
        unused="every stored message is dispatched",
    )
    index_high_water: int = conf(
        "putMsgIndexHightWater", default=600000, doc="index entries that may wait", unused=NOT_AT_APACHE_EITHER
    )
    dledger_enable: bool = conf(
        "enableDLegerCommitLog", default=False, doc="a DLedger log; true is refused at start", unused=NO_DLEDGER
    )
    dledger_path: str | None = conf(
        "storePathDLedgerCommitLog", default=None, doc="directory of the DLedger log", unused=NO_DLEDGER
    )
    dledger_group: str | None = conf("dLegerGroup", default=None, doc="DLedger group", unused=NO_DLEDGER)
    dledger_peers: str | None = conf("dLegerPeers", default=None, doc="DLedger members", unused=NO_DLEDGER)
    dledger_self_id: str | None = conf("dLegerSelfId", default=None, doc="DLedger's own id", unused=NO_DLEDGER)
    dledger_preferred_leader: str | None = conf(
        "preferredLeaderId", default=None, doc="DLedger leader", unused=NO_DLEDGER
    )
    dledger_batch_push: bool = conf(
        "enableBatchPush", default=False, doc="DLedger batches", unused=NO_DLEDGER, aliases=("isEnableBatchPush",)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class IgnoredServerKeys(Section, title="network: server: unused"):
    """Netty's threads and buffers, on the server's side."""

    worker_threads: int = conf("serverWorkerThreads", default=8, doc="threads that decode and encode", unused=ONE_LOOP)
    callback_executor_threads: int = conf(
        "serverCallbackExecutorThreads", default=0, doc="threads for what has no pool of its own", unused=ONE_LOOP
    )
    selector_threads: int = conf("serverSelectorThreads", default=3, doc="threads that read sockets", unused=ONE_LOOP)
    pooled_buffers: bool = conf(
        "serverPooledByteBufAllocatorEnable", default=True, doc="pooled buffers", unused=NO_POOLED_BUFFERS
    )
    epoll: bool = conf(
        "useEpollNativeSelector",
        default=False,
        doc="epoll on Linux",
        unused="the event loop always uses epoll on Linux",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class IgnoredClientKeys(Section, title="network: client: unused"):
    """Netty's threads and buffers, on the client's side."""

    worker_threads: int = conf("clientWorkerThreads", default=4, doc="threads that decode and encode", unused=ONE_LOOP)
    callback_executor_threads: int = conf(
        "clientCallbackExecutorThreads",
        factory=processors,
        default_text="number of processors",
        doc="threads that run callbacks",
        unused=ONE_LOOP,
    )
    channel_not_active_interval_ms: int = conf(
        "channelNotActiveInterval", default=60000, doc="age of dead connections", unused=NOT_AT_APACHE_EITHER, long=True
    )
    pooled_buffers: bool = conf(
        "clientPooledByteBufAllocatorEnable", default=False, doc="pooled buffers", unused=NO_POOLED_BUFFERS
    )
