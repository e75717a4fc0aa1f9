"""What a plan is told about topics and queues, by real servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pyarrow", reason="the pipeline needs pyarrow: pip install skyrocketmq[spark]")

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import NetError, NoRoute
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.link import LinkSettings
from skyrocketmq.testing import BlockingCluster, LocalCluster

SETTINGS = LinkSettings(timeout_s=10)
QUEUE = MessageQueue("Known", "broker-a", 1)


@pytest.fixture(scope="module")
def running() -> Iterator[BlockingCluster]:
    with LocalCluster(brokers=2) as cluster:
        cluster.create_topic("Known", queues=3)
        with Producer("fill", namesrv=cluster.namesrv) as producer:
            for number in range(5):
                producer.send(Message("Known", b"%d" % number), queue=QUEUE)
        yield cluster


def test_topics_queues_and_offsets_are_found(running: BlockingCluster) -> None:
    with Cluster([running.namesrv], SETTINGS) as cluster:
        assert "Known" in cluster.topics()
        assert cluster.queues("Known") == [
            MessageQueue("Known", broker, queue_id) for broker in ("broker-a", "broker-b") for queue_id in range(3)
        ]
        assert (cluster.min_offset(QUEUE), cluster.max_offset(QUEUE)) == (0, 5)
        assert cluster.offset_at(QUEUE, 0) == 0
        cluster.commit("readers", QUEUE, 3)


def test_a_name_server_that_is_away_is_passed_over(running: BlockingCluster) -> None:
    with Cluster(["127.0.0.1:1", running.namesrv], SETTINGS) as cluster:
        assert cluster.max_offset(QUEUE) == 5
    with Cluster(["127.0.0.1:1"], SETTINGS) as cluster, pytest.raises(NetError, match="no name server could be asked"):
        cluster.topics()


def test_an_unknown_topic_and_an_unknown_broker_are_named(running: BlockingCluster) -> None:
    with Cluster([running.namesrv], SETTINGS) as cluster:
        with pytest.raises(NoRoute, match=f"no route for topic Nobody: asked name servers {running.namesrv}"):
            cluster.queues("Nobody")
        with pytest.raises(NoRoute, match="broker broker-z has no queues of topic Known"):
            cluster.max_offset(MessageQueue("Known", "broker-z", 0))


def test_a_connection_that_ended_meanwhile_is_made_anew(running: BlockingCluster) -> None:
    with Cluster([running.namesrv], SETTINGS) as cluster:
        assert cluster.max_offset(QUEUE) == 5
        running.restart_broker("broker-a")
        assert cluster.max_offset(QUEUE) == 5
