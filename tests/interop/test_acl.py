"""Access control across the two makes: signed clients of either on brokers of either, and mqadmin on the accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from skyrocketmq import Credentials, LitePullConsumer, Message, MessageView, Producer, PullConsumer, PushConsumer
from skyrocketmq.errors import MQError
from tests.interop.apache import READY_TIMEOUT_S, Apache
from tests.interop.client.support import fresh_name, until
from tests.interop.driver import Driver, JavaError, Queue, message
from tests.interop.ours import Broker, NameServer, running
from tests.interop.processes import wait_until
from tests.interop.routes import all_addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(90, func_only=True)]

GROUP = "acl-readers"
ADMIN = {"access_key": "the-admin", "secret_key": "admin-secret"}
WRITER = {"access_key": "the-writer", "secret_key": "writer-secret"}
READER = {"access_key": "the-reader", "secret_key": "reader-secret"}
ACCOUNTS = f"""
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: the-admin
    secretKey: admin-secret
    admin: true
  - accessKey: the-writer
    secretKey: writer-secret
    defaultTopicPerm: PUB
    defaultGroupPerm: DENY
  - accessKey: the-reader
    secretKey: reader-secret
    defaultTopicPerm: SUB
    defaultGroupPerm: DENY
    groupPerms:
      - {GROUP}=SUB
"""
OUR_WRITER = Credentials("the-writer", "writer-secret")
OUR_READER = Credentials("the-reader", "reader-secret")


@dataclass(frozen=True)
class Guarded:
    """A cluster of one broker with accounts."""

    namesrv: str
    broker: str
    accounts: Path
    is_ours: bool


@contextmanager
def our_cluster(directory: Path) -> Iterator[Guarded]:
    with running(NameServer(directory / "namesrv")) as namesrv:
        broker = Broker(directory / "broker", namesrv=namesrv.address, config={"aclEnable": "true"})
        path = broker.directory / "plain_acl.yml"
        path.write_text(ACCOUNTS)
        with running(broker):
            yield Guarded(namesrv.address, broker.address, path, is_ours=True)


@contextmanager
def apaches_cluster(apache: Apache) -> Iterator[Guarded]:
    with (
        apache.namesrv() as namesrv,
        apache.broker(namesrv=namesrv.address, config={"aclEnable": "true"}, start=False) as broker,
    ):
        path = broker.home / "conf" / "plain_acl.yml"
        path.write_text(ACCOUNTS)
        broker.start(wait=False)  # what shows that others are ready is refused here
        broker.process.wait_until(lambda: broker.address in all_addresses(namesrv.address), timeout_s=READY_TIMEOUT_S)
        yield Guarded(namesrv.address, broker.address, path, is_ours=False)


@contextmanager
def refused_by_account() -> Iterator[None]:
    """What Apache's client is told, itself or as the reason of its last attempt."""
    with pytest.raises(JavaError) as refused:
        yield
    reason: BaseException | None = refused.value
    texts = []
    while reason is not None:
        texts.append(str(reason))
        reason = reason.__cause__
    assert "AclException" in "\n".join(texts)


@pytest.fixture(scope="module", params=["ours", "apache"])
def guarded(
    request: pytest.FixtureRequest, apache: Apache, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    opening = our_cluster(tmp_path_factory.mktemp("guarded")) if request.param == "ours" else apaches_cluster(apache)
    with opening as opened:
        yield opened


@pytest.fixture(scope="module")
def signing_java(apache: Apache) -> Iterator[Driver]:
    """Apache's tools, which sign what mqadmin asks as the administrator."""
    with apache.driver() as driver:
        (driver.home / "conf" / "tools.yml").write_text("accessKey: the-admin\nsecretKey: admin-secret\n")
        yield driver


@pytest.fixture
def topic(signing_java: Driver, guarded: Guarded) -> str:
    name = fresh_name("Guarded")
    printed = signing_java.mqadmin(
        "updateTopic", "-b", guarded.broker, "-t", name, "-r", "1", "-w", "1", namesrv=guarded.namesrv
    )
    assert "success" in printed
    return name


# ------------------------------------------------------------------------------------------------------ Apache's client


def test_apaches_signed_clients_are_let_in(java: Driver, guarded: Guarded, topic: str) -> None:
    with java.producer("acl-writers", namesrv=guarded.namesrv, **WRITER) as producer:
        (sent,) = producer.send(message(topic, "one", keys="key-1"))
        producer.send_batch(message(topic, "two"), message(topic, "three"))
        producer.send(message(topic, "four"), mode="oneway")
        with java.push_consumer(GROUP, namesrv=guarded.namesrv, topic=topic, from_="first", **READER) as consumer:
            assert {each.text for each in consumer.received(at_least=4)} == {"one", "two", "three", "four"}
    with java.admin(namesrv=guarded.namesrv, **READER) as admin:
        assert admin.view(sent.offset_msg_id or "").text == "one"
        if guarded.is_ours:  # Apache's own broker computes another signature than its client for a query by key
            assert [each.text for each in admin.query(topic, "key-1")] == ["one"]
            assert admin.view(sent.msg_id or "", topic=topic).text == "one"


@pytest.mark.parametrize(
    "account",
    [
        {},
        {"access_key": "the-writer", "secret_key": "wrong-secret"},
        {"access_key": "unknown", "secret_key": "unknown"},
    ],
    ids=["unsigned", "wrong secret", "unknown"],
)
def test_apaches_client_without_an_account_is_refused(
    java: Driver, guarded: Guarded, topic: str, account: dict[str, str]
) -> None:
    with (
        java.producer(fresh_name("acl-strangers"), namesrv=guarded.namesrv, **account) as producer,
        refused_by_account(),
    ):
        producer.send(message(topic, "x"))


def test_apaches_client_needs_the_topics_permission_for_every_kind_of_send(
    java: Driver, guarded: Guarded, topic: str
) -> None:
    with java.producer(fresh_name("acl-readers"), namesrv=guarded.namesrv, **READER) as producer:
        with refused_by_account():
            producer.send(message(topic, "x"))
        if guarded.is_ours:  # there a batch needs no permission at all
            with refused_by_account():
                producer.send_batch(message(topic, "x"), message(topic, "y"))


def test_apaches_client_without_the_group_gets_no_messages(java: Driver, guarded: Guarded, topic: str) -> None:
    with java.producer("acl-writers", namesrv=guarded.namesrv, **WRITER) as producer:
        producer.send(message(topic, "not for you"))
    with (
        java.pull_consumer("some-other-group", namesrv=guarded.namesrv, **READER) as consumer,
        refused_by_account(),
    ):
        consumer.pull(Queue(topic, "broker-a", 0), offset=0)


# ----------------------------------------------------------------------------------------------------------- our client


@pytest.mark.parametrize("binary_headers", [False, True], ids=["JSON", "binary"])
async def test_our_signed_clients_are_let_in(guarded: Guarded, topic: str, binary_headers: bool) -> None:
    options: Any = {"namesrv": guarded.namesrv, "binary_headers": binary_headers}
    async with Producer("acl-writers", credentials=OUR_WRITER, **options) as producer:
        await producer.send(Message(topic, b"one", keys=["key-1"], tags="TagA"))
        await producer.send_batch([Message(topic, b"two"), Message(topic, b"three")])
        await producer.send_oneway(Message(topic, b"four"))
        sent = await producer.send(Message(topic, b"five"))
    got: set[bytes] = set()

    async def take(received: MessageView) -> None:
        got.add(received.body)

    consumer = PushConsumer(GROUP, credentials=OUR_READER, consume_from="first", **options)
    consumer.subscribe(topic, "*", take)
    async with consumer:
        await until(lambda: len(got) == 5)
    assert got == {b"one", b"two", b"three", b"four", b"five"}
    async with PullConsumer(GROUP, credentials=OUR_READER, **options) as puller:
        found = await puller.pull(sent.queue, sent.queue_offset)
        assert found.messages[0].body == b"five"  # the one-way message may be stored after it, by another thread
        assert await puller.max_offset(sent.queue) == 5
    lite = LitePullConsumer(GROUP, credentials=OUR_READER, consume_from="first", **options)
    async with lite:
        lite.assign([sent.queue])
        await lite.seek(sent.queue, 0)
        polled: list[MessageView] = []
        async with asyncio.timeout(30):
            while len(polled) < 5:
                polled += await lite.poll(1.0)
    assert len(polled) == 5


@pytest.mark.parametrize("credentials", [None, OUR_READER, Credentials("the-writer", "wrong-secret")], ids=str)
async def test_our_client_without_the_right_is_refused(
    guarded: Guarded, topic: str, credentials: Credentials | None
) -> None:
    async with Producer(
        fresh_name("acl-strangers"), namesrv=guarded.namesrv, credentials=credentials, retry_count_max=0
    ) as producer:
        with pytest.raises(MQError, match="AclException"):
            await producer.send(Message(topic, b"x"))


# -------------------------------------------------------------------------------------------------------------- mqadmin


def test_mqadmin_makes_changes_shows_and_deletes_accounts(java: Driver, signing_java: Driver, guarded: Guarded) -> None:
    def mqadmin(*arguments: str) -> str:
        return signing_java.mqadmin(*arguments, "-b", guarded.broker, namesrv=guarded.namesrv)

    def secret_works(secret: str) -> bool:
        try:
            with java.producer(
                fresh_name("acl-new"), namesrv=guarded.namesrv, access_key="new-account", secret_key=secret
            ) as producer:
                producer.send(message("TBW102", "x"))
        except JavaError:
            return False
        return True

    made = mqadmin("updateAclConfig", "-a", "new-account", "-s", "new-secret", "-i", "PUB", "-u", "DENY")
    assert "success" in made
    wait_until(lambda: secret_works("new-secret"), timeout_s=20, what="the new account")
    changed = mqadmin(
        "updateAclConfig", "-a", "new-account", "-s", "other-secret", "-t", "TBW102=PUB,T=DENY", "-m", "false"
    )
    assert "success" in changed
    wait_until(lambda: secret_works("other-secret"), timeout_s=20, what="the changed account")
    assert not secret_works("new-secret")
    shown = mqadmin("getAclConfig")
    assert "new-account" in shown
    assert "10.10.103.*" in shown
    assert "success" in mqadmin("updateGlobalWhiteAddr", "-g", "10.10.103.*,192.168.0.*")
    assert "success" in mqadmin("deleteAclConfig", "-a", "new-account")
    wait_until(lambda: not secret_works("other-secret"), timeout_s=20, what="the deleted account")
    saved = yaml.safe_load(guarded.accounts.read_text())
    assert [account["accessKey"] for account in saved["accounts"]] == ["the-admin", "the-writer", "the-reader"]
    assert saved["globalWhiteRemoteAddresses"] == ["10.10.103.*", "192.168.0.*"]
    assert saved["dataVersion"][0]["counter"] == 4
    versions = mqadmin("clusterAclConfigVersion")
    assert "4" in versions
    assert "plain_acl.yml" in versions


def test_mqadmin_of_no_administrator_sees_and_changes_nothing(apache: Apache, guarded: Guarded, topic: str) -> None:
    if not guarded.is_ours:
        pytest.skip("Apache's own broker shows the accounts, secrets included, to every account")
    with apache.driver() as driver:
        (driver.home / "conf" / "tools.yml").write_text("accessKey: the-reader\nsecretKey: reader-secret\n")

        def mqadmin(*arguments: str) -> str:
            return driver.mqadmin(*arguments, "-b", guarded.broker, namesrv=guarded.namesrv)

        before = guarded.accounts.read_text()
        for arguments in (
            ("getAclConfig",),
            ("updateAclConfig", "-a", "the-reader", "-s", "reader-secret", "-m", "true"),
            ("deleteAclConfig", "-a", "the-admin"),
            ("updateGlobalWhiteAddr", "-g", "*"),
            ("cleanUnusedTopic",),
            ("cleanExpiredCQ",),
        ):
            printed = mqadmin(*arguments)
            assert "admin-secret" not in printed
            assert "success" not in printed.replace("result: success", "") or "AclException" in printed
        assert guarded.accounts.read_text() == before
