"""Routes: both key forms, Java's bytes, and what older name servers send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocketmq.errors import ProtocolError
from skyrocketmq.model.routes import BrokerData, ClusterInfo, QueueData, TopicRoute
from skyrocketmq.wire.bodies_routes import decode_cluster_info, decode_route, encode_cluster_info, encode_route

OLD_FORM = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster"}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
    b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)
STANDARD_FORM = OLD_FORM.replace(b'{0:"', b'{"0":"').replace(b',1:"', b',"1":"')
ROUTE = TopicRoute(
    broker_datas=[
        BrokerData(
            broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, broker_name="broker-a", cluster="DefaultCluster"
        )
    ],
    queue_datas=[QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, topic_sys_flag=0, write_queue_nums=4)],
)


def test_both_forms_are_written_as_java_writes_them() -> None:
    assert encode_route(ROUTE, standard_json=False) == OLD_FORM
    assert encode_route(ROUTE, standard_json=True) == STANDARD_FORM


@pytest.mark.parametrize("data", [OLD_FORM, STANDARD_FORM, STANDARD_FORM.replace(b"topicSysFlag", b"topicSynFlag")])
def test_both_forms_are_read_and_the_old_spelling_too(data: bytes) -> None:
    assert decode_route(data) == ROUTE


def test_the_order_configuration_is_written_where_there_is_one() -> None:
    route = TopicRoute(order_topic_conf="broker-a:4;broker-b:4")
    assert encode_route(route, standard_json=False) == (
        b'{"brokerDatas":[],"filterServerTable":{},"orderTopicConf":"broker-a:4;broker-b:4","queueDatas":[]}'
    )


def test_the_standard_form_escapes_what_is_not_ascii_and_the_old_one_does_not() -> None:
    route = TopicRoute(order_topic_conf="中\x7f😀")
    assert b'"\\u4E2D\\u007F\\uD83D\\uDE00"' in encode_route(route, standard_json=True)
    assert "中\x7f😀".encode() in encode_route(route, standard_json=False)
    assert decode_route(encode_route(route, standard_json=True)) == route


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
BROKERS = st.builds(
    BrokerData,
    broker_addrs=st.dictionaries(st.integers(0, 2**63 - 1), NAMES, max_size=3),
    broker_name=NAMES,
    cluster=NAMES,
)
ROUTES = st.builds(
    TopicRoute,
    broker_datas=st.lists(BROKERS, max_size=3),
    filter_server_table=st.dictionaries(NAMES, st.lists(NAMES, max_size=2), max_size=2),
    order_topic_conf=st.none() | NAMES,
    queue_datas=st.lists(st.builds(QueueData, broker_name=NAMES, perm=NUMBERS, read_queue_nums=NUMBERS), max_size=3),
)


@given(ROUTES, st.booleans())
def test_routes_are_read_back(route: TopicRoute, standard_json: bool) -> None:
    assert decode_route(encode_route(route, standard_json=standard_json)) == route


@given(st.dictionaries(NAMES, BROKERS, max_size=3), st.dictionaries(NAMES, st.lists(NAMES, max_size=3), max_size=2))
def test_cluster_info_is_read_back(brokers: dict[str, BrokerData], clusters: dict[str, list[str]]) -> None:
    info = ClusterInfo(broker_addr_table=brokers, cluster_addr_table=clusters)
    assert decode_cluster_info(encode_cluster_info(info)) == info


def test_cluster_info_has_unquoted_ids_but_quoted_names() -> None:
    broker = BrokerData(broker_addrs={0: "10.0.0.1:10911"}, broker_name="0", cluster="DefaultCluster")
    info = ClusterInfo(broker_addr_table={"0": broker}, cluster_addr_table={"DefaultCluster": ["0"]})
    assert encode_cluster_info(info) == (
        b'{"brokerAddrTable":{"0":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"0","cluster":"DefaultCluster"}},'
        b'"clusterAddrTable":{"DefaultCluster":["0"]}}'
    )


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b'{"brokerDatas":{}}', b'{"queueDatas":[{"perm":9999999999}]}', b'{"queueDatas":[5]}']
)
def test_what_is_no_route_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_route(data)
