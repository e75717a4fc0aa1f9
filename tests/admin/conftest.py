"""A cluster in process, and an `Admin` of it. Nothing is left behind, as after a test of the client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from skyrocketmq.admin import Admin
from tests.client.cluster import Cluster
from tests.client.conftest import cluster, nothing_is_left_behind, two_brokers

__all__ = ["cluster", "nothing_is_left_behind", "two_brokers"]


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Admin]:
    """For the cluster of one broker."""
    async with Admin(namesrv=cluster.namesrv) as opened:
        yield opened


@pytest.fixture
async def admin_of_two(two_brokers: Cluster) -> AsyncIterator[Admin]:
    """For the cluster of two brokers."""
    async with Admin(namesrv=two_brokers.namesrv) as opened:
        yield opened
