"""What several tests of this package need."""

from __future__ import annotations

from typing import Any

from skyrocketmq.config import BrokerConfig, ConfigHolder, Loaded
from skyrocketmq.ports import Clock, LocalDisk

CLUSTER = "ClusterOfTests"
BROKER = "broker-a"


def holder(clock: Clock, **values: Any) -> ConfigHolder[BrokerConfig]:
    """A configuration that is not written to any file when it is changed."""
    config = BrokerConfig(**({"cluster_name": CLUSTER, "broker_name": BROKER} | values))
    return ConfigHolder(Loaded(config), disk=LocalDisk(), clock=clock)
