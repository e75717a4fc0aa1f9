"""What several tests of this package need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from skyrocketmq.config import BrokerConfig, ConfigHolder, Loaded
from skyrocketmq.ports import Clock, LocalDisk

CLUSTER = "ClusterOfTests"
BROKER = "broker-a"


def holder(clock: Clock, **values: Any) -> ConfigHolder[BrokerConfig]:
    """A configuration that is not written to any file when it is changed."""
    config = BrokerConfig(**({"cluster_name": CLUSTER, "broker_name": BROKER} | values))
    return ConfigHolder(Loaded(config), disk=LocalDisk(), clock=clock)


async def until(condition: Callable[[], object], *, seconds: float = 5.0) -> None:
    """Wait for a condition that the network, or a thread, brings about."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # nothing here could set an event
            await asyncio.sleep(0.005)
