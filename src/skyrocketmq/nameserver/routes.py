"""What a name server knows of brokers and topics, and the rules by which that changes.

Rule 1: nothing here waits or looks at a clock. Time comes in as a number, a connection as an opaque key.
Rule 2: topics come from masters. A slave's registration tells where the slave is, and nothing about topics.
Rule 3: a registration adds and overwrites topics; one that it does not name stays. Topics go with their last broker,
        or when an administrator deletes them.
        The topics of a broker that is gone are in no route from then on; of very many the rest is swept away in steps.
Rule 4: a broker is as alive as its last word: a registration, or a question whether its data version has changed. Its
        connection speaks for it: when that ends, the broker is gone at once.
Rule 5: nothing that is listed for everybody grows with what one broker says: names are of limited length, a name is in
        a few clusters, and a connection speaks for a limited number of brokers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from skyrocketmq.model import QUEUE_COUNT_MAX, BrokerData, ClusterInfo, DataVersion, QueueData, TopicConfig, TopicRoute

__all__ = ["MASTER_ID", "BrokerIdentity", "LiveBroker", "MasterAddresses", "Registration", "RouteTables"]

MASTER_ID = 0
PERM_WRITE = 2
PERM_READ_WRITE = 6
UNIT = 1  # bits of a topic's system flag
UNIT_SUBSCRIPTION = 2

TOPICS_A_STEP = 512  # taken in, changed or swept away before others have their turn
TOPIC_CHARACTERS_MAX = 512  # no broker stores a message under a longer name; such a topic is ignored
CLUSTERS_OF_A_NAME_MAX = 16  # the one that it shows, and the latest; a broker that is alive repeats its own

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

    heard_s: float  # monotonic: a clock that is set makes nobody silent
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
        self._leftovers: deque[tuple[str, set[str]]] = (
            deque()
        )  # of brokers that are gone: what `_topics` may still have
        self._addresses: dict[str, dict[int, str]] = {}  # broker name -> id -> address
        self._names_at: dict[str, dict[str, int]] = {}  # address -> broker name -> id: the same from the other side
        self._clusters_of: dict[str, dict[str, None]] = {}  # broker name -> its clusters, the first is the one it shows
        self._clusters: dict[str, dict[str, None]] = {}  # cluster -> names, in order of arrival
        self._live: dict[str, LiveBroker] = {}  # by address
        self._spoken_for: dict[Hashable, dict[str, None]] = {}  # connection -> addresses, in order of arrival
        self._filter_servers: dict[str, list[str]] = {}  # by address
        # A broker says the same numbers for most of its topics: equal values are kept once, by name and numbers.
        self._queue_data: dict[str, dict[_Numbers, QueueData]] = {}

    # -- registration

    def register(self, registration: Registration, *, connection: Hashable, now_s: float) -> MasterAddresses | None:
        """Take in what a broker says; the answer tells a slave where its living master is."""
        steps = self.register_in_steps(registration, connection=connection, now_s=now_s)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                master: MasterAddresses | None = stop.value
                return master

    def register_in_steps(
        self, registration: Registration, *, connection: Hashable, now_s: float
    ) -> Generator[None, None, MasterAddresses | None]:
        """The same in steps of some hundred topics; it ends early if the broker goes, or speaks again, meanwhile."""
        broker = registration.broker
        is_new = self._place(broker)
        known = self._live.get(broker.address)
        is_changed = known is None or known.data_version != registration.data_version
        # Heard of before its topics are taken: whatever ends it meanwhile has to find it.
        live = LiveBroker(
            now_s, registration.data_version, connection, registration.ha_address, registration.fingerprint
        )
        self._hear(broker.address, live)
        if registration.filter_servers is not None:
            self._take_filter_servers(broker.address, registration.filter_servers)
        if broker.broker_id == MASTER_ID and (is_new or is_changed):
            topics = list(registration.topics.values())
            for begin in range(0, len(topics), TOPICS_A_STEP):
                if begin:
                    yield
                    if self._live.get(broker.address) is not live or not self._is_placed(broker):
                        return None
                self._take_topics(broker.name, topics[begin : begin + TOPICS_A_STEP])
        return self._master_for(broker)

    def repeat(
        self, broker: BrokerIdentity, ha_address: str, fingerprint: bytes, *, connection: Hashable, now_s: float
    ) -> tuple[bool, MasterAddresses | None]:
        """Take in a registration whose body is the one this broker sent last, without reading it.

        The first value is false if it is not, and then nothing has been changed.
        """
        known = self._live.get(broker.address)
        if (
            known is None
            or not fingerprint
            or known.fingerprint != fingerprint
            or self._cluster_of(broker.name) != broker.cluster
            or not self._is_placed(broker)
        ):
            return False, None
        self._hear(broker.address, LiveBroker(now_s, known.data_version, connection, ha_address, fingerprint))
        return True, self._master_for(broker)

    def _place(self, broker: BrokerIdentity) -> bool:
        """Put the broker's address under its name and cluster; true if this name and id had none."""
        self._join(broker.cluster, broker.name)
        addresses = self._addresses.setdefault(broker.name, {})
        if addresses.get(broker.broker_id) == broker.address:
            return False
        # A slave that has become the master comes back with its old address under a new id.
        if (other := self._names_at.get(broker.address, {}).get(broker.name)) is not None:
            self._displace(broker.name, other)
        is_new = self._displace(broker.name, broker.broker_id) is None
        addresses[broker.broker_id] = broker.address
        self._names_at.setdefault(broker.address, {})[broker.name] = broker.broker_id
        self.generation += 1
        return is_new

    def _join(self, cluster: str, name: str) -> None:
        clusters = self._clusters_of.setdefault(name, {})
        if cluster not in clusters and len(clusters) >= CLUSTERS_OF_A_NAME_MAX:
            second = next(islice(clusters, 1, None))
            del clusters[second]
            self._leave_cluster(second, name)
        clusters[cluster] = None
        self._clusters.setdefault(cluster, {})[name] = None

    def _leave_cluster(self, cluster: str, name: str) -> None:
        names = self._clusters[cluster]
        del names[name]
        if not names:
            del self._clusters[cluster]

    def _is_placed(self, broker: BrokerIdentity) -> bool:
        return self._addresses.get(broker.name, {}).get(broker.broker_id) == broker.address

    def _displace(self, name: str, broker_id: int) -> str | None:
        """Take the address away from a name and id; returns it."""
        address = self._addresses.get(name, {}).pop(broker_id, None)
        if address is not None:
            names = self._names_at[address]
            del names[name]
            if not names:
                del self._names_at[address]
        return address

    def _cluster_of(self, name: str) -> str:
        return next(iter(self._clusters_of.get(name, ())), "")

    def holders_of(self, broker: BrokerIdentity) -> list[Hashable]:
        """The connections that speak for what a broker claims: its address, and its name and id.

        An address that is registered under the name already may take another id: a slave becomes the master.
        """
        claimed = [broker.address]
        known = self._addresses.get(broker.name, {})
        if broker.name not in self._names_at.get(broker.address, ()) and broker.broker_id in known:
            claimed.append(known[broker.broker_id])
        return [self._live[address].connection for address in claimed if address in self._live]

    def has_room(self, broker: BrokerIdentity, *, connection: Hashable, count_max: int) -> bool:
        """Whether a connection may speak for this broker: it does already, or for few enough others.

        A broker is a name at an address. An address without a name, because another has taken it, counts as well.
        """
        own = self._spoken_for.get(connection, {})
        if broker.address in own and broker.name in self._names_at.get(broker.address, ()):
            return True
        return sum(max(1, len(self._names_at.get(address, ()))) for address in own) < count_max

    def _take_topics(self, broker_name: str, topics: Iterable[TopicConfig]) -> None:
        known = self._queue_data.setdefault(broker_name, {})
        table = self._topics
        own = self._topics_of.setdefault(broker_name, set())
        for topic in topics:
            if len(topic.topic_name) > TOPIC_CHARACTERS_MAX:
                continue
            numbers = (
                _bounded(topic.read_queue_nums),
                _bounded(topic.write_queue_nums),
                topic.perm,
                topic.topic_sys_flag,
            )
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
            self._spoken_for[before.connection].pop(address, None)
        self._live[address] = live
        self._spoken_for.setdefault(live.connection, {})[address] = None

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

    def touch(self, address: str, *, now_s: float) -> None:
        """A broker asked whether its data version is known, and it is: that counts as a sign of life."""
        self._live[address].heard_s = now_s

    def silent_since(self, deadline_s: float) -> list[tuple[str, Hashable]]:
        """The addresses last heard before the deadline, with the connections that spoke for them."""
        return [(address, live.connection) for address, live in self._live.items() if live.heard_s < deadline_s]

    def is_silent(self, address: str, deadline_s: float) -> bool:
        live = self._live.get(address)
        return live is not None and live.heard_s < deadline_s

    def unregister(self, broker: BrokerIdentity) -> None:
        """A broker says good-bye. What its address has under other names stays, and goes when nothing is heard of it.

        As after everything that ends brokers, there may be something to `sweep`.
        """
        if self._displace(broker.name, broker.broker_id) is not None:
            self.generation += 1
            self._drop_if_empty(broker.name)
        if broker.address not in self._names_at:
            self._forget_live(broker.address)

    def forget_address(self, address: str) -> None:
        """A broker has fallen silent, or its connection has ended."""
        self._forget_live(address)
        for name, broker_id in list(self._names_at.get(address, {}).items()):
            self._displace(name, broker_id)
            self.generation += 1
            self._drop_if_empty(name)

    def forget_connection(
        self, connection: Hashable, *, remote_address: str, count_max: int | None = None
    ) -> list[str]:
        """A connection has ended: every broker it spoke for is gone, or the next so many. Returns their addresses."""
        addresses = sorted(islice(self._spoken_for.get(connection, ()), count_max))
        if not addresses and remote_address in self._live:
            addresses = [remote_address]
        for address in addresses:
            self.forget_address(address)
        if not self._spoken_for.get(connection):
            self._spoken_for.pop(connection, None)
        return addresses

    def _forget_live(self, address: str) -> None:
        live = self._live.pop(address, None)
        if live is not None:
            speaker = self._spoken_for[live.connection]
            speaker.pop(address, None)
            if not speaker:
                del self._spoken_for[live.connection]
        if self._filter_servers.pop(address, None) is not None:
            self.generation += 1

    def _drop_if_empty(self, name: str) -> None:
        """A broker name without an address takes its cluster membership and its queues with it."""
        if self._addresses.get(name) != {}:
            return
        del self._addresses[name]
        for cluster in self._clusters_of.pop(name):
            self._leave_cluster(cluster, name)
        self._queue_data.pop(name, None)
        self.generation += 1
        self._leftovers.append((name, self._topics_of.pop(name, set())))
        self.sweep()

    def sweep(self) -> bool:
        """Clean up after brokers that are gone, some hundred topics at a time; true if there is more to do."""
        if self._leftovers:
            name, topics = self._leftovers[0]
            back = self._topics_of.get(name, ())  # the broker may have come back meanwhile, with these
            for _ in range(min(len(topics), TOPICS_A_STEP)):
                topic = topics.pop()
                if topic not in back:
                    self._drop_queues(topic, name)
            if not topics:
                self._leftovers.popleft()
        return bool(self._leftovers)

    def _drop_queues(self, topic: str, broker_name: str) -> None:
        """A topic without queues is gone."""
        queues = self._topics.get(topic)
        if queues is not None and queues.pop(broker_name, None) is not None and not queues:
            del self._topics[topic]

    # -- what administrators change

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Forget a topic everywhere, or on the brokers of one cluster."""
        queues = self._topics.get(topic, {})
        doomed = (
            list(queues) if cluster is None else [name for name in self._clusters.get(cluster, ()) if name in queues]
        )
        for broker_name in doomed:
            self._drop_queues(topic, broker_name)
            self._topics_of.get(broker_name, set()).discard(topic)
        self.generation += bool(doomed)

    def wipe_write_permission_in_steps(self, broker_name: str) -> Generator[None, None, int]:
        """Take producers away from a broker. Returns the number of its topics."""
        return self._change_permission(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write_permission_in_steps(self, broker_name: str) -> Generator[None, None, int]:
        """Let producers back to a broker. Returns the number of its topics."""
        return self._change_permission(broker_name, lambda _: PERM_READ_WRITE)

    def _change_permission(self, broker_name: str, change: Callable[[int], int]) -> Generator[None, None, int]:
        topics = list(self._topics_of.get(broker_name, ()))
        for begin in range(0, len(topics), TOPICS_A_STEP):
            if begin:
                yield
            own = self._topics_of.get(broker_name, ())  # some, or all, may have gone since
            known = self._queue_data.setdefault(broker_name, {}) if own else {}
            for topic in topics[begin : begin + TOPICS_A_STEP]:
                if topic in own:
                    queues = self._topics[topic]
                    data = queues[broker_name]
                    numbers = (data.read_queue_nums, data.write_queue_nums, change(data.perm), data.topic_sys_flag)
                    queues[broker_name] = known.get(numbers) or self._share(broker_name, numbers)
            self.generation += 1
        return len(topics)

    # -- questions

    def find_route(self, topic: str, *, order_conf: str | None = None) -> TopicRoute | None:
        """Where a topic is; `None` unless at least one of its brokers has an address."""
        queues = {
            name: data for name, data in self._topics.get(topic, {}).items() if topic in self._topics_of.get(name, ())
        }
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

    def topics_of_cluster(self, cluster: str) -> Iterator[str | None]:
        """The topics that a cluster has; None for each other one, so that a long walk can be done in slices."""
        names = self._clusters.get(cluster, {})
        for topic, queues in list(self._topics.items()):
            yield topic if any(name in names for name in queues) else None

    def topics_by_flag(self, *, required: int, forbidden: int = 0) -> Iterator[str | None]:
        """The topics whose first broker announces these bits of the system flag; None for each other one."""
        for topic, queues in list(self._topics.items()):
            first = next(iter(queues.values()), None)
            flag = 0 if first is None else first.topic_sys_flag
            yield topic if flag & required == required and not flag & forbidden else None

    def cluster_and_broker_names(self) -> list[str]:
        return [*self._clusters, *self._addresses]

    def any_address(self) -> str | None:
        return next((address for ids in self._addresses.values() for address in ids.values()), None)

    def counts(self) -> dict[str, int]:
        """The sizes of the tables, for logs and tests."""
        return {"topics": len(self._topics), "brokers": len(self._live), "clusters": len(self._clusters)}

    def _broker_data(self, name: str) -> BrokerData:
        return BrokerData(cluster=self._cluster_of(name), broker_name=name, broker_addrs=dict(self._addresses[name]))


def _bounded(queue_count: int) -> int:
    """Clients make an object for each queue of a route: a broker's slip must not kill them."""
    return min(max(queue_count, 0), QUEUE_COUNT_MAX)
