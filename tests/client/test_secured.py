"""Clients of a cluster that wants to know who they are: signed requests, and certificates on both sides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from skyrocketmq import Credentials, LitePullConsumer, Message, MessageView, Producer, PullConsumer, PushConsumer
from skyrocketmq.client.settings import SharedOptions, credentials_from, settings_from
from skyrocketmq.errors import BrokerError, IllegalArgument, MQError, NetError
from skyrocketmq.net import ClientTls
from tests.client.cluster import Cluster, open_cluster, until

ACCOUNTS = """
accounts:
  - {accessKey: both-ways, secretKey: secret-of-both, topicPerms: [T=PUB|SUB], groupPerms: [readers=SUB]}
  - {accessKey: only-writes, secretKey: secret-of-writer, defaultTopicPerm: PUB}
"""
BOTH = Credentials("both-ways", "secret-of-both")
WRITER = Credentials("only-writes", "secret-of-writer", "a-token")


@pytest.fixture
async def guarded(tmp_path: Path, nothing_is_left_behind: None) -> AsyncIterator[Cluster]:
    """A broker with two accounts."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmq.acl.plain.file": str(path)}
    async with open_cluster(tmp_path / "data", settings=settings) as opened:
        opened.create_topic("T", queues=1)
        yield opened


@pytest.mark.parametrize("binary_headers", [False, True], ids=["JSON", "binary"])
async def test_signed_requests_of_every_kind_of_client_are_let_in(guarded: Cluster, binary_headers: bool) -> None:
    options: Any = {"namesrv": guarded.namesrv, "binary_headers": binary_headers}
    async with Producer("senders", credentials=WRITER, **options) as producer:
        await producer.send(Message("T", b"one", keys=["k"]))
        await producer.send_batch([Message("T", b"two"), Message("T", b"three")])
        await producer.send_oneway(Message("T", b"four"))
    got: list[bytes] = []
    consumer = PushConsumer("readers", credentials=BOTH, consume_from="first", **options)

    @consumer.subscribe("T")
    async def take(message: MessageView) -> None:
        got.append(message.body)

    async with consumer:
        await until(lambda: len(got) == 4)
    assert sorted(got) == [b"four", b"one", b"three", b"two"]
    async with PullConsumer("readers", credentials=BOTH, **options) as puller:
        (queue,) = await puller.queues("T")
        assert len((await puller.pull(queue, 0)).messages) == 4
        await puller.commit(queue, 2)
        assert await puller.committed(queue) == 2
        assert await puller.max_offset(queue) == 4
    lite = LitePullConsumer("readers", credentials=BOTH, **options)
    lite.subscribe("T")
    async with lite:
        polled: list[MessageView] = []
        async with asyncio.timeout(10):
            while len(polled) < 2:
                polled += await lite.poll(0.2)
    assert len(polled) == 2


@pytest.mark.parametrize(
    "credentials", [None, Credentials("both-ways", "a-wrong-one"), Credentials("nobody1", "nobody1")]
)
async def test_a_sender_without_the_right_is_refused(guarded: Cluster, credentials: Credentials | None) -> None:
    async with Producer("senders", namesrv=guarded.namesrv, credentials=credentials, retry_count_max=0) as producer:
        with pytest.raises(MQError, match="AclException") as refused:
            await producer.send(Message("T", b"x"))
    assert "a-wrong-one" not in str(refused.value)


async def test_a_reader_without_the_right_sees_nothing(guarded: Cluster) -> None:
    async with Producer("senders", namesrv=guarded.namesrv, credentials=WRITER) as producer:
        sent = await producer.send(Message("T", b"for readers"))
    async with PullConsumer("readers", namesrv=guarded.namesrv, credentials=WRITER) as consumer:
        for asked in (consumer.pull(sent.queue, 0), consumer.committed(sent.queue)):
            with pytest.raises(BrokerError, match="no permission"):
                await asked


class TestEnvironment:
    def test_credentials_come_from_the_environment_where_none_are_given(self) -> None:
        environ = {"ROCKETMQ_ACCESS_KEY": "key", "ROCKETMQ_SECRET_KEY": "secret", "ROCKETMQ_SECURITY_TOKEN": "token"}
        found = settings_from("127.0.0.1:1", SharedOptions(), environ=environ).credentials
        assert found == Credentials("key", "secret", "token")
        given = SharedOptions(credentials=BOTH)
        assert settings_from("127.0.0.1:1", given, environ=environ).credentials == BOTH
        assert settings_from("127.0.0.1:1", SharedOptions(credentials=None), environ=environ).credentials is None
        assert credentials_from({}) is None

    @pytest.mark.parametrize("name", ["ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY"])
    def test_half_of_them_is_an_error_that_names_the_other_half(self, name: str) -> None:
        with pytest.raises(IllegalArgument, match="ROCKETMQ_") as refused:
            credentials_from({name: "my-secret"})
        assert "my-secret" not in str(refused.value)

    def test_credentials_do_not_show_their_secret(self) -> None:
        assert "secret" not in repr(BOTH)
        assert "token" not in repr(WRITER)


async def test_certificates_on_both_sides_let_clients_in_and_keep_strangers_out(
    tmp_path: Path, nothing_is_left_behind: None
) -> None:
    authority, strangers = trustme.CA(), trustme.CA()
    paths = {name: tmp_path / f"{name}.pem" for name in ("authority", "server", "client", "stranger")}
    authority.cert_pem.write_to_path(str(paths["authority"]))
    for name, issuer in (("server", authority), ("client", authority), ("stranger", strangers)):
        issuer.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(paths[name]))
    settings = {
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(paths["server"]),
        "tls.server.keyPath": str(paths["server"]),
        "tls.server.trustCertPath": str(paths["authority"]),
        "tls.server.need.client.auth": "require",
        "tls.enable": "true",  # the broker is the name server's client
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(paths["authority"]),
        "tls.client.certPath": str(paths["client"]),
        "tls.client.keyPath": str(paths["client"]),
    }
    ours = ClientTls(verify=True, trust_path=paths["authority"], certificate_path=paths["client"], check_hostname=True)
    foreign = ClientTls(verify=True, trust_path=paths["authority"], certificate_path=paths["stranger"])
    no_certificate = ClientTls(verify=True, trust_path=paths["authority"])
    async with open_cluster(tmp_path / "data", settings=settings, namesrv_settings=settings) as cluster:
        cluster.create_topic("T", queues=1)
        async with (
            Producer("senders", namesrv=cluster.namesrv, tls=ours) as producer,
            PullConsumer("readers", namesrv=cluster.namesrv, tls=ours) as consumer,
        ):
            sent = await producer.send(Message("T", b"through TLS"))
            assert [each.body for each in (await consumer.pull(sent.queue, 0)).messages] == [b"through TLS"]
        for tls in (False, foreign, no_certificate):
            async with Producer("senders", namesrv=cluster.namesrv, tls=tls, api_timeout_s=1.0) as stranger:
                with pytest.raises((NetError, MQError)):
                    await stranger.send(Message("T", b"x"))
        assert cluster.brokers["broker-a"].store.max_offset("T", 0) == 1
