"""What one broker, or whoever says he is one, may put into the tables that everybody reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocketmq.wire.bodies_routes import decode_cluster_info
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.codes import RequestCode, ResponseCode
from skyrocketmq.wire.registration import RegisterBrokerBody, encode_registration
from tests.nameserver.test_access import Town, town
from tests.nameserver.test_server import ADDRESS, Peer

IDENTITY = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "C", "brokerId": "0"}
CODES = [RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.QUERY_DATA_VERSION]


async def brokers_of(peer: Peer) -> set[str]:
    return set(decode_cluster_info((await peer.ok(RequestCode.GET_BROKER_CLUSTER_INFO)).body).broker_addr_table)


@pytest.mark.parametrize(
    ("code", "field"),
    [(code, field) for code in CODES for field in ("brokerName", "brokerAddr", "clusterName")]
    + [(RequestCode.REGISTER_BROKER, "haServerAddr")],
)
async def test_names_and_addresses_have_a_limit(tmp_path: Path, code: int, field: str) -> None:
    async with town(tmp_path) as here:
        peer = await here.peer()
        await peer.ok(code, {**IDENTITY, field: "n" * 255}, body=b"{}")
        refused = await peer.ask(code, {**IDENTITY, field: "n" * 256}, body=b"{}")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark == f"the field {field} of request {code} has 256 characters, and 255 is the limit"


async def test_nobody_makes_the_list_of_brokers_too_large_for_an_answer(tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        peer = await here.peer()
        await peer.register("T")
        for number in range(60):
            assert (await peer.register("T", name="n" * 300_000 + str(number), address=f"10.2.0.{number}:1")).code == 1
        assert await brokers_of(peer) == {"broker-a"}


@pytest.mark.parametrize("servers", [["10.0.0.1:1"] * 101, ["s" * 256]])
async def test_filter_servers_have_limits(tmp_path: Path, servers: list[str]) -> None:
    async with town(tmp_path) as here:
        peer = await here.peer()
        body = encode_registration(RegisterBrokerBody(filter_server_list=servers, topics=TopicConfigTable()))
        refused = await peer.ask(RequestCode.REGISTER_BROKER, dict(IDENTITY), body=body)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "filter servers" in (refused.remark or "")
        assert await brokers_of(peer) == set()


# ---------------------------------------------------------------------------------------------- brokers of a connection


async def fill(here: Town) -> Peer:
    """Somebody who has registered as many brokers as one connection may."""
    peer = await here.peer()
    for number in range(3):
        assert (await peer.register("T", name=f"b{number}", address=f"10.0.0.{number}:1")).code == 0
    return peer


async def test_a_connection_speaks_for_so_many_brokers_and_no_more(tmp_path: Path) -> None:
    async with town(tmp_path, brokers_per_connection_max=3) as here:
        peer = await fill(here)
        refused = await peer.register("T", name="b3", address="10.0.0.3:1")
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "brokersPerConnectionMax" in (refused.remark or "")
        assert await brokers_of(peer) == {"b0", "b1", "b2"}
        assert (await peer.register("T", "U", name="b2", address="10.0.0.2:1", counter=2)).code == 0, "it is known"
        other = await here.peer()
        assert (await other.register("T", name="b3", address="10.0.0.3:1")).code == 0


@pytest.mark.parametrize(
    ("name", "address"),
    [("another", "10.0.0.2:1"), ("b2", "10.0.0.9:1")],
    ids=["another name at an address", "another address for a name"],
)
async def test_neither_names_nor_addresses_are_a_way_around(tmp_path: Path, name: str, address: str) -> None:
    async with town(tmp_path, brokers_per_connection_max=3) as here:
        peer = await fill(here)
        assert (await peer.register("T", name=name, address=address)).code == ResponseCode.SYSTEM_ERROR


async def test_a_broker_that_says_good_bye_makes_room(tmp_path: Path) -> None:
    async with town(tmp_path, brokers_per_connection_max=3) as here:
        peer = await fill(here)
        gone = {"brokerName": "b1", "brokerAddr": "10.0.0.1:1", "clusterName": "C", "brokerId": "0"}
        await peer.ok(RequestCode.UNREGISTER_BROKER, dict(gone))
        assert (await peer.register("T", name="b3", address="10.0.0.3:1")).code == 0
        assert (await peer.register("T", name="b1", address="10.0.0.1:1")).code == ResponseCode.SYSTEM_ERROR


async def test_two_connections_that_say_the_same_are_no_way_around(tmp_path: Path) -> None:
    async with town(tmp_path, brokers_per_connection_max=3) as here:
        one, other = await here.peer(), await here.peer()
        codes = [
            (await peer.register("T", name=f"b{number}", address=f"10.0.0.{number}:1")).code
            for number in range(9)
            for peer in (one, other)  # what the second repeats is its own from then on
        ]
        assert codes.count(0) == 2 * 3 + 3
        assert len(await brokers_of(one)) == 6


async def test_good_byes_of_others_are_no_way_around(tmp_path: Path) -> None:
    """A broker stays counted, and is gone with its connection, whatever is unregistered at its address."""
    async with town(tmp_path, brokers_per_connection_max=3) as here:
        peer = await here.peer()
        codes = set()
        for number in range(6):
            codes.add((await peer.register("T", name=f"b{number}")).code)
            await peer.ok(RequestCode.UNREGISTER_BROKER, {**IDENTITY, "brokerName": "nobody"})
        assert codes == {0, ResponseCode.SYSTEM_ERROR}
        assert await brokers_of(peer) == {"b0", "b1", "b2"}
