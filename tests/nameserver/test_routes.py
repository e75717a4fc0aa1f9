"""The rules of the route tables, one promise a test."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from skyrocketmq.model import DataVersion, TopicConfig
from skyrocketmq.nameserver.routes import (
    CLUSTERS_OF_A_NAME_MAX,
    TOPIC_CHARACTERS_MAX,
    BrokerIdentity,
    MasterAddresses,
    Registration,
    RouteTables,
)

V1 = DataVersion(timestamp=1, counter=1)
V2 = DataVersion(timestamp=1, counter=2)


def broker(
    name: str = "broker-a", broker_id: int = 0, address: str = "10.0.0.1:10911", cluster: str = "C"
) -> BrokerIdentity:
    return BrokerIdentity(cluster=cluster, name=name, broker_id=broker_id, address=address)


def topic(name: str, *, queues: int = 4, perm: int = 6, sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=sys_flag
    )


def registration(
    who: BrokerIdentity,
    topics: Iterable[TopicConfig] = (),
    *,
    version: DataVersion = V1,
    filter_servers: list[str] | None = None,
    fingerprint: bytes = b"",
) -> Registration:
    return Registration(
        broker=who,
        ha_address=who.address.replace("10911", "10912"),
        data_version=version,
        topics={t.topic_name: t for t in topics},
        filter_servers=filter_servers,
        fingerprint=fingerprint,
    )


def tables_with(*registrations: Registration) -> RouteTables:
    tables = RouteTables()
    for number, each in enumerate(registrations):
        tables.register(each, connection=f"connection-{number}", now_s=1000)
    return tables


def finished(steps: Generator[None, None, int]) -> int:
    """What steps return, with nobody served in between."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            count: int = stop.value
            return count


def test_a_registered_master_is_found_with_its_queues_and_address() -> None:
    tables = tables_with(registration(broker(), [topic("T", queues=8)]))
    route = tables.find_route("T")
    assert route is not None
    assert [(b.broker_name, b.cluster, b.broker_addrs) for b in route.broker_datas] == [
        ("broker-a", "C", {0: "10.0.0.1:10911"})
    ]
    assert [(q.broker_name, q.read_queue_nums, q.write_queue_nums, q.perm) for q in route.queue_datas] == [
        ("broker-a", 8, 8, 6)
    ]
    assert route.filter_server_table == {}
    assert route.order_topic_conf is None


def test_an_unknown_topic_has_no_route() -> None:
    assert tables_with(registration(broker(), [topic("T")])).find_route("other") is None


def test_a_slave_adds_its_address_and_no_topics() -> None:
    slave = broker(broker_id=1, address="10.0.0.2:10911")
    tables = tables_with(registration(broker(), [topic("T")]), registration(slave, [topic("slave-only")]))
    route = tables.find_route("T")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}
    assert tables.find_route("slave-only") is None


def test_a_slave_is_told_its_living_master_and_a_master_nothing() -> None:
    tables = RouteTables()
    assert tables.register(registration(broker()), connection="m", now_s=0) is None
    slave = registration(broker(broker_id=1, address="10.0.0.2:10911"))
    assert tables.register(slave, connection="s", now_s=0) == MasterAddresses("10.0.0.1:10911", "10.0.0.1:10912")
    tables.forget_connection("m", remote_address="x")
    assert tables.register(slave, connection="s", now_s=0) is None


def test_topics_are_taken_over_only_when_the_data_version_is_new() -> None:
    tables = tables_with(registration(broker(), [topic("T", queues=4)]))
    tables.register(registration(broker(), [topic("T", queues=9)], version=V1), connection="connection-0", now_s=2)
    assert tables.find_route("T").queue_datas[0].read_queue_nums == 4  # type: ignore[union-attr]
    tables.register(registration(broker(), [topic("T", queues=9)], version=V2), connection="connection-0", now_s=3)
    assert tables.find_route("T").queue_datas[0].read_queue_nums == 9  # type: ignore[union-attr]


def test_a_topic_that_a_registration_does_not_name_stays() -> None:
    tables = tables_with(registration(broker(), [topic("A"), topic("B")]))
    tables.register(registration(broker(), [topic("A")], version=V2), connection="connection-0", now_s=2)
    assert sorted(tables.topics()) == ["A", "B"]


def test_a_slave_that_becomes_master_leaves_its_old_id() -> None:
    promoted = "10.0.0.2:10911"
    tables = tables_with(
        registration(broker(), [topic("T")]),
        registration(broker(broker_id=1, address=promoted)),
    )
    tables.forget_connection("connection-0", remote_address="x")
    tables.register(registration(broker(broker_id=0, address=promoted), [topic("T")]), connection="c", now_s=2)
    route = tables.find_route("T")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: promoted}


def test_the_end_of_a_connection_removes_its_brokers_and_their_topics_at_once() -> None:
    tables = tables_with(registration(broker(), [topic("T")]))
    assert tables.forget_connection("connection-0", remote_address="1.2.3.4:5") == ["10.0.0.1:10911"]
    assert tables.find_route("T") is None
    assert tables.counts() == {"topics": 0, "brokers": 0, "clusters": 0}


def test_the_end_of_an_old_connection_does_not_remove_a_broker_that_has_reconnected() -> None:
    tables = tables_with(registration(broker(), [topic("T")]))
    tables.register(registration(broker(), [topic("T")]), connection="new", now_s=2)
    assert tables.forget_connection("connection-0", remote_address="x") == []
    assert tables.find_route("T") is not None
    assert tables.forget_connection("new", remote_address="x") == ["10.0.0.1:10911"]


def test_a_connection_is_also_known_by_its_remote_address() -> None:
    tables = tables_with(registration(broker(), [topic("T")]))
    assert tables.forget_connection("stranger", remote_address="10.0.0.1:10911") == ["10.0.0.1:10911"]


def test_a_broker_name_with_a_remaining_slave_keeps_its_topics() -> None:
    slave = broker(broker_id=1, address="10.0.0.2:10911")
    tables = tables_with(registration(broker(), [topic("T")]), registration(slave))
    tables.forget_connection("connection-0", remote_address="x")
    route = tables.find_route("T")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {1: "10.0.0.2:10911"}


def test_a_silent_broker_is_listed_and_a_question_about_its_version_keeps_it_alive() -> None:
    tables = tables_with(registration(broker(), [topic("T")]))
    assert tables.silent_since(1000) == []
    assert tables.silent_since(1001) == [("10.0.0.1:10911", "connection-0")]
    tables.touch("10.0.0.1:10911", now_s=1001)
    assert tables.silent_since(1001) == []


def test_unregistering_removes_the_name_with_its_last_address() -> None:
    slave = broker(broker_id=1, address="10.0.0.2:10911")
    tables = tables_with(registration(broker(), [topic("T")]), registration(slave))
    tables.unregister(broker())
    assert tables.find_route("T") is not None
    tables.unregister(slave)
    assert tables.find_route("T") is None
    assert tables.cluster_info().cluster_addr_table == {}


def test_unregistering_a_stranger_changes_nothing() -> None:
    tables = tables_with(registration(broker(), [topic("T")]))
    before = tables.generation
    tables.unregister(broker(name="nobody", address="9.9.9.9:9"))
    assert tables.find_route("T") is not None
    assert tables.generation == before


def test_what_an_address_has_under_other_names_stays_heard_of_when_one_says_good_bye() -> None:
    tables = tables_with(registration(broker(), [topic("T")]), registration(broker(name="broker-b"), [topic("U")]))
    tables.unregister(broker())
    tables.unregister(broker(name="nobody"))
    assert tables.find_route("U") is not None
    assert tables.silent_since(2000) == [("10.0.0.1:10911", "connection-1")], "or it would stay for ever"
    tables.forget_connection("connection-1", remote_address="x")
    assert tables.counts() == {"topics": 0, "brokers": 0, "clusters": 0}


def test_a_name_is_in_a_few_clusters_and_a_living_broker_in_its_own() -> None:
    tables = tables_with(registration(broker(cluster="first"), [topic("T")]))
    slave = broker(broker_id=1, address="10.0.0.2:10911", cluster="of the slave")
    for number in range(100):
        tables.register(registration(broker(cluster=f"c{number}")), connection="connection-0", now_s=2)
    tables.register(registration(slave), connection="connection-1", now_s=2)
    clusters = tables.cluster_info().cluster_addr_table
    assert len(clusters) == CLUSTERS_OF_A_NAME_MAX
    assert {"first", "of the slave", "c99"} <= set(clusters)
    assert tables.find_route("T").broker_datas[0].cluster == "first"  # type: ignore[union-attr]
    tables.unregister(broker())
    tables.unregister(slave)
    assert tables.counts() == {"topics": 0, "brokers": 0, "clusters": 0}


def test_a_topic_under_a_name_of_any_length_is_passed_over() -> None:
    longest = "t" * TOPIC_CHARACTERS_MAX
    tables = tables_with(registration(broker(), [topic("T"), topic(longest), topic(longest + "t")]))
    assert tables.topics() == ["T", longest]


def test_a_topic_lives_as_long_as_one_of_its_brokers() -> None:
    other = broker(name="broker-b", address="10.0.0.3:10911")
    tables = tables_with(registration(broker(), [topic("T")]), registration(other, [topic("T")]))
    tables.forget_connection("connection-0", remote_address="x")
    route = tables.find_route("T")
    assert route is not None
    assert [q.broker_name for q in route.queue_datas] == ["broker-b"]


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    other = broker(name="broker-b", address="10.0.0.3:10911", cluster="D")
    tables = tables_with(registration(broker(), [topic("T")]), registration(other, [topic("T")]))
    tables.delete_topic("T", cluster="D")
    assert [q.broker_name for q in tables.find_route("T").queue_datas] == ["broker-a"]  # type: ignore[union-attr]
    tables.delete_topic("T", cluster="unknown")
    assert tables.find_route("T") is not None
    tables.delete_topic("T")
    assert tables.topics() == []


def test_wiping_takes_the_write_bit_until_the_next_changed_registration() -> None:
    tables = tables_with(registration(broker(), [topic("A", perm=6), topic("B", perm=7)]))
    assert finished(tables.wipe_write_permission_in_steps("broker-a")) == 2
    assert [tables.find_route(t).queue_datas[0].perm for t in "AB"] == [4, 5]  # type: ignore[union-attr]
    tables.register(registration(broker(), [topic("A"), topic("B")]), connection="connection-0", now_s=2)
    assert tables.find_route("A").queue_datas[0].perm == 4  # type: ignore[union-attr]
    tables.register(registration(broker(), [topic("A")], version=V2), connection="connection-0", now_s=3)
    assert tables.find_route("A").queue_datas[0].perm == 6  # type: ignore[union-attr]
    assert finished(tables.add_write_permission_in_steps("broker-a")) == 2
    assert tables.find_route("B").queue_datas[0].perm == 6  # type: ignore[union-attr]
    assert finished(tables.wipe_write_permission_in_steps("nobody")) == 0


def test_filter_servers_are_listed_with_their_broker_and_removed_by_an_empty_list() -> None:
    tables = tables_with(registration(broker(), [topic("T")], filter_servers=["f:1", "f:2"]))
    assert tables.find_route("T").filter_server_table == {"10.0.0.1:10911": ["f:1", "f:2"]}  # type: ignore[union-attr]
    tables.register(registration(broker(), filter_servers=None), connection="connection-0", now_s=2)
    assert tables.find_route("T").filter_server_table != {}  # type: ignore[union-attr]
    tables.register(registration(broker(), filter_servers=[]), connection="connection-0", now_s=3)
    assert tables.find_route("T").filter_server_table == {}  # type: ignore[union-attr]


def test_topics_are_listed_by_cluster_and_by_unit_flags() -> None:
    other = broker(name="broker-b", address="10.0.0.3:10911", cluster="D")
    tables = tables_with(
        registration(broker(), [topic("plain"), topic("unit", sys_flag=1), topic("both", sys_flag=3)]),
        registration(other, [topic("sub", sys_flag=2), topic("plain")]),
    )
    assert sorted(filter(None, tables.topics_of_cluster("D"))) == ["plain", "sub"]
    assert list(filter(None, tables.topics_of_cluster("unknown"))) == []
    assert sorted(filter(None, tables.topics_by_flag(required=1))) == ["both", "unit"]
    assert sorted(filter(None, tables.topics_by_flag(required=2))) == ["both", "sub"]
    assert list(filter(None, tables.topics_by_flag(required=2, forbidden=1))) == ["sub"]
    assert sorted(tables.cluster_and_broker_names()) == ["C", "D", "broker-a", "broker-b"]
    assert tables.any_address() == "10.0.0.1:10911"


@pytest.mark.parametrize(
    "who",
    [
        broker(name="broker-b"),
        broker(broker_id=1),
        broker(cluster="D"),
        broker(address="10.0.0.9:10911"),
    ],
    ids=["name", "id", "cluster", "address"],
)
def test_a_body_is_only_taken_as_a_repetition_from_the_very_same_broker(who: BrokerIdentity) -> None:
    tables = tables_with(registration(broker(), [topic("T")], fingerprint=b"f"))
    assert tables.repeat(who, "ha", b"f", connection="c", now_s=2000) == (False, None)
    assert tables.repeat(broker(), "ha", b"g", connection="c", now_s=2000) == (False, None)
    assert tables.silent_since(2000) == [("10.0.0.1:10911", "connection-0")]
    assert tables.repeat(broker(), "ha", b"f", connection="c", now_s=2000) == (True, None)
    assert tables.silent_since(2000) == []
    assert tables.forget_connection("c", remote_address="x") == ["10.0.0.1:10911"]


def test_the_generation_stands_still_while_nothing_changes() -> None:
    tables = tables_with(registration(broker(), [topic("T")], fingerprint=b"f"))
    before = tables.generation
    tables.register(registration(broker(), [topic("T")]), connection="connection-0", now_s=2)
    tables.repeat(broker(), "ha", b"", connection="c", now_s=5)
    assert tables.generation == before
    tables.register(registration(broker(), [topic("T")], version=V2), connection="connection-0", now_s=3)
    assert tables.generation > before


class TablesAgainstAPlainModel(RuleBasedStateMachine):
    """Random comings and goings: what the tables answer follows from who is alive."""

    names = st.sampled_from(["a", "b", "c"])
    ids = st.integers(0, 2)

    def __init__(self) -> None:
        super().__init__()
        self.tables = RouteTables()
        self.alive: dict[str, tuple[str, int, str]] = {}  # address -> (name, id, connection)
        self.counter = 0

    @rule(name=names, broker_id=ids, connection=st.sampled_from("xyz"))
    def registers(self, name: str, broker_id: int, connection: str) -> None:
        self.counter += 1
        address = f"{name}{broker_id}:1"
        self.tables.register(
            registration(
                broker(name=name, broker_id=broker_id, address=address),
                [topic(f"topic-of-{name}")],
                version=DataVersion(timestamp=0, counter=self.counter),
            ),
            connection=connection,
            now_s=self.counter,
        )
        self.alive[address] = (name, broker_id, connection)

    @rule(connection=st.sampled_from("xyz"))
    def loses_connection(self, connection: str) -> None:
        gone = self.tables.forget_connection(connection, remote_address="nowhere")
        expected = sorted(address for address, (_, _, c) in self.alive.items() if c == connection)
        assert gone == expected
        for address in expected:
            del self.alive[address]

    @rule(name=names, broker_id=ids)
    def unregisters(self, name: str, broker_id: int) -> None:
        address = f"{name}{broker_id}:1"
        self.tables.unregister(broker(name=name, broker_id=broker_id, address=address))
        self.alive.pop(address, None)

    @invariant()
    def the_tables_show_exactly_the_living(self) -> None:
        shown = {
            (data.broker_name, id_, address)
            for data in self.tables.cluster_info().broker_addr_table.values()
            for id_, address in data.broker_addrs.items()
        }
        assert shown == {(name, id_, address) for address, (name, id_, _) in self.alive.items()}
        names = {name for name, _, _ in self.alive.values()}
        assert set(self.tables.cluster_info().cluster_addr_table.get("C", [])) == names
        for name in "abc":
            if name not in names:
                assert self.tables.find_route(f"topic-of-{name}") is None
        assert self.tables.counts()["brokers"] == len(self.alive)


TestTablesAgainstAPlainModel = TablesAgainstAPlainModel.TestCase
