"""No request of a large name server holds its loop for more than 50 ms: every code, with 10,000 topics of one broker
beside 90,000 of others, and 1,000 brokers. A new code fails here until it has a case."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path

from skyrocketmq.config import NamesrvConfig
from skyrocketmq.model import DataVersion, TopicConfig
from skyrocketmq.nameserver import NameServer
from skyrocketmq.nameserver.routes import BrokerIdentity, Registration
from skyrocketmq.net.causes import code_name
from skyrocketmq.wire.bodies import encode_body
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.codes import RequestCode as C
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.registration import TOPICS_MAX, RegisterBrokerBody, encode_registration
from tests.broker.house import Peer
from tests.loop_limit import LIMIT_S, by_cpu_time, worst_s

BROKERS, TOPICS_OF_ONE, TOPICS_OF_OTHERS = 1000, 10_000, 90_000
LARGE = {"brokerName": "large", "brokerAddr": "10.0.0.1:10911", "clusterName": "cluster", "brokerId": "0"}


def topics(count: int, first: int = 0) -> dict[str, TopicConfig]:
    names = [f"topic-{number:06}" for number in range(first, first + count)]
    return {name: TopicConfig(topic_name=name, read_queue_nums=8, write_queue_nums=8) for name in names}


def registration(attempt: int, *, compressed: bool) -> Frame:
    """A broker with 10,000 topics, in another version each time: all of it is new."""
    table = TopicConfigTable(
        data_version=DataVersion(timestamp=1, counter=attempt + 2), topic_config_table=topics(TOPICS_OF_ONE)
    )
    body = encode_registration(RegisterBrokerBody(topics=table), compressed=compressed)
    return Frame(
        C.REGISTER_BROKER, 1, ext={**LARGE, "compressed": str(compressed).lower(), "bodyCrc32": "0"}, body=body
    )


def frame(code: C, body: bytes = b"", /, **ext: str) -> list[Frame]:
    return [Frame(code, 1, ext=dict(ext), body=body)]


OTHER = {"namespace": "other"}
CASES: dict[int, Callable[[int], list[Frame]]] = {
    C.REGISTER_BROKER: lambda n: [registration(n, compressed=False), registration(n + 10, compressed=True)],
    C.QUERY_DATA_VERSION: lambda n: frame(C.QUERY_DATA_VERSION, encode_body(DataVersion()), **LARGE),
    C.GET_ROUTEINFO_BY_TOPIC: lambda n: frame(C.GET_ROUTEINFO_BY_TOPIC, topic=f"topic-{n:06}"),
    C.GET_BROKER_CLUSTER_INFO: lambda n: frame(C.GET_BROKER_CLUSTER_INFO),
    C.WIPE_WRITE_PERM_OF_BROKER: lambda n: frame(C.WIPE_WRITE_PERM_OF_BROKER, brokerName="large"),
    C.ADD_WRITE_PERM_OF_BROKER: lambda n: frame(C.ADD_WRITE_PERM_OF_BROKER, brokerName="large"),
    C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lambda n: frame(C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER),
    C.DELETE_TOPIC_IN_NAMESRV: lambda n: frame(C.DELETE_TOPIC_IN_NAMESRV, topic=f"topic-{n + 9:06}"),
    C.GET_TOPICS_BY_CLUSTER: lambda n: frame(C.GET_TOPICS_BY_CLUSTER, cluster="cluster"),
    C.GET_SYSTEM_TOPIC_LIST_FROM_NS: lambda n: frame(C.GET_SYSTEM_TOPIC_LIST_FROM_NS),
    C.GET_UNIT_TOPIC_LIST: lambda n: frame(C.GET_UNIT_TOPIC_LIST),
    C.GET_HAS_UNIT_SUB_TOPIC_LIST: lambda n: frame(C.GET_HAS_UNIT_SUB_TOPIC_LIST),
    C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: lambda n: frame(C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    C.PUT_KV_CONFIG: lambda n: frame(C.PUT_KV_CONFIG, **OTHER, key="key", value=str(n)),
    C.GET_KV_CONFIG: lambda n: frame(C.GET_KV_CONFIG, **OTHER, key="key"),
    C.GET_KVLIST_BY_NAMESPACE: lambda n: frame(C.GET_KVLIST_BY_NAMESPACE, **OTHER),
    C.DELETE_KV_CONFIG: lambda n: frame(C.DELETE_KV_CONFIG, **OTHER, key="key"),
    C.UPDATE_NAMESRV_CONFIG: lambda n: frame(C.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true"),
    C.GET_NAMESRV_CONFIG: lambda n: frame(C.GET_NAMESRV_CONFIG),
    C.UNREGISTER_BROKER: lambda n: frame(C.UNREGISTER_BROKER, **LARGE),
}


def fill(server: NameServer) -> None:
    """1,000 brokers with 90,000 topics, each topic on two of them."""
    each = TOPICS_OF_OTHERS // BROKERS
    for number in range(BROKERS):
        identity = BrokerIdentity(cluster="cluster", name=f"b{number}", broker_id=0, address=f"10.0.1.{number}:10911")
        own = topics(2 * each, TOPICS_OF_ONE + number * each)
        version = DataVersion(timestamp=1, counter=1)
        register = Registration(broker=identity, ha_address="", data_version=version, topics=own)
        server.tables.register(register, connection=-number, now_s=1e12)


async def _longest_turn_s(is_done: Callable[[], bool]) -> float:
    """The longest turn of the loop until something is done: the watch sees requests, but no ends of connections."""
    longest_s, before = 0.0, time.thread_time()
    while not is_done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest_s, before = max(longest_s, now - before), now
    return longest_s


async def test_nothing_about_the_largest_broker_holds_the_loop(tmp_path: Path) -> None:
    """One with as many topics as a registration may have: its permissions, its good-bye, and the end of its
    connection."""
    config = NamesrvConfig(kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "namesrv.properties")
    largest, version = topics(TOPICS_MAX, 1_000_000), DataVersion(timestamp=1, counter=1)
    identity = BrokerIdentity(cluster="cluster", name="large", broker_id=0, address="10.0.0.1:10911")
    register = Registration(broker=identity, ha_address="", data_version=version, topics=largest)
    slow: dict[str, str] = {}
    try:
        async with NameServer.open(config, host="127.0.0.1", port=0) as server:
            fill(server)
            watch, others = by_cpu_time(server.loop_watch), server.tables.counts()["topics"]
            for case in ("wipe", "add", "unregister", "hang up"):

                async def ask(attempt: int, case: str = case) -> None:
                    peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
                    await peer.ok(Frame(C.GET_BROKER_CLUSTER_INFO, 1))
                    (connection,) = server._server.connections  # type: ignore[union-attr]  # it is open
                    server.tables.register(register, connection=connection.id, now_s=1e12)
                    await asyncio.sleep(0)
                    watch.wall_s_max, watch.last_cause = 0.0, {}
                    if case == "wipe":
                        await peer.ok(Frame(C.WIPE_WRITE_PERM_OF_BROKER, 1, ext={"brokerName": "large"}))
                    elif case == "add":
                        await peer.ok(Frame(C.ADD_WRITE_PERM_OF_BROKER, 1, ext={"brokerName": "large"}))
                    elif case == "unregister":
                        await peer.ok(Frame(C.UNREGISTER_BROKER, 1, ext=dict(LARGE)))
                        assert server.tables.counts()["topics"] == others, "the answer comes when it is done"
                    await peer.close()
                    turn_s = await _longest_turn_s(lambda: server.tables.counts()["topics"] == others)
                    watch.wall_s_max = max(watch.wall_s_max, turn_s)

                seconds, cause = await worst_s(watch, ask)
                print(f"{case}: {seconds * 1000:.0f} ms {cause}")
                if seconds > LIMIT_S:
                    slow[case] = f"{seconds * 1000:.0f} ms: {cause}"
    finally:
        gc.enable()
    assert slow == {}


async def test_no_request_of_a_large_name_server_holds_its_loop(tmp_path: Path) -> None:
    config = NamesrvConfig(kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "namesrv.properties")
    slow: dict[str, str] = {}
    try:
        async with NameServer.open(config, host="127.0.0.1", port=0) as server:
            fill(server)
            assert set(server.dispatcher.codes) == set(CASES), "each code has a case, and each case a code"
            peer = Peer(*await asyncio.open_connection("127.0.0.1", server.port))
            watch = by_cpu_time(server.loop_watch)
            for code, case in CASES.items():

                async def ask(attempt: int, case: Callable[[int], list[Frame]] = case) -> None:
                    for request in case(attempt):
                        await peer.ok(request)

                seconds, cause = await worst_s(watch, ask)
                print(f"{code_name(code)}: {seconds * 1000:.0f} ms {cause}")
                if seconds > LIMIT_S:
                    slow[code_name(code)] = f"{seconds * 1000:.0f} ms: {cause}"
            await peer.close()
    finally:
        gc.enable()
    assert slow == {}
