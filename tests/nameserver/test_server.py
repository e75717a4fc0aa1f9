"""A name server on a real socket, asked as brokers, clients and administrators ask it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.config import NamesrvConfig, read_properties
from skyrocketmq.errors import ConfigError, RequestTimeout
from skyrocketmq.model import DataVersion, TopicConfig
from skyrocketmq.nameserver import NameServer, kv_config
from skyrocketmq.nameserver.server import BROKER_SILENT_S, SCAN_EVERY_S
from skyrocketmq.net import Client
from skyrocketmq.ports import Clock, Link
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire import json_dialect
from skyrocketmq.wire.bodies_routes import decode_cluster_info, decode_route
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Encoding, Frame
from skyrocketmq.wire.java import body_crc
from skyrocketmq.wire.registration import RegisterBrokerBody, encode_registration

ADDRESS = "10.0.0.1:10911"


class Peer:
    """A client of one name server: a broker, a consumer or an administrator."""

    def __init__(self, address: str, client: Client) -> None:
        self._address = address
        self._client = client

    async def ask(
        self,
        code: int,
        ext: dict[str, str | None] | None = None,
        *,
        body: bytes = b"",
        version: int = 407,
        encoding: Encoding = Encoding.JSON,
        timeout_s: float = 5.0,
    ) -> Frame:
        frame = Frame(code, ext=ext, body=body, version=version, encoding=encoding)
        return await self._client.request(self._address, frame, timeout_s)

    async def ok(self, code: int, ext: dict[str, str | None] | None = None, *, body: bytes = b"") -> Frame:
        answer = await self.ask(code, ext, body=body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    async def register(
        self,
        *topics: str,
        name: str = "broker-a",
        broker_id: int = 0,
        address: str = ADDRESS,
        counter: int = 1,
        compressed: bool = False,
        version: int = 407,
        checksum: int | None = None,
    ) -> Frame:
        body = encode_registration(registered(topics, counter=counter), compressed=compressed, version=version)
        ext: dict[str, str | None] = {
            "brokerName": name,
            "brokerAddr": address,
            "clusterName": "C",
            "haServerAddr": address.replace("10911", "10912"),
            "brokerId": str(broker_id),
            "compressed": "true" if compressed else "false",
            "bodyCrc32": str(body_crc(body) if checksum is None else checksum),
        }
        return await self.ask(RequestCode.REGISTER_BROKER, ext, body=body, version=version)

    async def route(self, topic: str) -> Frame:
        return await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})

    async def topics(self, code: int = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) -> list[str]:
        return sorted(json.loads((await self.ok(code)).body)["topicList"])


def registered(topics: Iterable[str], *, counter: int) -> RegisterBrokerBody:
    table = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4) for name in topics}
    return RegisterBrokerBody(
        topics=TopicConfigTable(data_version=DataVersion(timestamp=7, counter=counter), topic_config_table=table)
    )


@asynccontextmanager
async def name_server(
    directory: Path, *, clock: Clock | None = None, link: Link | None = None, **changes: Any
) -> AsyncIterator[NameServer]:
    config = NamesrvConfig(
        kv_config_path=directory / "kv" / "kvConfig.json",
        config_store_path=directory / "namesrv.properties",
        **changes,
    )
    async with NameServer.open(config, host="127.0.0.1", port=0, clock=clock, link=link) as server:
        yield server


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Peer]:
    async with name_server(tmp_path) as server, Client() as client:
        yield Peer(server.address, client)


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_a_client_finds_what_a_broker_registered(peer: Peer, encoding: Encoding) -> None:
    assert (await peer.register("T")).code == ResponseCode.SUCCESS
    answer = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, encoding=encoding)
    assert answer.encoding is encoding
    route = decode_route(answer.body)
    assert [data.broker_addrs for data in route.broker_datas] == [{0: ADDRESS}]
    assert [(q.broker_name, q.read_queue_nums, q.perm) for q in route.queue_datas] == [("broker-a", 4, 6)]


async def test_old_clients_get_unquoted_broker_ids_and_new_ones_standard_json(peer: Peer) -> None:
    await peer.register("T")
    expected = (
        b'{"brokerDatas":[{"brokerAddrs":{%b:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"C"}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,'
        b'"writeQueueNums":4}]}'
    )
    old = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, version=399)
    assert old.body == expected % b"0"
    new = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, version=401)
    assert new.body == expected % b'"0"'
    asking: dict[str, str | None] = {"topic": "T", "acceptStandardJsonOnly": "true"}
    assert (await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, asking, version=399)).body == new.body


async def test_an_unknown_topic_is_answered_with_what_to_do(peer: Peer) -> None:
    answer = await peer.route("nowhere")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "nowhere" in (answer.remark or "")
    assert "updateTopic" in (answer.remark or "")


@pytest.mark.parametrize(("compressed", "version"), [(False, 407), (True, 407), (False, 36)])
async def test_every_form_of_a_registration_is_read(peer: Peer, compressed: bool, version: int) -> None:
    answer = await peer.register("A", "B", compressed=compressed, version=version)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert await peer.topics() == ["A", "B"]


async def test_a_registration_with_a_wrong_checksum_is_refused_and_leaves_no_trace(peer: Peer) -> None:
    answer = await peer.register("T", checksum=12345)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "checksum" in (answer.remark or "")
    assert await peer.topics() == []


@pytest.mark.parametrize("missing", ["brokerName", "brokerAddr", "clusterName"])
async def test_a_registration_without_a_name_says_which_field_is_missing(peer: Peer, missing: str) -> None:
    ext: dict[str, str | None] = {"brokerName": "a", "brokerAddr": "h:1", "clusterName": "C", "brokerId": "0"}
    del ext[missing]
    answer = await peer.ask(RequestCode.REGISTER_BROKER, ext)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert missing in (answer.remark or "")


async def test_a_slave_is_told_where_its_master_is(peer: Peer) -> None:
    await peer.register("T")
    answer = await peer.register(broker_id=1, address="10.0.0.2:10911")
    assert answer.ext == {"masterAddr": ADDRESS, "haServerAddr": "10.0.0.1:10912"}


async def test_a_repeated_registration_keeps_its_topics_and_a_changed_one_replaces_them(peer: Peer) -> None:
    await peer.register("T")
    await peer.ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    await peer.register("T")
    assert decode_route((await peer.route("T")).body).queue_datas[0].perm == 4
    await peer.register("T", counter=2)
    assert decode_route((await peer.route("T")).body).queue_datas[0].perm == 6


async def test_unregistering_removes_a_broker(peer: Peer) -> None:
    await peer.register("T")
    ext = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0"}
    await peer.ok(RequestCode.UNREGISTER_BROKER, dict(ext))
    assert (await peer.route("T")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_broker_is_told_whether_its_data_version_is_known(peer: Peer) -> None:
    ext: dict[str, str | None] = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0"}
    same, other = b'{"counter":1,"timestamp":7}', b'{"counter":2,"timestamp":7}'
    unknown = await peer.ok(RequestCode.QUERY_DATA_VERSION, ext, body=same)
    assert (unknown.ext, unknown.body) == ({"changed": "true"}, b"")
    await peer.register("T")
    known = await peer.ok(RequestCode.QUERY_DATA_VERSION, ext, body=same)
    assert (known.ext, json.loads(known.body)) == ({"changed": "false"}, {"counter": 1, "timestamp": 7})
    changed = await peer.ok(RequestCode.QUERY_DATA_VERSION, ext, body=other)
    assert changed.ext == {"changed": "true"}


async def test_lists_of_topics_clusters_and_brokers(peer: Peer) -> None:
    await peer.register("A", "B")
    info = decode_cluster_info((await peer.ok(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
    assert info.cluster_addr_table == {"C": ["broker-a"]}
    by_cluster = await peer.ok(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "C"})
    assert sorted(json.loads(by_cluster.body)["topicList"]) == ["A", "B"]
    nothing = await peer.ok(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "unknown"})
    assert json.loads(nothing.body) == {"topicList": []}
    system = json.loads((await peer.ok(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)).body)
    assert system == {"brokerAddr": ADDRESS, "topicList": ["C", "broker-a"]}
    for code in (
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ):
        assert await peer.topics(code) == []


async def test_permissions_and_topics_are_changed_by_administrators(peer: Peer) -> None:
    await peer.register("A", "B")
    name: dict[str, str | None] = {"brokerName": "broker-a"}
    assert (await peer.ok(RequestCode.WIPE_WRITE_PERM_OF_BROKER, name)).ext == {"wipeTopicCount": "2"}
    assert (await peer.ok(RequestCode.ADD_WRITE_PERM_OF_BROKER, name)).ext == {"addTopicCount": "2"}
    await peer.ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "A"})
    assert await peer.topics() == ["B"]
    await peer.ok(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "B", "clusterName": "C"})
    assert await peer.topics() == []


async def test_key_value_settings_are_on_disk_before_they_are_answered(tmp_path: Path) -> None:
    put: dict[str, str | None] = {"namespace": "N", "key": "k", "value": "v"}
    async with name_server(tmp_path) as server, Client() as client:
        await Peer(server.address, client).ok(RequestCode.PUT_KV_CONFIG, put)
        file = tmp_path / "kv" / "kvConfig.json"
        assert file.read_bytes() == b'{"configTable":{"N":{"k":"v"}}}'
    async with name_server(tmp_path) as server, Client() as client:
        peer = Peer(server.address, client)
        assert (await peer.ok(RequestCode.GET_KV_CONFIG, {"namespace": "N", "key": "k"})).ext == {"value": "v"}
        assert json.loads((await peer.ok(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "N"})).body) == {
            "table": {"k": "v"}
        }
        await peer.ok(RequestCode.DELETE_KV_CONFIG, {"namespace": "N", "key": "k"})
        gone = await peer.ask(RequestCode.GET_KV_CONFIG, {"namespace": "N", "key": "k"})
        assert gone.code == ResponseCode.QUERY_NOT_FOUND
        assert (await peer.ok(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "N"})).body == b'{"table":{}}'
        never = await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "other"})
        assert never.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_broken_settings_file_gives_way_to_its_back_up(tmp_path: Path) -> None:
    file = tmp_path / "kv" / "kvConfig.json"
    file.parent.mkdir()
    file.write_bytes(b'{"configTable":{"N":{"k":')
    file.with_name("kvConfig.json.bak").write_bytes(b'{"configTable":{"N":{"k":"old"}}}')
    async with name_server(tmp_path) as server:
        assert server.kv_config.get("N", "k") == "old"


async def test_a_broken_settings_file_never_becomes_the_back_up(tmp_path: Path) -> None:
    file = tmp_path / "kv" / "kvConfig.json"
    file.parent.mkdir()
    file.write_bytes(b"{")
    backup = file.with_name("kvConfig.json.bak")
    backup.write_bytes(b'{"configTable":{"N":{"k":"old"}}}')
    async with name_server(tmp_path) as server, Client() as client:
        put: dict[str, str | None] = {"namespace": "N", "key": "k", "value": "new"}
        await Peer(server.address, client).ok(RequestCode.PUT_KV_CONFIG, put)
        assert backup.read_bytes() == b'{"configTable":{"N":{"k":"old"}}}'
        assert file.read_bytes() == b'{"configTable":{"N":{"k":"new"}}}'


async def test_a_server_does_not_start_without_settings_that_it_cannot_read(tmp_path: Path) -> None:
    file = tmp_path / "kv" / "kvConfig.json"
    file.parent.mkdir()
    file.write_bytes(b"{")
    with pytest.raises(ConfigError, match="move it away"):
        async with name_server(tmp_path):
            pass
    assert file.read_bytes() == b"{"


async def test_settings_that_cannot_be_saved_are_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "kv").write_bytes(b"a file where the directory should be")
    async with name_server(tmp_path) as server, Client() as client:
        peer = Peer(server.address, client)
        answer = await peer.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "N", "key": "k", "value": "v"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "nothing was changed" in (answer.remark or "")
        missing = await peer.ask(RequestCode.GET_KV_CONFIG, {"namespace": "N", "key": "k"})
        assert missing.code == ResponseCode.QUERY_NOT_FOUND


async def test_order_settings_go_to_brokers_and_where_enabled_into_routes(tmp_path: Path) -> None:
    order: dict[str, str | None] = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}
    async with name_server(tmp_path, order_message_enable=True) as server, Client() as client:
        peer = Peer(server.address, client)
        assert (await peer.register("T")).body == b""
        await peer.ok(RequestCode.PUT_KV_CONFIG, order)
        assert json.loads((await peer.register("T")).body) == {"table": {"T": "broker-a:4"}}
        assert decode_route((await peer.route("T")).body).order_topic_conf == "broker-a:4"


async def test_the_configuration_is_read_changed_and_protected(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Client() as client:
        peer = Peer(server.address, client)
        before = read_properties((await peer.ok(RequestCode.GET_NAMESRV_CONFIG)).body)
        assert before["orderMessageEnable"] == "false"
        await peer.ok(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
        after = read_properties((await peer.ok(RequestCode.GET_NAMESRV_CONFIG)).body)
        assert after["orderMessageEnable"] == "true"
        assert b"orderMessageEnable=true" in (tmp_path / "namesrv.properties").read_bytes()
        refused = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"kvConfigPath=/etc/passwd\n")
        assert refused.code == ResponseCode.NO_PERMISSION
        for line in (
            b"listenPort=1234\n",
            b"bindAddress=127.0.0.9\n",
            b"tls.server.mode=disabled\n",
            b"rocketmqHome=/tmp\n",
        ):
            refused = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=false\n" + line)
            assert "not changed by a request" in (refused.remark or "")
        assert read_properties((await peer.ok(RequestCode.GET_NAMESRV_CONFIG)).body) == after
        bad = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=perhaps\n")
        assert bad.code == ResponseCode.SYSTEM_ERROR
        assert "true or false" in (bad.remark or "")


async def test_an_unknown_request_gets_no_answer_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Client() as client:
        peer = Peer(server.address, client)
        connection = await client.connect(server.address, 5)
        unknown = asyncio.ensure_future(connection.request(Frame(9999), 30))
        assert await peer.topics() == []
        assert not unknown.done()
        unknown.cancel()
        with pytest.raises(asyncio.CancelledError):
            await unknown


async def test_the_end_of_a_brokers_connection_removes_it_at_once(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Client() as consumer:
        async with Client() as broker:
            await Peer(server.address, broker).register("T")
            assert (await Peer(server.address, consumer).route("T")).code == ResponseCode.SUCCESS
        async with asyncio.timeout(5):
            while server.tables.find_route("T") is not None:
                await Peer(server.address, consumer).route("T")


async def test_a_silent_broker_expires_with_its_connection(tmp_path: Path) -> None:
    clock = ManualClock()
    async with name_server(tmp_path, clock=clock) as server, Client() as broker, Client() as consumer:
        await Peer(server.address, broker).register("T")
        connection = await broker.connect(server.address, 5)
        await clock.advance(BROKER_SILENT_S - SCAN_EVERY_S)
        assert server.tables.find_route("T") is not None
        await clock.advance(2 * SCAN_EVERY_S)
        assert server.tables.find_route("T") is None
        async with asyncio.timeout(5):
            await connection.closed
        assert (await Peer(server.address, consumer).route("T")).code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("set_by_s", [600, -600])
async def test_a_clock_that_is_set_makes_no_broker_silent_and_keeps_no_silent_one(
    tmp_path: Path, set_by_s: int
) -> None:
    clock = ManualClock()
    async with name_server(tmp_path, clock=clock) as server, Client() as broker:
        await Peer(server.address, broker).register("T")
        clock.set_wall(set_by_s)
        await clock.advance(BROKER_SILENT_S - SCAN_EVERY_S)
        assert server.tables.find_route("T") is not None
        await clock.advance(2 * SCAN_EVERY_S)
        assert server.tables.find_route("T") is None


async def test_asking_for_the_data_version_keeps_a_broker_alive(tmp_path: Path) -> None:
    clock = ManualClock()
    ext: dict[str, str | None] = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0"}
    async with name_server(tmp_path, clock=clock) as server, Client() as client:
        peer = Peer(server.address, client)
        await peer.register("T")
        for _ in range(4):
            await clock.advance(BROKER_SILENT_S - 2 * SCAN_EVERY_S)
            await peer.ok(RequestCode.QUERY_DATA_VERSION, ext, body=b'{"counter":1,"timestamp":7}')
        assert server.tables.find_route("T") is not None


async def test_a_request_without_an_answer_times_out_at_the_caller_only(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Client() as client:
        with pytest.raises(RequestTimeout, match="9999"):
            await client.request(server.address, Frame(9999), 0.05)
        assert await Peer(server.address, client).topics() == []


# ---------------------------------------------------------------------------------------------------------- limits


async def test_a_broken_data_version_is_the_askers_mistake(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    ext: dict[str, str | None] = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C"}
    for body in (b"", b"{", b"[1]", b'{"counter":"many"}', b"\xff\xfe"):
        answer = await peer.ask(RequestCode.QUERY_DATA_VERSION, ext, body=body)
        assert (answer.code, "cannot be read" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
    assert "Traceback" not in caplog.text


async def test_a_route_has_no_more_queues_than_a_client_can_hold(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, Client() as client:
        peer = Peer(server.address, client)
        table = {"T": TopicConfig(topic_name="T", read_queue_nums=2**31 - 1, write_queue_nums=-5)}
        topics = TopicConfigTable(data_version=DataVersion(timestamp=1, counter=1), topic_config_table=table)
        ext: dict[str, str | None] = {"brokerName": "b", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0"}
        await peer.ok(RequestCode.REGISTER_BROKER, ext, body=encode_registration(RegisterBrokerBody(topics=topics)))
        (queues,) = decode_route((await peer.route("T")).body).queue_datas
        assert (queues.read_queue_nums, queues.write_queue_nums) == (65_536, 0)


def kv_entry(key: str, value: str = "", namespace: str = "ORDER_TOPIC_CONFIG") -> dict[str, str | None]:
    return {"namespace": namespace, "key": key, "value": value}


async def test_key_value_settings_are_limited_and_registrations_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_config, "TABLE_BYTES_MAX", 3 * kv_config.ENTRY_BYTES_MAX)
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 10)
    large = "x" * (kv_config.ENTRY_BYTES_MAX - 100)
    async with name_server(tmp_path) as server, Client() as client:
        peer = Peer(server.address, client)
        refused = await peer.ask(RequestCode.PUT_KV_CONFIG, kv_entry("huge", "x" * 200_000))
        assert (refused.code, "may have" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        for number in range(3):
            await peer.ok(RequestCode.PUT_KV_CONFIG, kv_entry(f"large-{number}", large))
        await peer.ok(RequestCode.PUT_KV_CONFIG, kv_entry("large-0", large))  # in the place of what was there
        refused = await peer.ask(RequestCode.PUT_KV_CONFIG, kv_entry("large-3", large))
        assert "delete some" in (refused.remark or "")
        await peer.ok(RequestCode.DELETE_KV_CONFIG, kv_entry("large-0"))
        for number in range(4):
            await peer.ok(RequestCode.PUT_KV_CONFIG, kv_entry(f"small-{number}"))
        for number in range(2):  # an emptied namespace still exists, and counts
            await peer.ok(RequestCode.PUT_KV_CONFIG, kv_entry("k", namespace=f"N{number}"))
            await peer.ok(RequestCode.DELETE_KV_CONFIG, kv_entry("k", namespace=f"N{number}"))
        refused = await peer.ask(RequestCode.PUT_KV_CONFIG, kv_entry("k", namespace="N3"))
        assert "11 key-value settings" in (refused.remark or "")
        assert len(json.loads((await peer.register("T")).body)["table"]) == 6
    async with name_server(tmp_path) as server, Client() as client:  # what is read from the file counts the same
        refused = await Peer(server.address, client).ask(RequestCode.PUT_KV_CONFIG, kv_entry("k", namespace="N3"))
        assert "11 key-value settings" in (refused.remark or "")


async def test_an_order_config_from_elsewhere_that_fits_no_answer_breaks_no_registration(tmp_path: Path) -> None:
    (tmp_path / "kv").mkdir()
    table = {"configTable": {"ORDER_TOPIC_CONFIG": {f"T{n}": "b" * 1_000_000 for n in range(17)}}}
    (tmp_path / "kv" / "kvConfig.json").write_text(json.dumps(table))
    async with name_server(tmp_path) as server, Client() as client:
        peer = Peer(server.address, client)
        answer = await peer.register("T")
        assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
        refused = await peer.ask(RequestCode.PUT_KV_CONFIG, kv_entry("one more", "x"))
        assert "delete some" in (refused.remark or "")
        await peer.ok(RequestCode.DELETE_KV_CONFIG, kv_entry("T0"))


async def test_settings_are_encoded_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    write = json_dialect.write

    def noting(value: Any) -> bytes:
        threads.append(threading.current_thread().name)
        return write(value)

    monkeypatch.setattr(json_dialect, "write", noting)
    async with name_server(tmp_path) as server, Client() as client:
        await Peer(server.address, client).ok(RequestCode.PUT_KV_CONFIG, kv_entry("T", "b:4"))
    assert [name for name in threads if not name.startswith("disk")] == []
    assert threads
