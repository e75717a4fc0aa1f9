"""What several tests of this package need."""

from __future__ import annotations

from typing import Any

from skyrocketmq.broker.clients import Member
from skyrocketmq.config import BrokerConfig, ConfigHolder, Loaded
from skyrocketmq.ports import Clock, LocalDisk
from tests.waiting import until as until

CLUSTER = "ClusterOfTests"
BROKER = "broker-a"


def holder(clock: Clock, **values: Any) -> ConfigHolder[BrokerConfig]:
    """A configuration that is not written to any file when it is changed."""
    config = BrokerConfig(**({"cluster_name": CLUSTER, "broker_name": BROKER} | values))
    return ConfigHolder(Loaded(config), disk=LocalDisk(), clock=clock)


def member(connection: Any, *, client_id: str = "", heard_s: float = 0.0) -> Member[Any]:
    """A client that was heard at a time; anything may stand for its connection."""
    return Member(
        connection=connection,
        client_id=client_id or f"client of {connection}",
        address=str(connection),
        language=0,
        version=407,
        heard_ms=int(heard_s * 1000),
        heard_s=heard_s,
    )
