"""`Admin` for code that blocks: nothing of the asyncio one is missing, and it works from a plain thread."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from skyrocketmq import Admin, Message, MessageQueue, blocking
from skyrocketmq.errors import ClientError, NoRoute
from tests.client.cluster import Cluster

FOR_PARTS_ONLY = {"statistic_at", "delete_at"}  # called by other parts, which know a broker process


async def test_every_method_of_every_member_has_its_blocking_namesake(cluster: Cluster, admin: Admin) -> None:
    face = blocking.Admin(namesrv=cluster.namesrv)
    members = [name for name, value in vars(Admin).items() if isinstance(value, property) and name != "client_id"]
    assert len(members) == 11
    for member in members:
        part = getattr(admin, member)
        methods = {
            name
            for name, value in inspect.getmembers(type(part))
            if not name.startswith("_")
            and (inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value))
            and name not in FOR_PARTS_ONLY
        }
        assert {name for name in methods if not callable(getattr(getattr(face, member), name, None))} == set()


async def test_a_cluster_is_administered_from_a_thread(cluster: Cluster) -> None:
    def work() -> list[bytes]:
        with blocking.Admin(namesrv=cluster.namesrv) as admin:
            assert admin.name_servers.addresses == (cluster.namesrv,)
            admin.topics.create("T", queues=1)
            for number in range(40):
                admin.messages.send(Message("T", str(number).encode()), queue=MessageQueue("T", "broker-a", 0))
            with pytest.raises(NoRoute):
                admin.topics.stats("Other")
            return [message.body for message in admin.messages.scan("T")]

    assert await asyncio.to_thread(work) == [str(number).encode() for number in range(40)]


def test_it_says_that_it_is_not_started() -> None:
    with pytest.raises(ClientError, match="is not started: use it inside 'with'"):
        blocking.Admin(namesrv="127.0.0.1:1").topics.names()
