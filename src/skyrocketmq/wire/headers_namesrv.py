"""Headers of the requests that a name server answers, and of its answers."""

from __future__ import annotations

from skyrocketmq.model.numbers import Int32, Int64
from skyrocketmq.wire.headers_codec import Header

__all__ = [
    "AddWritePermAnswer",
    "BrokerNameHeader",
    "DeleteTopicInNamesrvHeader",
    "GetKvConfigAnswer",
    "GetRouteInfoHeader",
    "GetTopicsByClusterHeader",
    "KvKeyHeader",
    "KvNamespaceHeader",
    "PutKvConfigHeader",
    "QueryDataVersionAnswer",
    "QueryDataVersionHeader",
    "RegisterBrokerAnswer",
    "RegisterBrokerHeader",
    "UnregisterBrokerHeader",
    "WipeWritePermAnswer",
]


class RegisterBrokerHeader(Header):
    """103: who the broker is. `body_crc32` is the masked checksum of the body as sent, 0 for unchecked."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    ha_server_addr: str | None = None
    broker_id: Int64 | None = None
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerAnswer(Header):
    """103: for a slave, where its master listens, as long as that is alive."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerHeader(Header):
    """104: the broker that goes."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    broker_id: Int64 | None = None


class QueryDataVersionHeader(Header):
    """322: the broker that asks whether its table is the one the name server has; the version is in the body."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    broker_id: Int64 | None = None


class QueryDataVersionAnswer(Header):
    """322: whether a registration is needed."""

    changed: bool | None = None


class GetRouteInfoHeader(Header):
    """105: a topic; and whether the client wants standard JSON whatever its version."""

    topic: str | None = None
    accept_standard_json_only: bool | None = None


class BrokerNameHeader(Header):
    """205, 327: the broker whose topics lose, or get back, the permission to write."""

    broker_name: str | None = None


class WipeWritePermAnswer(Header):
    """205: of how many topics the permission was taken."""

    wipe_topic_count: Int32 | None = None


class AddWritePermAnswer(Header):
    """327: to how many topics the permission was given."""

    add_topic_count: Int32 | None = None


class DeleteTopicInNamesrvHeader(Header):
    """216: the topic that is forgotten, everywhere or in one cluster."""

    topic: str | None = None
    cluster_name: str | None = None


class GetTopicsByClusterHeader(Header):
    """224: the cluster whose topics are listed."""

    cluster: str | None = None


class PutKvConfigHeader(Header):
    """100: a value to keep."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class KvKeyHeader(Header):
    """101, 102: the key that is read or deleted."""

    namespace: str | None = None
    key: str | None = None


class GetKvConfigAnswer(Header):
    """101: the value of the key."""

    value: str | None = None


class KvNamespaceHeader(Header):
    """219: the namespace whose keys are listed."""

    namespace: str | None = None
