"""A test cluster's name server that asks the product environment for topics it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from skyrocketmq.config import NamesrvConfig
from skyrocketmq.nameserver import NameServer
from skyrocketmq.net import Client
from skyrocketmq.wire.bodies_routes import decode_route
from skyrocketmq.wire.codes import ResponseCode
from tests.nameserver.test_server import Peer, name_server


@asynccontextmanager
async def address_server(text: str) -> AsyncIterator[tuple[str, list[str]]]:
    """A page that answers every GET with this text; gives its address and the paths it was asked for."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode().split()[1])
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + text.encode() + b"\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


def cluster_test_config(directory: Path, domain: str) -> NamesrvConfig:
    return NamesrvConfig(kv_config_path=directory / "kvConfig.json", cluster_test=True, address_server_domain=domain)


async def test_a_topic_unknown_here_is_found_in_the_product_environment(tmp_path: Path) -> None:
    async with name_server(tmp_path / "product") as product, Client() as client:
        await Peer(product.address, client).register("T")
        async with (
            address_server(f"127.0.0.1:1;{product.address}") as (domain, asked),
            NameServer.open(cluster_test_config(tmp_path, domain), host="127.0.0.1", port=0) as testing,
        ):
            peer = Peer(testing.address, client)
            answer = await peer.route("T")
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert decode_route(answer.body).broker_datas[0].broker_name == "broker-a"
            missing = await peer.route("nowhere")
            assert missing.code == ResponseCode.TOPIC_NOT_EXIST
        assert asked == ["/rocketmq/nsaddr-center?nofix=1"], "the list is asked for once in two minutes"


async def test_an_address_server_that_is_down_is_named_in_the_answer(tmp_path: Path) -> None:
    config = cluster_test_config(tmp_path, "127.0.0.1:1")
    async with NameServer.open(config, host="127.0.0.1", port=0) as testing, Client() as client:
        answer = await Peer(testing.address, client).route("T")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert "http://127.0.0.1:1/rocketmq/nsaddr-center" in (answer.remark or "")
