"""Who may change a name server: accounts, lists of addresses, and names that are in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Set
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from skyrocketmq.access import WATCH_INTERVAL_S
from skyrocketmq.nameserver import NameServer
from skyrocketmq.nameserver.access import PROBE_S, Needs
from skyrocketmq.nameserver.handlers import NameServerHandlers
from skyrocketmq.net import Client, Connection, declared_by
from skyrocketmq.ports import TcpLink
from skyrocketmq.testing import ManualClock
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.frames import Frame, encode_frame
from skyrocketmq.wire.registration import encode_registration
from skyrocketmq.wire.signing import sign_request
from tests.nameserver.test_server import ADDRESS, Peer, name_server, registered
from tests.net.elsewhere import ElsewhereLink
from tests.net.support import until

ACCOUNTS = """
globalWhiteRemoteAddresses: [10.0.7.*]
accounts:
  - {accessKey: the-broker, secretKey: broker-secret, admin: true}
  - {accessKey: a-client, secretKey: client-secret, defaultTopicPerm: PUB|SUB}
"""
BROKER = ("the-broker", "broker-secret")
CLIENT = ("a-client", "client-secret")
CHANGES: list[tuple[int, dict[str, str | None]]] = [
    (RequestCode.UNREGISTER_BROKER, {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C"}),
    (RequestCode.PUT_KV_CONFIG, {"namespace": "N", "key": "k", "value": "v"}),
    (RequestCode.DELETE_KV_CONFIG, {"namespace": "N", "key": "k"}),
    (RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}),
    (RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}),
    (RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T"}),
    (RequestCode.QUERY_DATA_VERSION, {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C"}),
    (RequestCode.UPDATE_NAMESRV_CONFIG, {}),
    (RequestCode.GET_NAMESRV_CONFIG, {}),
]
READS: list[tuple[int, dict[str, str | None]]] = [
    (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}),
    (RequestCode.GET_BROKER_CLUSTER_INFO, {}),
    (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
]


# Written down apart from the declarations: who may do what changes only on purpose.
FOR_EVERYBODY = {101, 105, 106, 206, 219, 224, 304, 311, 312, 313}
FOR_SOME = {100, 102, 103, 104, 205, 216, 318, 319, 322, 327}


def test_who_may_send_each_request_is_what_is_written_down_here() -> None:
    declared = declared_by(NameServerHandlers)
    assert {code for code, each in declared.items() if each.needs is Needs.NOTHING} == FOR_EVERYBODY
    assert {code for code, each in declared.items() if each.needs is Needs.CHANGING} == FOR_SOME
    assert all(each.meaning for each in declared.values())


async def test_a_request_that_nobody_thought_of_is_a_change(tmp_path: Path) -> None:
    async with name_server(tmp_path, changes_allowed_from="10.9.9.9") as server:
        assert set(server.dispatcher.codes) == FOR_EVERYBODY | FOR_SOME
        server.dispatcher.register(9999, lambda frame, _: frame.reply())
        async with Client() as client:
            answer = await client.request(server.address, Frame(9999), 3)
            assert (answer.code, "changesAllowedFrom" in (answer.remark or "")) == (1, True)


class SourceLink(TcpLink):
    """Connects from another address of this machine: 127.0.7.1 is seen as 10.0.7.1."""

    def __init__(self, source: str) -> None:
        self._source = source

    async def connect(self, factory: Any, host: str, port: int) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.create_connection(factory, host, port, local_addr=(self._source, 0))


@dataclass
class Town:
    """A name server, and whoever comes to it from different machines."""

    server: NameServer
    _opened: AsyncExitStack

    async def client(self, source: str = "127.0.0.1", account: tuple[str, str] | None = None) -> Client:
        def sign(address: str, frame: Frame) -> None:
            if account is not None:
                frame.ext = sign_request(frame.ext, frame.body, access_key=account[0], secret_key=account[1])

        client = Client(link=SourceLink(source), before_request=sign)
        return await self._opened.enter_async_context(client)

    async def peer(self, source: str = "127.0.0.1", account: tuple[str, str] | None = None) -> Peer:
        return Peer(self.server.address, await self.client(source, account))

    @property
    def connections(self) -> Set[Connection]:
        assert self.server._server is not None
        return self.server._server.connections

    def address_of(self, name: str, broker_id: int = 0) -> str | None:
        found = self.server.tables.cluster_info().broker_addr_table.get(name)
        return None if found is None else found.broker_addrs.get(broker_id)


@asynccontextmanager
async def town(directory: Path, **changes: Any) -> AsyncIterator[Town]:
    if changes.get("acl_enable"):
        (directory / "plain_acl.yml").write_text(ACCOUNTS)
    async with name_server(directory, link=ElsewhereLink(), **changes) as server, AsyncExitStack() as opened:
        yield Town(server, opened)


async def check_refused(peer: Peer) -> None:
    """Everything that changes something is refused, and nothing is changed."""
    for code, ext in CHANGES:
        answer = await peer.ask(code, dict(ext), body=b"orderMessageEnable=true\n")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "AclException" in (answer.remark or ""), RequestCode(code).name
        assert answer.body == b""
    answer = await peer.register("Other", address="10.66.6.6:10911")
    assert "AclException" in (answer.remark or "")


async def check_allowed(peer: Peer) -> None:
    assert (await peer.register("T")).code == ResponseCode.SUCCESS
    for code, ext in CHANGES[1:]:
        answer = await peer.ask(code, dict(ext), body=b"{}" if code == RequestCode.QUERY_DATA_VERSION else b"")
        assert answer.code == ResponseCode.SUCCESS, (RequestCode(code).name, answer.remark)


@pytest.mark.parametrize("account", [None, ("the-broker", "wrong-secret"), ("unknown-key", "whatever"), CLIENT])
async def test_with_accounts_only_administrators_change_anything(
    tmp_path: Path, account: tuple[str, str] | None
) -> None:
    async with town(tmp_path, acl_enable=True) as here:
        broker = await here.peer(account=BROKER)
        assert (await broker.register("T")).code == ResponseCode.SUCCESS
        stranger = await here.peer(account=account)
        await check_refused(stranger)
        for code, ext in READS:
            await stranger.ok(code, ext)
        assert await stranger.topics() == ["T"]
        assert here.address_of("broker-a") == ADDRESS
        assert not (tmp_path / "kv" / "kvConfig.json").exists()


async def test_with_accounts_administrators_and_white_addresses_change_everything(tmp_path: Path) -> None:
    async with town(tmp_path, acl_enable=True) as here:
        await check_allowed(await here.peer(account=BROKER))
        await check_allowed(await here.peer("127.0.7.1"))


async def test_accounts_are_followed_while_the_server_runs(tmp_path: Path) -> None:
    clock = ManualClock()
    async with town(tmp_path, acl_enable=True, clock=clock) as here:
        stranger = await here.peer("127.0.8.1")
        await check_refused(stranger)
        (tmp_path / "plain_acl.yml").write_text(ACCOUNTS.replace("10.0.7.*", "10.0.8.*"))
        await clock.advance(WATCH_INTERVAL_S + 1)
        async with asyncio.timeout(5):
            while (await stranger.register("T")).code:
                pass  # until a thread has read it


async def test_changes_are_taken_from_listed_addresses_only_even_if_signed(tmp_path: Path) -> None:
    async with town(tmp_path, changes_allowed_from="127.0.0.1,10.0.7.*") as here:
        await check_allowed(await here.peer())
        await check_refused(await here.peer("127.0.8.1"))
    async with town(tmp_path, changes_allowed_from="127.0.0.1", acl_enable=True) as here:
        await check_refused(await here.peer("127.0.8.1", account=BROKER))
        await check_refused(await here.peer("127.0.7.1"))
        await check_allowed(await here.peer(account=BROKER))


# ------------------------------------------------------------------------------------------------ names that are in use

FALSE = "10.66.6.6:10911"


async def test_a_name_that_is_in_use_is_not_given_to_another_machine(tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        real, false = await here.peer("127.0.1.1"), await here.peer("127.0.2.2")
        assert (await real.register("T")).code == ResponseCode.SUCCESS
        for address in (FALSE, ADDRESS):
            answer = await false.register("T", address=address, counter=9)
            assert (answer.code, "answers there" in (answer.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        goodbye = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0"}
        assert (await false.ask(RequestCode.UNREGISTER_BROKER, {**goodbye})).code == ResponseCode.SYSTEM_ERROR
        assert here.address_of("broker-a") == ADDRESS
        assert (await real.register("T", counter=2)).code == ResponseCode.SUCCESS
        assert (await real.ask(RequestCode.UNREGISTER_BROKER, {**goodbye})).code == ResponseCode.SUCCESS
        assert (await false.register("T", address=FALSE)).code == ResponseCode.SUCCESS


async def test_a_broker_comes_back_elsewhere_though_its_old_connection_is_not_known_to_be_dead(tmp_path: Path) -> None:
    clock = ManualClock()
    async with town(tmp_path, clock=clock) as here:
        dead = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, "127.0.0.1", here.server.port, local_addr=("127.0.1.1", 0)
        )
        dead[0].write(registration_bytes())  # and then it never says anything again
        await until(lambda: here.address_of("broker-a") == ADDRESS)
        again = await here.peer("127.0.2.2")
        registering = asyncio.ensure_future(again.register("T", address="10.0.2.2:10911"))
        speaker = next(iter(here.connections))
        await until(lambda: speaker.waiting_count)
        await clock.advance(PROBE_S + 0.1)
        assert (await registering).code == ResponseCode.SUCCESS
        assert here.address_of("broker-a") == "10.0.2.2:10911"
        dead[0].abort()
        await until(lambda: speaker.is_closed)
        assert here.address_of("broker-a") == "10.0.2.2:10911"


async def test_a_broker_that_left_is_replaced_at_once(tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        async with Client(link=SourceLink("127.0.1.1")) as leaving:
            await Peer(here.server.address, leaving).register("T")
        await until(lambda: here.address_of("broker-a") is None)
        assert (await (await here.peer("127.0.2.2")).register("T", address=FALSE)).code == ResponseCode.SUCCESS


async def test_a_slave_becomes_the_master_of_its_name_and_a_restart_changes_the_port(tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        master, slave = await here.peer("127.0.1.1"), await here.peer("127.0.2.2")
        assert (await master.register("T")).code == ResponseCode.SUCCESS
        assert (await master.register("T", address="10.0.0.1:20911")).code == ResponseCode.SUCCESS
        assert (await slave.register("T", broker_id=1, address="10.0.2.2:10911")).code == ResponseCode.SUCCESS
        assert (await slave.register("T", broker_id=0, address="10.0.2.2:10911")).code == ResponseCode.SUCCESS
        assert here.address_of("broker-a") == "10.0.2.2:10911"


@pytest.mark.parametrize(
    ("changes", "account"), [({"allow_broker_takeover": True}, None), ({"acl_enable": True}, BROKER)]
)
async def test_who_is_trusted_may_take_over_a_name(
    tmp_path: Path, changes: dict[str, Any], account: tuple[str, str] | None
) -> None:
    async with town(tmp_path, **changes) as here:
        assert (await (await here.peer("127.0.1.1", account)).register("T")).code == ResponseCode.SUCCESS
        other = await here.peer("127.0.2.2", account)
        assert (await other.register("T", address=FALSE)).code == ResponseCode.SUCCESS
        assert here.address_of("broker-a") == FALSE


def registration_bytes() -> bytes:
    ext: dict[str, str | None] = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0"}
    body = encode_registration(registered(["T"], counter=1), compressed=False)
    return encode_frame(Frame(RequestCode.REGISTER_BROKER, 1, ext=ext, body=body))
