"""Which messages come next for a job, at a real broker."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.errors import NoRoute
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.jobs.following import Following
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.testing import BlockingCluster

pytestmark = pytest.mark.timeout(60)


def test_a_topic_that_is_gone_stops_the_others_only_at_the_beginning(cluster: BlockingCluster) -> None:
    cluster.create_topic("Stays", queues=2)
    parsed = SourceOptions.parse({"namesrv": cluster.namesrv, "subscribe": "Gone,Stays"}, is_stream=True)
    with Cluster(parsed.name_servers, parsed.link) as reached:
        following = Following(reached, parsed)
        with pytest.raises(NoRoute, match="no route for topic Gone"):
            following.bounds()
        assert {queue.topic for queue in following.bounds(is_patient=True)} == {"Stays"}
