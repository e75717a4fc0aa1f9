"""A broker that the name server believes in and nobody can reach: what a crashed machine leaves for two minutes."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from skyrocketmq.model import DataVersion, TopicConfig
from skyrocketmq.net import Client
from skyrocketmq.wire.bodies_tables import TopicConfigTable
from skyrocketmq.wire.codes import RequestCode
from skyrocketmq.wire.frames import Frame
from skyrocketmq.wire.headers_codec import encode_header
from skyrocketmq.wire.headers_namesrv import RegisterBrokerHeader
from skyrocketmq.wire.registration import RegisterBrokerBody, encode_registration

__all__ = ["ghost_address", "ghost_broker"]


@asynccontextmanager
async def ghost_address() -> AsyncIterator[str]:
    """An address where nobody listens, and which nobody else gets."""
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@asynccontextmanager
async def ghost_broker(
    namesrv: str, *, topics: Iterable[str] = (), name: str = "broker-z", broker_id: int = 0
) -> AsyncIterator[str]:
    """Register a broker with these topics at an address where nobody listens; gives that address."""
    table = TopicConfigTable(
        data_version=DataVersion(timestamp=1, counter=1),
        topic_config_table={topic: TopicConfig(topic, 4, 4) for topic in topics},
    )
    async with ghost_address() as address, Client() as client:
        header = RegisterBrokerHeader(
            broker_name=name,
            broker_addr=address,
            cluster_name="DefaultCluster",
            ha_server_addr=address,
            broker_id=broker_id,
        )
        body = encode_registration(RegisterBrokerBody(topics=table))
        # The connection stays open meanwhile: a lost one would end the registration.
        answer = await client.request(
            namesrv, Frame(RequestCode.REGISTER_BROKER, ext=encode_header(header), body=body), 5
        )
        assert answer.code == 0, answer.remark
        yield address
