"""A cluster for the commands that are clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.cluster import Cluster, running_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for a whole file: tests use topics of their own."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
