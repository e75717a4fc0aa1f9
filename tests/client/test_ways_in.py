"""One cluster reached in other ways: TLS, the second port, namespaces, binary headers; and the package's own face."""

from __future__ import annotations

import subprocess
import sys

import pytest

import skyrocketmq
from skyrocketmq.client.producer import Producer
from skyrocketmq.client.push_consumer import PushConsumer
from skyrocketmq.client.settings import SharedOptions
from skyrocketmq.errors import BrokerError
from skyrocketmq.model import Message
from skyrocketmq.net import ClientTls
from tests.client.cluster import Cluster, until
from tests.client.test_push_consumer import Inbox

WAYS = [
    SharedOptions(tls=ClientTls(verify=False)),
    SharedOptions(vip_channel=True),
    SharedOptions(namespace="ns"),
    SharedOptions(binary_headers=True),
    SharedOptions(unit_name="unit", unit_mode=True),
]


@pytest.mark.parametrize("options", WAYS, ids=lambda options: next(iter(options)))
@pytest.mark.parametrize("orderly", [False, True])
async def test_messages_go_and_come_in_every_way(cluster: Cluster, options: SharedOptions, orderly: bool) -> None:
    cluster.create_topic("ns%T" if "namespace" in options else "T", queues=2)
    inbox = Inbox()
    consumer = PushConsumer("readers", namesrv=cluster.namesrv, orderly=orderly, **options)
    consumer.subscribe("T", "A", inbox)
    async with consumer, Producer("senders", namesrv=cluster.namesrv, **options) as producer:
        for _ in range(5):
            await producer.send(Message("T", b"x", tags="A"))
        await until(lambda: len(inbox.messages) == 5)
    assert {message.topic for message in inbox.messages} == {"T"}


async def test_the_environment_names_the_name_servers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    cluster.create_topic("T")
    async with Producer("senders") as producer:
        await producer.send(Message("T", b"x"))


async def test_an_expression_that_the_broker_cannot_filter_by_ends_the_start(cluster: Cluster) -> None:
    cluster.create_topic("T")
    consumer = PushConsumer("readers", namesrv=cluster.namesrv)
    consumer.subscribe("T", sql="colour = 'blue'")(Inbox())
    async with Producer("senders", namesrv=cluster.namesrv) as producer:
        await producer.send(Message("T", b"x"))
        with pytest.raises(BrokerError):
            await consumer.start()
    assert "readers" not in cluster.brokers["broker-a"].tables.consumers.groups()


class TestThePackage:
    def test_what_applications_use_stands_in_it(self) -> None:
        for name in skyrocketmq.__all__:
            assert getattr(skyrocketmq, name) is not None
        assert set(dir(skyrocketmq)) == set(skyrocketmq.__all__)
        with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
            _ = skyrocketmq.Nonsense  # type: ignore[attr-defined]

    def test_nothing_is_loaded_before_it_is_used_and_nothing_is_printed(self) -> None:
        program = (
            "import sys, skyrocketmq\n"
            "assert 'skyrocketmq.client' not in sys.modules\n"
            "assert 'asyncio' not in sys.modules\n"
            "skyrocketmq.Producer\n"
            "import logging; logging.getLogger('skyrocketmq.client').warning('silence')\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
