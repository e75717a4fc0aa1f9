"""One cluster for a module of tests of jobs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from skyrocketmq.testing import BlockingCluster, LocalCluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="package")
def other_cluster() -> Iterator[BlockingCluster]:
    with LocalCluster() as running:
        yield running
