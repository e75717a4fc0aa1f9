"""Which brokers there are, and which of them a request is for.

Rule 1: what changes something goes to masters. A broker whose master is gone is still a target, and fails with an error
        that says so: a change that misses a broker must not look complete.
Rule 2: what only reads asks the master, or a slave where there is no master.
Rule 3: a broker is given by its name (`broker-a`: its master) or by an address (`10.0.0.1:10911`: that one process).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from skyrocketmq.errors import NotFound
from skyrocketmq.model import MASTER_ID, BrokerData, ClusterInfo

__all__ = ["BrokerNode", "Reach", "choose_nodes", "nodes_of"]


@dataclass(frozen=True, slots=True, order=True)
class BrokerNode:
    """One broker process: a master (id 0) or one of its slaves. The address is empty where a master is gone."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID

    def __str__(self) -> str:
        return f"{self.broker_name} ({self.address or 'no master'})" if self.broker_name else self.address


class Reach(Enum):
    """Which processes of a broker are meant."""

    MASTERS = "masters"
    READABLE = "readable"  # the master, else a slave
    ALL = "all"


def nodes_of(brokers: Iterable[BrokerData], reach: Reach) -> list[BrokerNode]:
    """The processes of these brokers, sorted."""
    return sorted(node for broker in brokers for node in _nodes_of(broker, reach))


def _nodes_of(broker: BrokerData, reach: Reach) -> list[BrokerNode]:
    nodes = [
        BrokerNode(broker.cluster, broker.broker_name, broker_id, address)
        for broker_id, address in sorted(broker.broker_addrs.items())
    ]
    if reach is Reach.ALL:
        return nodes
    if reach is Reach.READABLE:
        return nodes[:1]
    return [node for node in nodes if node.is_master] or [BrokerNode(broker.cluster, broker.broker_name, MASTER_ID, "")]


def choose_nodes(info: ClusterInfo, *, broker: str | None, cluster: str | None, reach: Reach) -> list[BrokerNode]:
    """The processes that a request is for: of one broker, of one cluster, or of all. Raises `NotFound`."""
    brokers = list(info.broker_addr_table.values())
    if cluster is not None:
        if cluster not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise NotFound(f"there is no cluster {cluster}: the name servers know {known}")
        brokers = [one for one in brokers if one.broker_name in info.cluster_addr_table[cluster]]
    if broker is None:
        if not brokers:
            raise NotFound("no broker is registered with the name servers: start one, or look at its namesrvAddr")
        return nodes_of(brokers, reach)
    named = [one for one in brokers if one.broker_name == broker]
    if named:
        return nodes_of(named, reach)
    if ":" in broker:
        at_address = [node for node in nodes_of(brokers, Reach.ALL) if node.address == broker]
        # One that is not registered is asked all the same: that may be what somebody wants to find out about.
        return at_address or [BrokerNode("", "", MASTER_ID, broker)]
    known = ", ".join(sorted(one.broker_name for one in brokers)) or "none"
    where = f" in cluster {cluster}" if cluster is not None else ""
    raise NotFound(f"there is no broker {broker}{where}: the name servers know {known}; an address would do as well")
