"""A name server and its masters, of either make, for tests of Apache's client on a whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.apache import Apache
from tests.interop.ours import Broker, NameServer, Up, running
from tests.interop.processes import RunningServer

BROKER_NAMES = ("broker-a", "broker-b")


@dataclass(frozen=True)
class Cluster:
    namesrv: str
    brokers: Mapping[str, RunningServer]  # by name

    @property
    def last_broker(self) -> RunningServer:
        """The one that a test stops: the others go on, if there are others."""
        return self.brokers[max(self.brokers)]


@contextmanager
def apaches_cluster(apache: Apache, directory: Path, config: Mapping[str, str]) -> Iterator[Cluster]:
    """Apache's name server and two of its brokers."""
    with ExitStack() as opened:
        namesrv = opened.enter_context(apache.namesrv())
        brokers = {
            name: opened.enter_context(apache.broker(namesrv=namesrv.address, name=name, config=config, start=False))
            for name in BROKER_NAMES
        }
        for broker in brokers.values():
            broker.start(wait=False)
        for broker in brokers.values():
            broker.wait_ready()
        yield Cluster(namesrv.address, brokers)


@contextmanager
def our_cluster(apache: Apache, directory: Path, config: Mapping[str, str]) -> Iterator[Cluster]:
    """Our name server and two of our brokers, each in a process of its own."""
    with ExitStack() as opened:
        namesrv = opened.enter_context(running(NameServer(directory / "namesrv")))
        brokers = {
            name: opened.enter_context(
                running(Broker(directory / name, namesrv=namesrv.address, name=name, config=config))
            )
            for name in BROKER_NAMES
        }
        yield Cluster(namesrv.address, brokers)


@contextmanager
def our_single_broker(apache: Apache, directory: Path, config: Mapping[str, str]) -> Iterator[Cluster]:
    """Everything in one process: `skyrocketmq up`. Whoever restarts the broker restarts the name server too."""
    with running(Up(directory / "up", config=config)) as server:
        yield Cluster(server.namesrv_address, {BROKER_NAMES[0]: server})


@contextmanager
def mixed_cluster(apache: Apache, directory: Path, config: Mapping[str, str]) -> Iterator[Cluster]:
    """Apache's name server, one broker of ours and one of Apache's."""
    ours, theirs = BROKER_NAMES
    with (
        apache.namesrv() as namesrv,
        running(Broker(directory / ours, namesrv=namesrv.address, name=ours, config=config)) as our_own,
        apache.broker(namesrv=namesrv.address, name=theirs, config=config) as other,
    ):
        yield Cluster(namesrv.address, {ours: our_own, theirs: other})


ON_APACHES = pytest.param("apache", marks=pytest.mark.reference)
"""A fixture's parameter for Apache's own cluster, where a check shows that it is right."""
ON_APACHES_5 = pytest.param("apache 5", marks=pytest.mark.reference)
"""A cluster of Apache's servers of the next major version; the fixture gives them as its `Apache`."""
CLUSTERS: Mapping[str, Callable[[Apache, Path, Mapping[str, str]], AbstractContextManager[Cluster]]] = {
    "apache": apaches_cluster,
    "apache 5": apaches_cluster,
    "ours": our_cluster,
    "ours, one broker": our_single_broker,
    "mixed": mixed_cluster,
}
