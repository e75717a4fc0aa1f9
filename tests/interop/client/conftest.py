"""The clusters that every test here runs on, a topic, and a producer of ours.

Every run has all of them on our cluster, and on Apache's those that send and consume (`IN_EVERY_RUN`), unless they take
long (marked `slow`). `make interop-all` has the others, and all of them on Apache's servers of 5.4.0.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from skyrocketmq.client.producer import Producer
from tests.interop.apache import DEFAULT_CLUSTER, Apache
from tests.interop.client.support import QUEUES_A_BROKER, fresh_name
from tests.interop.clusters import CLUSTERS, ON_APACHES_5, Cluster
from tests.interop.driver import Driver
from tests.interop.processes import wait_until
from tests.interop.routes import find_route

SHORT_LOCKS: Final = {"rocketmq.broker.rebalance.lockMaxLiveTime": "31000"}
"""A second more than clients count on a lock, instead of 30: so long a test waits for the queues of a dead member. To
Apache's broker this is no key, but a system property; it keeps the usual 60 s."""

SOON_CHECKED: Final = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}


IN_EVERY_RUN: Final = {"test_sending.py", "test_consuming.py"}
"""Files whose tests run on Apache's cluster every time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function) or item.path.parent != Path(__file__).parent:
            continue
        is_on_apaches = hasattr(item, "callspec") and item.callspec.params.get("cluster") == "apache"
        if is_on_apaches and (item.path.name not in IN_EVERY_RUN or item.get_closest_marker("slow")):
            item.add_marker(pytest.mark.reference)


@pytest.fixture(scope="package", params=["ours", "apache", ON_APACHES_5])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers; one cluster for all tests, which use topics and groups of their own."""
    apache: Apache = request.getfixturevalue("apache_5" if request.param == "apache 5" else "apache")
    with CLUSTERS[request.param](apache, tmp_path_factory.mktemp("cluster"), SHORT_LOCKS | SOON_CHECKED) as started:
        yield started


@pytest.fixture
def topic(java: Driver, cluster: Cluster) -> str:
    """A fresh topic with so many queues on each broker."""
    name = fresh_name("Topic")
    queues = ("-r", str(QUEUES_A_BROKER), "-w", str(QUEUES_A_BROKER))
    java.mqadmin("updateTopic", "-c", DEFAULT_CLUSTER, "-t", name, *queues, namesrv=cluster.namesrv)
    wait_until(lambda: _broker_count(cluster, name) == 2, timeout_s=10, what=f"a route of {name} to both brokers")
    return name


def _broker_count(cluster: Cluster, topic: str) -> int:
    route = find_route(cluster.namesrv, topic)
    return len(route["queueDatas"]) if route is not None else 0


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[Producer]:
    async with Producer("interop-producer", namesrv=cluster.namesrv) as started:
        yield started
