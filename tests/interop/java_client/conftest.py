"""The settings that every test here runs in: a cluster, and how Apache's client writes its headers to it.

Our clusters, of one broker and of two; one of each make, at Apache's name server; and Apache's own, where a check shows
that it is right. Every run has all tests in the first setting, and in the one that differs from it in both ways some
(`IN_BOTH`); `make interop-all` has the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.interop.apache import DEFAULT_CLUSTER, Apache
from tests.interop.clusters import CLUSTERS, Cluster
from tests.interop.driver import Driver, Producer
from tests.interop.java_client.support import QUEUES_A_BROKER, fresh_name


class Setting(NamedTuple):
    cluster: str
    headers: str


FIRST: Final = "ours"
OPPOSITE: Final = "ours, one broker, binary headers"
SETTINGS: Final = {
    FIRST: Setting("ours", "json"),
    "ours, binary headers": Setting("ours", "binary"),
    "ours, one broker": Setting("ours, one broker", "json"),
    OPPOSITE: Setting("ours, one broker", "binary"),
    "mixed": Setting("mixed", "json"),
    "apache": Setting("apache", "json"),
}
IN_BOTH: Final = {"test_sending.py", "test_asking.py", "test_transactions.py"}
"""Files whose tests run in the opposite setting every time: one of each kind of request in binary headers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function) or item.path.parent != Path(__file__).parent:
            continue
        setting = item.callspec.params["setting"]
        if setting != FIRST and not (setting == OPPOSITE and item.path.name in IN_BOTH):
            item.add_marker(pytest.mark.reference)


@pytest.fixture(scope="package", params=list(SETTINGS))
def setting(request: pytest.FixtureRequest) -> Setting:
    return SETTINGS[request.param]


@pytest.fixture(scope="package")
def cluster(setting: Setting, apache: Apache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = {
        "enablePropertyFilter": "true",
        "transactionCheckInterval": "1000",
        "transactionTimeOut": "1000",
        "waitTimeMillsInSendQueue": "5000",  # a busy machine is no reason to refuse
    }
    with CLUSTERS[setting.cluster](apache, tmp_path_factory.mktemp("cluster"), config) as started:
        yield started


@pytest.fixture(scope="package")
def java(setting: Setting, java: Driver, request: pytest.FixtureRequest) -> Driver:
    """Apache's client, with the headers of the setting."""
    if setting.headers == "json":
        return java
    driver: Driver = request.getfixturevalue("java_with_binary_headers")
    return driver


@pytest.fixture
def topic(java: Driver, cluster: Cluster) -> str:
    """A fresh topic with so many queues on each broker."""
    name = fresh_name("Topic")
    queues = ("-r", str(QUEUES_A_BROKER), "-w", str(QUEUES_A_BROKER))
    java.mqadmin("updateTopic", "-c", DEFAULT_CLUSTER, "-t", name, *queues, namesrv=cluster.namesrv)
    return name


@pytest.fixture
def producer(java: Driver, cluster: Cluster) -> Iterator[Producer]:
    with java.producer("interop-producer", namesrv=cluster.namesrv) as running:
        yield running
