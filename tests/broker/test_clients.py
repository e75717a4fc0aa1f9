from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.broker.clients import ConsumerTable, ProducerTable
from skyrocketmq.model import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from tests.broker.support import member


def consumer(
    *topics: str, group: str = "g", version: int = 1, model: MessageModel = MessageModel.CLUSTERING
) -> ConsumerData:
    return ConsumerData(
        group_name=group,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=model,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        subscription_data_set=tuple(SubscriptionData(topic=topic, sub_version=version) for topic in topics),
    )


def test_a_first_heartbeat_is_a_change_and_its_repetition_is_none() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    assert table.register(member("c1"), consumer("orders"))
    assert not table.register(member("c1"), consumer("orders"))


def test_a_second_connection_of_a_group_is_a_change() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1"), consumer("orders"))
    assert table.register(member("c2"), consumer("orders"))
    assert table.client_ids_of("g") == ["client of c1", "client of c2"]


def test_a_topic_that_comes_or_goes_is_a_change() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1"), consumer("orders"))
    assert table.register(member("c1"), consumer("orders", "refunds"))
    assert table.register(member("c1"), consumer("refunds"))
    assert table.find_subscription("g", "orders") is None


def test_a_topic_missing_from_one_member_is_dropped_for_the_whole_group() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1"), consumer("orders"))
    table.register(member("c2"), consumer("refunds"))
    group = table.find("g")
    assert group is not None
    assert set(group.subscriptions) == {"refunds"}


def test_a_subscription_is_replaced_only_by_a_newer_one_and_that_is_no_change() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1"), consumer("orders", version=5))
    assert not table.register(member("c1"), consumer("orders", version=4))
    known = table.find_subscription("g", "orders")
    assert known is not None
    assert known.sub_version == 5
    assert not table.register(member("c1"), consumer("orders", version=6))
    known = table.find_subscription("g", "orders")
    assert known is not None
    assert known.sub_version == 6


def test_the_latest_heartbeat_decides_what_the_group_is() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1"), consumer("orders"))
    assert not table.register(member("c1"), consumer("orders", model=MessageModel.BROADCASTING))
    group = table.find("g")
    assert group is not None
    assert group.message_model is MessageModel.BROADCASTING


def test_a_group_ends_with_its_last_member() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1"), consumer("orders"))
    table.register(member("c2"), consumer("orders"))
    assert table.unregister("g", "c1")
    assert table.find("g") is not None
    assert table.unregister("g", "c2")
    assert table.find("g") is None
    assert table.members_of("g") == []
    assert not table.unregister("g", "c2")


def test_a_lost_connection_leaves_all_its_groups() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1"), consumer("orders", group="g1"))
    table.register(member("c1"), consumer("orders", group="g2"))
    table.register(member("c2"), consumer("orders", group="g2"))
    assert list(table.forget_in_steps("c1")) == ["g1", "g2"]
    assert table.groups() == ["g2"]
    assert table.client_ids_of("g2") == ["client of c2"]
    assert list(table.forget_in_steps("c1")) == []


def test_a_client_with_two_connections_is_listed_once() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("old", client_id="c"), consumer("orders"))
    table.register(member("new", client_id="c"), consumer("orders"))
    assert table.client_ids_of("g") == ["c"]
    assert len(table.members_of("g")) == 2


def test_groups_on_a_topic_are_those_that_subscribe_to_it() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1"), consumer("orders", group="g1"))
    table.register(member("c1"), consumer("refunds", group="g2"))
    assert table.groups_on("orders") == ["g1"]


def test_silent_connections_are_found_by_their_last_heartbeat_for_a_group() -> None:
    table: ConsumerTable[str] = ConsumerTable()
    table.register(member("c1", heard_s=10), consumer("orders", group="g1"))
    table.register(member("c1", heard_s=20), consumer("orders", group="g2"))
    table.register(member("c2", heard_s=20), consumer("orders", group="g1"))
    assert table.silent_in("g1", 10) == []
    assert table.silent_in("g1", 10.5) == ["c1"]
    assert table.silent_in("g2", 10.5) == []
    table.register(member("c1", heard_s=30), consumer("orders", group="g1"))
    assert table.silent_in("g1", 10.5) == []
    assert table.silent_in("unknown", 10.5) == []


def test_a_producer_is_found_by_its_client_id_until_it_leaves_its_last_group() -> None:
    table: ProducerTable[str] = ProducerTable()
    assert table.register("p1", member("c1", client_id="c"))
    assert table.register("p2", member("c1", client_id="c"))
    assert not table.register("p2", member("c1", client_id="c"))
    table.unregister("p1", "c1")
    assert table.find_connection("c") == "c1"
    table.unregister("p2", "c1")
    assert table.find_connection("c") is None
    assert table.groups() == []


def test_a_producer_that_reconnected_is_found_on_its_new_connection_even_after_the_old_one_ends() -> None:
    table: ProducerTable[str] = ProducerTable()
    table.register("p", member("old", client_id="c"))
    table.register("p", member("new", client_id="c"))
    assert list(table.forget_in_steps("old")) == ["p"]
    assert table.find_connection("c") == "new"
    assert [each.connection for each in table.members_of("p")] == ["new"]


def test_a_connection_that_changes_its_client_id_is_known_by_the_new_one_only() -> None:
    table: ProducerTable[str] = ProducerTable()
    table.register("p", member("c1", client_id="before"))
    table.register("p", member("c1", client_id="after"))
    assert table.find_connection("before") is None
    assert table.find_connection("after") == "c1"


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["register", "unregister", "forget"]),
        st.sampled_from(["g1", "g2", "g3"]),
        st.sampled_from(["c1", "c2", "c3"]),
    ),
    max_size=60,
)


@given(events=EVENTS)
def test_the_tables_agree_with_a_plain_set_of_pairs(events: list[tuple[str, str, str]]) -> None:
    consumers: ConsumerTable[str] = ConsumerTable()
    producers: ProducerTable[str] = ProducerTable()
    pairs: dict[tuple[str, str], None] = {}
    for what, group, connection in events:
        if what == "register":
            is_new = (group, connection) not in pairs
            assert consumers.register(member(connection), consumer("orders", group=group)) == is_new
            assert producers.register(group, member(connection)) == is_new
            pairs[group, connection] = None
        elif what == "unregister":
            was_member = (group, connection) in pairs
            assert consumers.unregister(group, connection) == was_member
            assert producers.unregister(group, connection) == was_member
            pairs.pop((group, connection), None)
        else:
            left = sorted(g for g, c in pairs if c == connection)
            assert list(consumers.forget_in_steps(connection)) == left
            assert list(producers.forget_in_steps(connection)) == left
            pairs = {pair: None for pair in pairs if pair[1] != connection}
    groups = {group for group, _ in pairs}
    assert set(consumers.groups()) == set(producers.groups()) == groups
    for group in ("g1", "g2", "g3"):
        connections = {c for g, c in pairs if g == group}
        assert {each.connection for each in consumers.members_of(group)} == connections
        assert {each.connection for each in producers.members_of(group)} == connections
    for connection in ("c1", "c2", "c3"):
        is_somewhere = any(c == connection for _, c in pairs)
        assert (producers.find_connection(f"client of {connection}") is not None) == is_somewhere
