"""The commonest mistakes, and what the client says about them: what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocketmq import Admin, Credentials, Message, Producer, PushConsumer
from skyrocketmq.errors import BrokerError, ConnectFailed, IllegalArgument, NoRoute
from tests.admin.ghost import ghost_address, ghost_broker
from tests.client.cluster import Cluster, open_cluster


async def test_a_wrong_name_server_address() -> None:
    async with ghost_address() as address, Producer("senders", namesrv=address) as producer:
        with pytest.raises(
            ConnectFailed, match=f"no name server could be asked about topic T. {address}: no connection"
        ):
            await producer.send(Message("T", b"x"))


def test_a_name_server_without_a_port() -> None:
    with pytest.raises(IllegalArgument, match="localhost"):
        Producer("senders", namesrv="localhost")


async def test_an_unknown_topic_where_automatic_creation_is_off(tmp_path: Path) -> None:
    settings = {"autoCreateTopicEnable": "false"}
    async with (
        open_cluster(tmp_path, broker_count=2, settings=settings) as cluster,
        Producer("senders", namesrv=cluster.namesrv) as producer,
    ):
        with pytest.raises(NoRoute) as caught:
            await producer.send(Message("T", b"x"))
    assert str(caught.value) == (
        f"no route for topic T: asked name server {cluster.namesrv}, which does not know it; automatic creation (of "
        "TBW102) is off on broker-a and broker-b: create the topic, or set autoCreateTopicEnable=true on a broker"
    )


async def test_a_broker_that_is_down(cluster: Cluster) -> None:
    async with (
        ghost_broker(cluster.namesrv, topics=["T"]) as address,
        Producer("senders", namesrv=cluster.namesrv) as producer,
    ):
        text = f"topic T was not acknowledged after .*broker-z: no connection to {address}"
        with pytest.raises(ConnectFailed, match=text):
            await producer.send(Message("T", b"x"))


async def test_an_account_that_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts:\n  - {accessKey: the-chief, secretKey: chief-secret, admin: true}\n")
    settings = {"aclEnable": "true", "rocketmq.acl.plain.file": str(path)}
    async with open_cluster(tmp_path / "data", settings=settings) as cluster:
        cluster.create_topic("T")
        address = cluster.brokers["broker-a"].address
        stranger = Credentials("a-stranger", "whatever")
        async with Producer("senders", namesrv=cluster.namesrv, credentials=stranger) as producer:
            with pytest.raises(
                BrokerError, match=f"from {address}: .*the access key is not known here, or the signature"
            ):
                await producer.send(Message("T", b"x"))


async def test_a_topic_that_may_not_be_written(cluster: Cluster) -> None:
    async with (
        Admin(namesrv=cluster.namesrv) as admin,
        Producer("senders", namesrv=cluster.namesrv) as producer,
    ):
        await admin.topics.create("T", permission="R")
        with pytest.raises(
            NoRoute, match=r"no queue of topic T can be written: .*broker-a.*permission does not allow it"
        ):
            await producer.send(Message("T", b"x"))


async def test_a_message_that_is_too_large(cluster: Cluster) -> None:
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        with pytest.raises(IllegalArgument, match=r"the limit is 4194304: send less, or raise message_bytes_max"):
            await producer.send(Message("T", bytes(5 * 1024 * 1024)))


def test_an_illegal_group_name() -> None:
    with pytest.raises(IllegalArgument, match=r"the group name 'my group' contains ' '; allowed are letters, digits"):
        PushConsumer("my group", namesrv="localhost:9876")
