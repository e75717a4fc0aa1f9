"""What several tests of this package need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from skyrocketmq.broker.clients import Member
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
