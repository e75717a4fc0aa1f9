"""Apache's broker, client and mqadmin at our name server, and at Apache's own: the same checks, the same answers.

One broker of Apache's registers at both name servers; each test asks one of them, and shows on Apache's that the test
is right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import count

import pytest

from tests.interop import ours, remoting
from tests.interop.apache import DEFAULT_CLUSTER, Apache, Server
from tests.interop.driver import Driver, JavaError, message
from tests.interop.processes import RunningServer, wait_until
from tests.interop.remoting import Reply
from tests.interop.routes import find_route, quote_number_keys
from tests.ports import free_port

# The servers start in fixtures, which have time-outs of their own: only the test itself is counted.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(60, func_only=True)]

NAME_SERVERS = ("apache", "ours")
_numbers = count(1)


@pytest.fixture(scope="module")
def name_servers(apache: Apache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningServer]]:
    config = {"orderMessageEnable": "true"}
    directory = tmp_path_factory.mktemp("ours") / "namesrv"
    # A port of our choice, since the configuration, which is compared, shows it; with 0 it would show 0.
    with apache.namesrv(config=config) as theirs, ours.namesrv(directory, config=config, port=free_port()) as our_own:
        yield {"apache": theirs, "ours": our_own}


@pytest.fixture(scope="module")
def broker(apache: Apache, name_servers: dict[str, RunningServer]) -> Iterator[Server]:
    with apache.broker(namesrv=";".join(server.address for server in name_servers.values())) as server:
        yield server


@pytest.fixture(params=NAME_SERVERS)
def namesrv(request: pytest.FixtureRequest, name_servers: dict[str, RunningServer], broker: Server) -> str:
    """The address of the name server that this test asks."""
    return name_servers[request.param].address


@pytest.fixture
def topic(java: Driver, namesrv: str, broker: Server) -> str:
    """A fresh topic of 3 queues, made by mqadmin and known to the name server."""
    return make_topic(java, namesrv, broker)


def make_topic(java: Driver, namesrv: str, broker: Server, *options: str) -> str:
    name = f"Topic{next(_numbers)}"
    printed = java.mqadmin(
        "updateTopic", "-b", broker.address, "-t", name, "-r", "3", "-w", "3", *options, namesrv=namesrv
    )
    assert "success" in printed
    wait_until(lambda: find_route(namesrv, name) is not None, timeout_s=5, what=f"{name} is known")
    return name


# ------------------------------------------------------------------------------------------------- what operators see


def test_the_topics_of_apaches_broker_are_listed(java: Driver, namesrv: str) -> None:
    topics = java.mqadmin("topicList", namesrv=namesrv).split()

    assert {"TBW102", "SELF_TEST_TOPIC", "broker-a", DEFAULT_CLUSTER} <= set(topics)


def test_mqadmin_as_a_program_of_its_own_lists_the_cluster(apache: Apache, namesrv: str, broker: Server) -> None:
    row: list[str] = []

    def is_complete() -> bool:
        done = apache.mqadmin("clusterList", namesrv=namesrv)
        assert done.code == 0, done.output
        [row[:]] = [line.split() for line in done.output.splitlines() if line.startswith(DEFAULT_CLUSTER)]
        return "V4_9_7" in row  # it leaves out, in silence, what a broker that is busy starting did not answer in time

    wait_until(is_complete, what="the broker tells its version")
    assert row[:5] == [DEFAULT_CLUSTER, "broker-a", "0", broker.address, "V4_9_7"]


def test_a_topics_route_names_its_broker_and_queues(java: Driver, namesrv: str, broker: Server, topic: str) -> None:
    printed = java.mqadmin("topicRoute", "-t", topic, namesrv=namesrv)

    assert json.loads(quote_number_keys(printed)) == {
        "brokerDatas": [
            {"brokerAddrs": {"0": broker.address}, "brokerName": "broker-a", "cluster": DEFAULT_CLUSTER},
        ],
        "filterServerTable": {},
        "queueDatas": [
            {"brokerName": "broker-a", "perm": 6, "readQueueNums": 3, "topicSysFlag": 0, "writeQueueNums": 3},
        ],
    }
    assert java.mqadmin("topicClusterList", "-t", topic, namesrv=namesrv).split() == [DEFAULT_CLUSTER]


def test_a_changed_topic_is_known_at_once(java: Driver, namesrv: str, broker: Server, topic: str) -> None:
    java.mqadmin("updateTopic", "-b", broker.address, "-t", topic, "-r", "5", "-w", "4", "-p", "4", namesrv=namesrv)

    changed = [{"brokerName": "broker-a", "perm": 4, "readQueueNums": 5, "topicSysFlag": 0, "writeQueueNums": 4}]
    wait_until(lambda: queues_of(namesrv, topic) == changed, timeout_s=5, what="the new numbers are known")


def queues_of(namesrv: str, topic: str) -> object:
    route = find_route(namesrv, topic)
    return None if route is None else route["queueDatas"]


def test_a_deleted_topic_is_gone_from_every_name_server(
    java: Driver, name_servers: dict[str, RunningServer], broker: Server
) -> None:
    addresses = [server.address for server in name_servers.values()]
    topic = make_topic(java, addresses[0], broker)
    wait_until(lambda: find_route(addresses[1], topic) is not None, timeout_s=5, what="the other one knows it too")

    printed = java.mqadmin("deleteTopic", "-t", topic, "-c", DEFAULT_CLUSTER, namesrv=";".join(addresses))

    assert f"delete topic [{topic}] from NameServer success" in printed
    for address in addresses:
        assert find_route(address, topic) is None
        assert topic not in java.mqadmin("topicList", namesrv=address).split()


def test_the_write_permission_of_a_broker_is_wiped_and_given_back(java: Driver, namesrv: str, topic: str) -> None:
    with java.producer("wiped", namesrv=namesrv) as producer:
        wiped = java.mqadmin("wipeWritePerm", "-b", "broker-a", namesrv=namesrv)
        route_without = find_route(namesrv, topic)
        with pytest.raises(JavaError):
            producer.publish_queues(topic)

        added = java.mqadmin("addWritePerm", "-b", "broker-a", namesrv=namesrv)
        route_with = find_route(namesrv, topic)

        assert len(producer.publish_queues(topic)) == 3
    assert route_without is not None
    assert route_with is not None
    assert [data["perm"] for data in route_without["queueDatas"] + route_with["queueDatas"]] == [4, 6]
    counts = [re.search(r"OK, (\d+)", text) for text in (wiped, added)]
    assert [int(match[1]) > 5 for match in counts if match] == [True, True]


def test_key_value_config_is_written_read_and_deleted(java: Driver, namesrv: str) -> None:
    key = {"namespace": "INTEROP", "key": "colour"}

    assert "success" in java.mqadmin(
        "updateKvConfig", "-s", "INTEROP", "-k", "colour", "-v", "blue; 蓝", namesrv=namesrv
    )
    found = remoting.request(namesrv, remoting.GET_KV_CONFIG, key)
    assert "success" in java.mqadmin("deleteKvConfig", "-s", "INTEROP", "-k", "colour", namesrv=namesrv)
    gone = remoting.request(namesrv, remoting.GET_KV_CONFIG, key)

    assert (found.code, found.ext) == (remoting.SUCCESS, {"value": "blue; 蓝"})
    assert gone.code == remoting.QUERY_NOT_FOUND


def test_the_order_of_a_topic_comes_with_its_route(java: Driver, namesrv: str, broker: Server) -> None:
    topic = make_topic(java, namesrv, broker, "-o", "true")

    route = find_route(namesrv, topic)
    assert route is not None
    assert route["orderTopicConf"] == "broker-a:3"
    printed = java.mqadmin("updateOrderConf", "-t", topic, "-m", "get", namesrv=namesrv)
    assert printed.strip() == f"get orderConf success. topic=[{topic}], orderConf=[broker-a:3]"

    java.mqadmin("updateOrderConf", "-t", topic, "-m", "delete", namesrv=namesrv)
    route = find_route(namesrv, topic)
    assert route is not None
    assert "orderTopicConf" not in route


def test_the_configuration_is_shown_and_changed(java: Driver, namesrv: str) -> None:
    before = read_config(java, namesrv)

    changed = java.mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false", namesrv=namesrv)
    after = read_config(java, namesrv)
    java.mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true", namesrv=namesrv)

    assert "success" in changed
    assert before["listenPort"] == namesrv.rpartition(":")[2]
    assert {"kvConfigPath", "configStorePath", "productEnvName", "serverChannelMaxIdleTimeSeconds"} <= set(before)
    assert (before["orderMessageEnable"], after["orderMessageEnable"]) == ("true", "false")


def read_config(java: Driver, namesrv: str) -> dict[str, str]:
    title, *rows = java.mqadmin("getNamesrvConfig", namesrv=namesrv).strip().splitlines()
    assert title == f"============{namesrv}============"
    return {key.strip(): value for key, value in (row.split("=  ", 1) for row in rows if "=  " in row)}


# --------------------------------------------------------------------------------------------------- what clients see


def test_a_producer_and_a_consumer_find_one_another(java: Driver, namesrv: str, broker: Server) -> None:
    topic = f"Made-by-a-client-{next(_numbers)}"  # no such topic yet: the broker makes it, and registers it

    with java.producer("finder", namesrv=namesrv) as producer:
        sent = producer.send(message(topic, "hello {i}", count=8))
    wait_until(lambda: find_route(namesrv, topic) is not None, timeout_s=5, what="the new topic is known")
    with java.push_consumer(f"finders-of-{topic}", namesrv=namesrv, topic=topic, from_="first") as consumer:
        received = consumer.received(at_least=8)

    assert {result.status for result in sent} == {"SEND_OK"}
    assert sorted(found.text for found in received) == [f"hello {number}" for number in range(8)]
    assert {found.store_host for found in received} == {broker.address}


def test_an_unknown_topic_has_no_route(java: Driver, namesrv: str) -> None:
    with java.admin(namesrv=namesrv) as admin, pytest.raises(JavaError) as refused:
        admin.route("no-such-topic")

    assert refused.value.code == remoting.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    "properties",
    [{"skyrocketmq.version": "399"}, {"rocketmq.serialize.type": "ROCKETMQ"}],
    ids=["of 4.9.3", "with binary headers"],
)
def test_a_java_client_finds_its_route(
    apache: Apache,
    java: Driver,
    name_servers: dict[str, RunningServer],
    broker: Server,
    properties: dict[str, str],
) -> None:
    topic = make_topic(java, name_servers["ours"].address, broker)
    with apache.driver(properties=properties) as other_java:
        for server in name_servers.values():
            with other_java.producer("other", namesrv=server.address) as producer:
                [sent] = producer.send(message(topic, "hello"))
                assert sent.status == "SEND_OK"


# ------------------------------------------------------------------------------------- answer for answer with Apache's


@pytest.fixture(scope="module")
def unit_topic(java: Driver, name_servers: dict[str, RunningServer], broker: Server) -> str:
    """A topic with the unit flag, known to both name servers."""
    name = make_topic(java, name_servers["apache"].address, broker, "-u", "true")
    wait_until(lambda: find_route(name_servers["ours"].address, name) is not None, timeout_s=5, what="ours knows it")
    return name


ROUTE = {"topic": "TBW102"}
OTHER_BROKER = {"brokerName": "broker-x", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "brokerId": "0"}
VERSION = b'{"counter":3,"timestamp":1700000000000}'


@pytest.mark.parametrize(
    ("code", "ext", "body", "version"),
    [
        pytest.param(remoting.GET_ROUTEINFO_BY_TOPIC, ROUTE, b"", 407, id="route, 4.9.7"),
        pytest.param(remoting.GET_ROUTEINFO_BY_TOPIC, ROUTE, b"", 401, id="route, 4.9.4"),
        pytest.param(remoting.GET_ROUTEINFO_BY_TOPIC, ROUTE, b"", 399, id="route, 4.9.3"),
        pytest.param(remoting.GET_ROUTEINFO_BY_TOPIC, ROUTE, b"", 0, id="route, no version"),
        pytest.param(
            remoting.GET_ROUTEINFO_BY_TOPIC,
            {**ROUTE, "acceptStandardJsonOnly": "true"},
            b"",
            399,
            id="route, 4.9.3, standard JSON asked for",
        ),
        pytest.param(remoting.GET_ROUTEINFO_BY_TOPIC, {"topic": "nowhere"}, b"", 407, id="route, unknown topic"),
        pytest.param(remoting.GET_BROKER_CLUSTER_INFO, {}, b"", 407, id="cluster"),
        pytest.param(remoting.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}, b"", 407, id="topics"),
        pytest.param(remoting.GET_TOPICS_BY_CLUSTER, {"cluster": DEFAULT_CLUSTER}, b"", 407, id="topics of a cluster"),
        pytest.param(remoting.GET_TOPICS_BY_CLUSTER, {"cluster": "x"}, b"", 407, id="topics of an unknown cluster"),
        pytest.param(remoting.GET_SYSTEM_TOPIC_LIST_FROM_NS, {}, b"", 407, id="system topics"),
        pytest.param(remoting.GET_UNIT_TOPIC_LIST, {}, b"", 407, id="unit topics"),
        pytest.param(remoting.GET_HAS_UNIT_SUB_TOPIC_LIST, {}, b"", 407, id="topics with unit subscription"),
        pytest.param(remoting.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, {}, b"", 407, id="the same, themselves no unit"),
        pytest.param(remoting.GET_KV_CONFIG, {"namespace": "n", "key": "k"}, b"", 407, id="key-value, missing"),
        pytest.param(remoting.GET_KVLIST_BY_NAMESPACE, {"namespace": "n"}, b"", 407, id="namespace, missing"),
        pytest.param(remoting.PUT_KV_CONFIG, {"key": "k", "value": "v"}, b"", 407, id="key-value, no namespace"),
        pytest.param(remoting.DELETE_KV_CONFIG, {"namespace": "n", "key": "k"}, b"", 407, id="key-value, delete none"),
        pytest.param(remoting.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "x"}, b"", 407, id="wipe, unknown broker"),
        pytest.param(remoting.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "x"}, b"", 407, id="add, unknown broker"),
        pytest.param(remoting.DELETE_TOPIC_IN_NAMESRV, {"topic": "nowhere"}, b"", 407, id="delete, unknown topic"),
        pytest.param(remoting.UNREGISTER_BROKER, OTHER_BROKER, b"", 407, id="unregister, unknown broker"),
        pytest.param(remoting.QUERY_DATA_VERSION, OTHER_BROKER, VERSION, 407, id="data version, unknown broker"),
        pytest.param(
            remoting.REGISTER_BROKER, {**OTHER_BROKER, "bodyCrc32": "1"}, b"{}", 407, id="register, wrong checksum"
        ),
        pytest.param(remoting.UPDATE_NAMESRV_CONFIG, {}, b"kvConfigPath=/x", 407, id="change a forbidden key"),
        pytest.param(remoting.UPDATE_NAMESRV_CONFIG, {}, b"configStorePath=/x", 407, id="change another one"),
    ],
)
def test_our_name_server_answers_as_apaches_does(
    name_servers: dict[str, RunningServer],
    unit_topic: str,
    code: int,
    ext: dict[str, str],
    body: bytes,
    version: int,
) -> None:
    theirs, our_own = (
        comparable(remoting.request(server.address, code, ext, body, version=version))
        for server in name_servers.values()
    )

    assert our_own == theirs


def comparable(reply: Reply) -> tuple[int, dict[str, str], object]:
    """Code, fields and body, byte for byte; but topic lists, whose order is a Java hash table's, as sets."""
    if reply.body.startswith(b'{"topicList"') or b'"topicList":[' in reply.body:
        content = json.loads(reply.body)
        return reply.code, reply.ext, {**content, "topicList": sorted(content["topicList"])}
    return reply.code, reply.ext, reply.body


def test_an_unknown_request_code_gets_no_answer(namesrv: str) -> None:
    with pytest.raises(TimeoutError):
        remoting.request(namesrv, 9999, timeout_s=0.5)
