"""A name server and two masters, of either make, for tests of Apache's client on a whole cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.interop.apache import Apache
from tests.interop.processes import RunningServer

BROKER_NAMES = ("broker-a", "broker-b")


@dataclass(frozen=True)
class Cluster:
    namesrv: str
    brokers: Mapping[str, RunningServer]  # by name


@contextmanager
def apaches_cluster(apache: Apache, *, config: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Apache's name server and two of its brokers."""
    with ExitStack() as running:
        namesrv = running.enter_context(apache.namesrv())
        brokers = {
            name: running.enter_context(apache.broker(namesrv=namesrv.address, name=name, config=config, start=False))
            for name in BROKER_NAMES
        }
        for broker in brokers.values():
            broker.start(wait=False)
        for broker in brokers.values():
            broker.wait_ready()
        yield Cluster(namesrv.address, brokers)
