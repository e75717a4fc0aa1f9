"""What a name server knows of brokers and topics, and the rules by which that changes.

Rule 1: nothing here waits or looks at a clock. Time comes in as a number, a connection as an opaque key.
Rule 2: topics come from masters. A slave's registration tells where the slave is, and nothing about topics.
Rule 3: a registration adds and overwrites topics; one that it does not name stays. Topics go with their last broker,
        or when an administrator deletes them.
Rule 4: a broker is as alive as its last word: a registration, or a question whether its data version has changed. Its
        connection speaks for it: when that ends, the broker is gone at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from skyrocketmq.model import BrokerData, ClusterInfo, DataVersion, QueueData, TopicConfig, TopicRoute

__all__ = ["MASTER_ID", "BrokerIdentity", "LiveBroker", "MasterAddresses", "Registration", "RouteTables"]

MASTER_ID = 0
PERM_WRITE = 2
PERM_READ_WRITE = 6
UNIT = 1  # bits of a topic's system flag
UNIT_SUBSCRIPTION = 2

_Numbers = tuple[int, int, int, int]  # read queues, write queues, permission, system flag


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """Who a broker is: a master and its slaves share a name, each has an id and an address of its own."""

    cluster: str
    name: str
    broker_id: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """All that a broker tells about itself. `filter_servers` is `None` where the sender does not speak of them."""

    broker: BrokerIdentity
    ha_address: str
    data_version: DataVersion
    topics: Mapping[str, TopicConfig]
    filter_servers: Sequence[str] | None = None
    fingerprint: bytes = b""  # of the body as received: one with the same need not be read again


@dataclass(slots=True)
class LiveBroker:
    """The last word of one address."""

    heard_ms: int
    data_version: DataVersion
    connection: Hashable
    ha_address: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class MasterAddresses:
    """Where a slave finds its master: for requests, and for replication."""

    address: str
    ha_address: str


class RouteTables:
    """The tables. One thread owns them.

    `generation` grows whenever a route may have changed: what is derived from routes is good while it stands still.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._topics_of: dict[str, set[str]] = {}  # broker name -> topics: a broker goes without a look at all others'
        self._addresses: dict[str, dict[int, str]] = {}  # broker name -> id -> address
        self._cluster_of: dict[str, str] = {}  # broker name -> the cluster it first registered with
        self._clusters: dict[str, dict[str, None]] = {}  # cluster -> names, in order of arrival
        self._live: dict[str, LiveBroker] = {}  # by address
        self._spoken_for: dict[Hashable, set[str]] = {}  # connection -> addresses
        self._filter_servers: dict[str, list[str]] = {}  # by address
        # A broker says the same numbers for most of its topics: equal values are kept once, by name and numbers.
        self._queue_data: dict[str, dict[_Numbers, QueueData]] = {}

    # -- registration

    def register(self, registration: Registration, *, connection: Hashable, now_ms: int) -> MasterAddresses | None:
        """Take in what a broker says; the answer tells a slave where its living master is."""
        broker = registration.broker
        is_new = self._place(broker)
        known = self._live.get(broker.address)
        is_changed = known is None or known.data_version != registration.data_version
        if broker.broker_id == MASTER_ID and (is_new or is_changed):
            self._take_topics(broker.name, registration.topics.values())
        if registration.filter_servers is not None:
            self._take_filter_servers(broker.address, registration.filter_servers)
        self._hear(
            broker.address,
            LiveBroker(
                now_ms, registration.data_version, connection, registration.ha_address, registration.fingerprint
            ),
        )
        return self._master_for(broker)

    def repeat(
        self, broker: BrokerIdentity, ha_address: str, fingerprint: bytes, *, connection: Hashable, now_ms: int
    ) -> tuple[bool, MasterAddresses | None]:
        """Take in a registration whose body is the one this broker sent last, without reading it.

        The first value is false if it is not, and then nothing has been changed.
        """
        known = self._live.get(broker.address)
        if (
            known is None
            or not fingerprint
            or known.fingerprint != fingerprint
            or self._cluster_of.get(broker.name) != broker.cluster
            or self._addresses[broker.name].get(broker.broker_id) != broker.address
        ):
            return False, None
        self._hear(broker.address, LiveBroker(now_ms, known.data_version, connection, ha_address, fingerprint))
        return True, self._master_for(broker)

    def _place(self, broker: BrokerIdentity) -> bool:
        """Put the broker's address under its name and cluster; true if this name and id had none."""
        self._clusters.setdefault(broker.cluster, {})[broker.name] = None
        self._cluster_of.setdefault(broker.name, broker.cluster)
        addresses = self._addresses.setdefault(broker.name, {})
        if addresses.get(broker.broker_id) == broker.address:
            return False
        # A slave that has become the master comes back with its old address under a new id.
        for other in [id_ for id_, address in addresses.items() if address == broker.address]:
            del addresses[other]
        is_new = broker.broker_id not in addresses
        addresses[broker.broker_id] = broker.address
        self.generation += 1
        return is_new

    def _take_topics(self, broker_name: str, topics: Iterable[TopicConfig]) -> None:
        known = self._queue_data.setdefault(broker_name, {})
        table = self._topics
        own = self._topics_of.setdefault(broker_name, set())
        for topic in topics:
            numbers = (topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag)
            data = known.get(numbers) or self._share(broker_name, numbers)
            queues = table.get(topic.topic_name)
            if queues is None:
                table[topic.topic_name] = {broker_name: data}
            else:
                queues[broker_name] = data
            own.add(topic.topic_name)
        self.generation += 1

    def _share(self, broker_name: str, numbers: _Numbers) -> QueueData:
        read_queue_nums, write_queue_nums, perm, sys_flag = numbers
        data = QueueData(
            broker_name=broker_name,
            read_queue_nums=read_queue_nums,
            write_queue_nums=write_queue_nums,
            perm=perm,
            topic_sys_flag=sys_flag,
        )
        return self._queue_data.setdefault(broker_name, {}).setdefault(numbers, data)

    def _take_filter_servers(self, address: str, servers: Sequence[str]) -> None:
        if list(servers) == self._filter_servers.get(address, []):
            return
        if servers:
            self._filter_servers[address] = list(servers)
        else:
            del self._filter_servers[address]
        self.generation += 1

    def _hear(self, address: str, live: LiveBroker) -> None:
        before = self._live.get(address)
        if before is not None and before.connection != live.connection:
            self._spoken_for[before.connection].discard(address)
        self._live[address] = live
        self._spoken_for.setdefault(live.connection, set()).add(address)

    def _master_for(self, broker: BrokerIdentity) -> MasterAddresses | None:
        if broker.broker_id == MASTER_ID:
            return None
        address = self._addresses[broker.name].get(MASTER_ID)
        live = self._live.get(address) if address is not None else None
        return MasterAddresses(address, live.ha_address) if address is not None and live is not None else None

    # -- life and death

    def find_data_version(self, address: str) -> DataVersion | None:
        live = self._live.get(address)
        return live.data_version if live is not None else None

    def touch(self, address: str, *, now_ms: int) -> None:
        """A broker asked whether its data version is known, and it is: that counts as a sign of life."""
        self._live[address].heard_ms = now_ms

    def silent_since(self, deadline_ms: int) -> list[tuple[str, Hashable]]:
        """The addresses last heard before the deadline, with the connections that spoke for them."""
        return [(address, live.connection) for address, live in self._live.items() if live.heard_ms < deadline_ms]

    def unregister(self, broker: BrokerIdentity) -> None:
        """A broker says good-bye."""
        self._forget_live(broker.address)
        if self._addresses.get(broker.name, {}).pop(broker.broker_id, None) is not None:
            self.generation += 1
            self._drop_if_empty(broker.name)

    def forget_address(self, address: str) -> None:
        """A broker has fallen silent, or its connection has ended."""
        self._forget_live(address)
        for name, addresses in list(self._addresses.items()):
            for id_ in [id_ for id_, known in addresses.items() if known == address]:
                del addresses[id_]
                self.generation += 1
            self._drop_if_empty(name)

    def forget_connection(self, connection: Hashable, *, remote_address: str) -> list[str]:
        """A connection has ended: every broker it spoke for is gone. Returns their addresses."""
        addresses = sorted(self._spoken_for.get(connection, ()))
        if not addresses and remote_address in self._live:
            addresses = [remote_address]
        for address in addresses:
            self.forget_address(address)
        self._spoken_for.pop(connection, None)
        return addresses

    def _forget_live(self, address: str) -> None:
        live = self._live.pop(address, None)
        if live is not None:
            speaker = self._spoken_for[live.connection]
            speaker.discard(address)
            if not speaker:
                del self._spoken_for[live.connection]
        if self._filter_servers.pop(address, None) is not None:
            self.generation += 1

    def _drop_if_empty(self, name: str) -> None:
        """A broker name without an address takes its cluster membership and its queues with it."""
        if self._addresses.get(name) != {}:
            return
        del self._addresses[name], self._cluster_of[name]
        for cluster, names in list(self._clusters.items()):
            names.pop(name, None)
            if not names:
                del self._clusters[cluster]
        for topic in list(self._topics_of.get(name, ())):
            self._remove_queues(topic, name)
        self._topics_of.pop(name, None)
        self._queue_data.pop(name, None)
        self.generation += 1

    def _remove_queues(self, topic: str, broker_name: str) -> None:
        """A topic without queues is gone."""
        queues = self._topics[topic]
        del queues[broker_name]
        if not queues:
            del self._topics[topic]
        self._topics_of[broker_name].discard(topic)

    # -- what administrators change

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Forget a topic everywhere, or on the brokers of one cluster."""
        queues = self._topics.get(topic, {})
        doomed = (
            list(queues) if cluster is None else [name for name in self._clusters.get(cluster, ()) if name in queues]
        )
        for broker_name in doomed:
            self._remove_queues(topic, broker_name)
        self.generation += bool(doomed)

    def wipe_write_permission(self, broker_name: str) -> int:
        """Take producers away from a broker. Returns the number of its topics."""
        return self._change_permission(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Let producers back to a broker. Returns the number of its topics."""
        return self._change_permission(broker_name, lambda _: PERM_READ_WRITE)

    def _change_permission(self, broker_name: str, change: Callable[[int], int]) -> int:
        topics = self._topics_of.get(broker_name, set())
        for topic in topics:
            queues = self._topics[topic]
            data = queues[broker_name]
            numbers = (data.read_queue_nums, data.write_queue_nums, change(data.perm), data.topic_sys_flag)
            queues[broker_name] = self._share(broker_name, numbers)
        self.generation += 1
        return len(topics)

    # -- questions

    def find_route(self, topic: str, *, order_conf: str | None = None) -> TopicRoute | None:
        """Where a topic is; `None` unless at least one of its brokers has an address."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        brokers = [self._broker_data(name) for name in queues if name in self._addresses]
        if not brokers:
            return None
        listed = [address for broker in brokers for address in broker.broker_addrs.values()]
        return TopicRoute(
            broker_datas=brokers,
            filter_server_table={a: self._filter_servers[a] for a in listed if a in self._filter_servers},
            order_topic_conf=order_conf,
            queue_datas=list(queues.values()),
        )

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(
            broker_addr_table={name: self._broker_data(name) for name in self._addresses},
            cluster_addr_table={cluster: list(names) for cluster, names in self._clusters.items()},
        )

    def topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = self._clusters.get(cluster, {})
        return [topic for topic, queues in self._topics.items() if not queues.keys().isdisjoint(names)]

    def topics_by_flag(self, *, required: int, forbidden: int = 0) -> list[str]:
        """The topics whose first broker announces these bits of the system flag."""
        return [
            topic
            for topic, queues in self._topics.items()
            if (flag := next(iter(queues.values())).topic_sys_flag) & required == required and not flag & forbidden
        ]

    def cluster_and_broker_names(self) -> list[str]:
        return [*self._clusters, *self._addresses]

    def any_address(self) -> str | None:
        return next((address for ids in self._addresses.values() for address in ids.values()), None)

    def counts(self) -> dict[str, int]:
        """The sizes of the tables, for logs and tests."""
        return {"topics": len(self._topics), "brokers": len(self._live), "clusters": len(self._clusters)}

    def _broker_data(self, name: str) -> BrokerData:
        return BrokerData(cluster=self._cluster_of[name], broker_name=name, broker_addrs=dict(self._addresses[name]))
