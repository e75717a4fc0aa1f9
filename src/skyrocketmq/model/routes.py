"""Where topics are: what name servers keep and clients ask for.

Members are declared in alphabetical order, in which Java writes them, so that the quick encoder gives Java's bytes: a
name server writes routes more often than anything else.
"""

from __future__ import annotations

import msgspec

from skyrocketmq.model.numbers import Int32, Int64

__all__ = ["MASTER_ID", "QUEUE_COUNT_MAX", "BrokerData", "ClusterInfo", "QueueData", "TopicRoute"]

MASTER_ID = 0  # the broker id of a master; slaves have larger ones
QUEUE_COUNT_MAX = 65_536  # of a topic at a broker: clients make an object for each, and a slip must not kill them


class QueueData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many queues of a topic one broker (name) has, and what may be done with them."""

    broker_name: str = ""
    perm: Int32 = 0
    read_queue_nums: Int32 = 0
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 0


class BrokerData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker name: a master and its slaves, by broker id."""

    broker_addrs: dict[Int64, str] = {}
    broker_name: str = ""
    cluster: str = ""

    @property
    def master_address(self) -> str | None:
        """The address of the master, if one is alive."""
        return self.broker_addrs.get(MASTER_ID)


class TopicRoute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The brokers and queues of a topic.

    `order_topic_conf` fixes the queues of an ordered topic (`broker-a:4;broker-b:4`); where it is set, clients believe
    it rather than `queue_datas`. `filter_server_table` is by broker address; nobody has filter servers any more.
    """

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All brokers by name, and the names by cluster."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}
