"""The broker's keys, without those of its store and its network, which are sections of their own inside it.

At the end stand the rules between keys, which Apache's broker applies at its start: what a role says about the id, the
ports that come in threes, the list of name servers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skyrocketmq.config.fields import GIB, Section, conf, part
from skyrocketmq.config.ignored import IgnoredBrokerKeys
from skyrocketmq.config.limits import LimitsConfig
from skyrocketmq.config.machine import host_name, local_address
from skyrocketmq.config.remoting import ClientConfig, ServerConfig
from skyrocketmq.config.replication import ReplicationPortConfig
from skyrocketmq.config.store import BrokerRole, StoreConfig
from skyrocketmq.config.tls import TlsConfig, TlsMode
from skyrocketmq.errors import ConfigError

__all__ = ["BROKER_PORT", "BrokerConfig"]

BROKER_PORT = 10911


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerConfig(Section, title="broker"):
    """A broker's configuration at its start: its own keys, its store's and its network's."""

    # who it is
    rocketmq_home: Path | None = conf(
        "rocketmqHome",
        default=None,
        default_text="$ROCKETMQ_HOME",
        doc="the installation, whose conf directory may hold plain_acl.yml; not needed otherwise",
        aliases=("rocketmq.home.dir",),
        environment=("ROCKETMQ_HOME",),
    )
    namesrv_addresses: tuple[str, ...] = conf(
        "namesrvAddr",
        default=(),
        default_text="$NAMESRV_ADDR",
        doc="name servers as host:port, joined by ;",
        changeable=True,
        aliases=("rocketmq.namesrv.addr",),
        environment=("NAMESRV_ADDR",),
    )
    broker_ip: str = conf(
        "brokerIP1",
        factory=local_address,
        default_text="the machine's address",
        doc="address that clients are told to connect to",
        reserved=True,
    )
    ha_ip: str = conf(
        "brokerIP2",
        factory=local_address,
        default_text="the machine's address",
        doc="address that slaves are told to connect to",
        reserved=True,
    )
    broker_name: str = conf(
        "brokerName",
        factory=host_name,
        default_text="the machine's name",
        doc="name that a master and its slaves share",
    )
    cluster_name: str = conf("brokerClusterName", default="DefaultCluster", doc="cluster the broker belongs to")
    broker_id: int = conf(
        "brokerId", default=0, doc="0 is the master, whatever a master's file says; slaves count from 1", long=True
    )
    permission: int = conf(
        "brokerPermission",
        default=6,
        doc="4 may be read from, 2 may be written to; the sum of what is allowed",
        changeable=True,
        at_least=0,
        at_most=7,
    )
    region_id: str = conf("regionId", default="DefaultRegion", doc="region that is sent to producers", changeable=True)

    # topics and groups
    default_topic_queue_count: int = conf(
        "defaultTopicQueueNums", default=8, doc="most queues of a topic created by sending to it", at_least=1
    )
    auto_create_topic: bool = conf(
        "autoCreateTopicEnable", default=True, doc="sending to an unknown topic creates it", changeable=True
    )
    cluster_topic_enable: bool = conf(
        "clusterTopicEnable", default=True, doc="the topic named like the cluster may be written and read"
    )
    broker_topic_enable: bool = conf(
        "brokerTopicEnable", default=True, doc="the topic named like the broker may be written and read"
    )
    auto_create_group: bool = conf(
        "autoCreateSubscriptionGroup", default=True, doc="an unknown group is created on first use", changeable=True
    )
    trace_topic: str = conf("msgTraceTopicName", default="RMQ_SYS_TRACE_TOPIC", doc="topic of message traces")
    trace_topic_enable: bool = conf("traceTopicEnable", default=False, doc="create the trace topic at start")
    trace_on: bool = conf("traceOn", default=True, doc="told to producers: whether to trace", changeable=True)

    # sends and pulls
    reject_transactions: bool = conf(
        "rejectTransactionMessage", default=False, doc="refuse half messages", changeable=True
    )
    long_polling: bool = conf(
        "longPollingEnable", default=True, doc="hold a pull that finds nothing as long as it asks for", changeable=True
    )
    short_polling_ms: int = conf(
        "shortPollingTimeMills",
        default=1000,
        doc="how long such a pull is held without long polling",
        changeable=True,
        long=True,
        at_least=0,
    )
    notify_consumer_ids_changed: bool = conf(
        "notifyConsumerIdsChangedEnable",
        default=True,
        doc="tell the members of a group when one comes or goes",
        changeable=True,
    )
    subscription_difference_grace_ms: int = conf(
        "inconsistentSubscriptionGraceMillis",
        default=30_000,
        doc="ours: how long members of a group may subscribe to different things before the broker warns of it",
        changeable=True,
        long=True,
        at_least=0,
    )
    slave_read_enable: bool = conf(
        "slaveReadEnable", default=False, doc="send consumers that lag far behind to a slave", changeable=True
    )
    disable_slow_consumers: bool = conf(
        "disableConsumeIfConsumerReadSlowly",
        default=False,
        doc="stop groups that lag more than consumerFallbehindThreshold",
        changeable=True,
    )
    consumer_lag_bytes_max: int = conf(
        "consumerFallbehindThreshold",
        default=16 * GIB,
        doc="lag beyond which disableConsumeIfConsumerReadSlowly acts",
        changeable=True,
        long=True,
        at_least=0,
    )
    start_accept_send_at_ms: int = conf(
        "startAcceptSendRequestTimeStamp",
        default=0,
        doc="sends are refused before this time",
        changeable=True,
        long=True,
    )
    store_reply_messages: bool = conf(
        "storeReplyMessageEnable", default=True, doc="store the replies of request-reply too", changeable=True
    )

    # refusing what has waited too long
    fast_failure: bool = conf(
        "brokerFastFailureEnable", default=True, doc="refuse requests that waited too long", changeable=True
    )
    wait_in_send_queue_ms: int = conf(
        "waitTimeMillsInSendQueue", default=200, doc="a send that waited longer is refused", changeable=True, long=True
    )
    wait_in_pull_queue_ms: int = conf(
        "waitTimeMillsInPullQueue", default=5000, doc="a pull that waited longer is refused", changeable=True, long=True
    )
    wait_in_heartbeat_queue_ms: int = conf(
        "waitTimeMillsInHeartbeatQueue",
        default=31000,
        doc="a heartbeat that waited longer is refused",
        changeable=True,
        long=True,
    )
    wait_in_transaction_queue_ms: int = conf(
        "waitTimeMillsInTransactionQueue",
        default=3000,
        doc="an end of transaction that waited longer is refused",
        changeable=True,
        long=True,
    )

    # filters
    calc_filter_bit_map: bool = conf(
        "enableCalcFilterBitMap", default=False, doc="evaluate SQL filters once, when a message is stored"
    )
    filter_consumers_expected: int = conf(
        "expectConsumerNumUseFilter", default=32, doc="groups with SQL filters the Bloom filter is made for", at_least=1
    )
    bloom_error_percent: int = conf(
        "maxErrorRateOfBloomFilter", default=20, doc="error rate of that Bloom filter", at_least=1, at_most=99
    )
    filter_data_ttl_ms: int = conf(
        "filterDataCleanTimeSpan",
        default=86400000,
        doc="how long the filter of a group that is gone is kept",
        long=True,
        changeable=True,
    )
    filter_retry_messages: bool = conf(
        "filterSupportRetry", default=False, doc="apply a topic's SQL filter to its retried messages", changeable=True
    )
    sql_filter_enable: bool = conf("enablePropertyFilter", default=False, doc="allow SQL92 filters", changeable=True)

    # registration at the name servers
    fetch_namesrv_addresses: bool = conf(
        "fetchNamesrvAddrByAddressServer",
        default=False,
        doc="ask the address server for name servers every 2 minutes, if namesrvAddr is not set",
        reserved=True,
    )
    address_server_domain: str = conf(
        "rmqAddressServerDomain",
        default="jmenv.tbsite.net",
        doc="host of the address server; port 8080 unless it names another",
        aliases=("rocketmq.namesrv.domain",),
        reserved=True,
    )
    address_server_sub_group: str = conf(
        "rmqAddressServerSubGroup",
        default="nsaddr",
        doc="last part of the address server's path",
        aliases=("rocketmq.namesrv.domain.subgroup",),
        reserved=True,
    )
    register_timeout_ms: int = conf(
        "registerBrokerTimeoutMills", default=6000, doc="how long a registration may take", at_least=1
    )
    compressed_register: bool = conf(
        "compressedRegister", default=False, doc="compress the registration", changeable=True
    )
    force_register: bool = conf(
        "forceRegister",
        default=True,
        doc="register each time; false asks first whether the name server is up to date",
        changeable=True,
    )
    register_period_ms: int = conf(
        "registerNameServerPeriod",
        default=30000,
        doc="how often the broker registers; 10000 to 60000",
        clamp=(10_000, 60_000),
    )

    # transactions, locks, offsets
    transaction_timeout_ms: int = conf(
        "transactionTimeOut",
        default=6000,
        doc="a half message is left alone for so long before its producer is asked",
        changeable=True,
        long=True,
    )
    transaction_check_max: int = conf(
        "transactionCheckMax", default=15, doc="a half message is given up after so many checks", changeable=True
    )
    transaction_check_interval_ms: int = conf(
        "transactionCheckInterval",
        default=60000,
        doc="time between two rounds of checks",
        changeable=True,
        long=True,
        at_least=1,
    )
    queue_lock_ttl_ms: int = conf(
        "rocketmq.broker.rebalance.lockMaxLiveTime",
        default=60000,
        doc="how long a consumer's lock on a queue holds without renewal",
        long=True,
        at_least=1,
    )
    offset_flush_interval_ms: int = conf(
        "flushConsumerOffsetInterval",
        default=5000,
        doc="how often consumer offsets are written to their file",
        at_least=1,
    )

    # access control, statistics, logs
    acl_enable: bool = conf(
        "aclEnable",
        default=False,
        doc="check the signature and permissions of requests",
        reserved=True,
    )
    acl_file: Path = conf(
        "rocketmq.acl.plain.file",
        default=Path("conf/plain_acl.yml"),
        doc="accounts and permissions; a relative path is looked for in rocketmqHome and beside the config file",
    )
    acl_white_address_spares_permissions: bool = conf(
        "aclWhiteAddressSparesPermissions",
        default=False,
        doc="ours: from its whiteRemoteAddress an account may use every topic and group, as at Apache's brokers",
        reserved=True,
    )
    acl_requests_in_plain_text: bool = conf(
        "aclRequestsInPlainText",
        default=False,
        doc="ours: take requests about accounts from other machines without TLS; never answer them with secrets",
        reserved=True,
    )
    acl_answers_secrets: bool = conf(
        "aclAnswersSecrets",
        default=False,
        doc="ours: the list of accounts (54) has their secrets, where the connection is encrypted",
        reserved=True,
    )
    access_key: str = conf(
        "brokerAccessKey",
        default="",
        doc="ours: account with which the broker signs what it asks name servers and its master",
        reserved=True,
    )
    secret_key: str = conf("brokerSecretKey", default="", doc="ours: secret of that account", secret=True)
    detail_stats: bool = conf("enableDetailStat", default=True, doc="statistics for each queue too", changeable=True)
    delete_unused_stats: bool = conf(
        "autoDeleteUnusedStats", default=False, doc="drop the statistics of deleted topics and groups", changeable=True
    )
    isolate_logs: bool = conf("isolateLogEnable", default=False, doc="a directory below --log-dir for each broker")

    limits: LimitsConfig = part(LimitsConfig)
    store: StoreConfig = part(StoreConfig)
    replication_port: ReplicationPortConfig = part(ReplicationPortConfig)
    server: ServerConfig = part(lambda: ServerConfig(listen_port=BROKER_PORT))
    client: ClientConfig = part(ClientConfig)
    tls: TlsConfig = part(TlsConfig)
    ignored: IgnoredBrokerKeys = part(IgnoredBrokerKeys)

    def settled(self, given: Collection[str]) -> tuple[BrokerConfig, tuple[str, ...]]:
        """Apply the rules of a broker's start; see `Section.settled`."""
        if self.store.ignored.dledger_enable:
            raise ConfigError(
                "enableDLegerCommitLog = true: DLedger is not supported; take the key out and use brokerRole "
                "SYNC_MASTER with slaves"
            )
        check_addresses("namesrvAddr", self.namesrv_addresses)
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError("brokerAccessKey and brokerSecretKey go together: set both or neither")
        assert self.store.delay_levels_ms is not None  # reading the levels raises what is wrong with them
        broker_id, warnings = _broker_id(self)
        store = replace(self.store, ha_listen_port=_ha_port(self.server.listen_port))
        client = self.client if "useTLS" in given else replace(self.client, use_tls=_uses_tls(self.tls, given))
        _, about_tls = self.tls.settled(given)
        return replace(self, broker_id=broker_id, store=store, client=client), (*warnings, *about_tls)


def check_addresses(key: str, addresses: Sequence[str]) -> None:
    """Raise `ConfigError` unless each of the addresses is `host:port`."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        has_stranger = any(character in ", \t" for character in address)  # a comma is the usual slip for ;
        if not host or has_stranger or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f'{key}: "{address}" is no address; write host:port, several joined by ;')


def _broker_id(config: BrokerConfig) -> tuple[int, tuple[str, ...]]:
    role, broker_id = config.store.broker_role, config.broker_id
    if role is BrokerRole.SLAVE:
        if broker_id <= 0:
            raise ConfigError(f"brokerId = {broker_id}: the id of a SLAVE must be greater than 0")
        return broker_id, ()
    if broker_id == 0:
        return 0, ()
    return 0, (f"brokerId = {broker_id} is ignored: the id of a master ({role}) is 0; for a slave set brokerRole",)


def _ha_port(listen_port: int) -> int:
    """Slaves connect to the port after the clients' one, and the VIP port is the second before it."""
    if listen_port == 0:
        return 0  # any three free ports
    if not 2 < listen_port < 65535:
        raise ConfigError(
            f"listenPort = {listen_port}: listenPort - 2 and listenPort + 1 are used too; choose 3 to 65534"
        )
    return listen_port + 1


def _uses_tls(tls: TlsConfig, given: Collection[str]) -> bool:
    return tls.enable if "tls.enable" in given else tls.server_mode is TlsMode.ENFORCING
