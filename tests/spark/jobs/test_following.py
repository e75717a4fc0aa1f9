"""Which messages come next for a job, at a real broker."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import MessageQueue
from skyrocketmq.errors import NetError, NoRoute
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.jobs.following import Following
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.testing import BlockingCluster


def test_queues_that_are_known_and_whose_broker_is_away_are_left_out_and_told(cluster: BlockingCluster) -> None:
    cluster.create_topic("Narrowed", queues=1)
    known = [("Narrowed", "broker-a", 0), ("Narrowed", "broker-a", 1), ("Narrowed", "broker-z", 0)]
    known += [("Other", "broker-z", 0), ("%RETRY%g", "broker-z", 0)]
    queues = {MessageQueue(*one): 0 for one in known}

    def left_out(**options: str) -> list[str]:
        parsed = SourceOptions.parse({"namesrv": cluster.namesrv} | options, is_stream=True)
        with Cluster(parsed.name_servers, parsed.link) as reached:
            following = Following(reached, parsed)
            return [str(queue) for queue in following.left_out(queues, following.bounds())]

    # Queue 1 was taken out of the topic by somebody: its broker is there.
    assert left_out(subscribe="Narrowed") == ["Narrowed@broker-z:0"]
    assert left_out(subscribePattern="Nar.*|.*Other|.*g") == ["Narrowed@broker-z:0", "Other@broker-z:0"]
    assert left_out(subscribe="Narrowed", failOnDataLoss="false") == [], "a warning is enough"


def test_who_could_not_look_has_left_out_everything(cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name servers go on naming a broker for two minutes after its machine was cut off."""
    cluster.create_topic("Seen", queues=1)
    known = {MessageQueue("Seen", "broker-a", 0): 0}
    parsed = SourceOptions.parse({"namesrv": cluster.namesrv, "subscribe": "Seen"}, is_stream=True)
    with Cluster(parsed.name_servers, parsed.link) as reached:
        following = Following(reached, parsed)
        assert following.left_out(known, following.look(is_patient=True)) == []
        with monkeypatch.context() as cut_off:
            cut_off.setattr(reached, "max_offset", unreachable)
            cut_off.setattr(reached, "min_offset", unreachable)
            assert following.left_out(known, following.look(is_patient=True)) == list(known)
            with pytest.raises(NetError, match="cut off"):
                following.look(is_patient=False)
        assert following.left_out(known, following.look(is_patient=True)) == []


def unreachable(queue: MessageQueue) -> int:
    raise NetError(f"{queue.broker_name} is cut off")


def test_a_topic_that_is_gone_stops_the_others_only_at_the_beginning(cluster: BlockingCluster) -> None:
    cluster.create_topic("Stays", queues=2)
    parsed = SourceOptions.parse({"namesrv": cluster.namesrv, "subscribe": "Gone,Stays"}, is_stream=True)
    with Cluster(parsed.name_servers, parsed.link) as reached:
        following = Following(reached, parsed)
        with pytest.raises(NoRoute, match="no route for topic Gone"):
            following.bounds()
        assert {queue.topic for queue in following.bounds(is_patient=True)} == {"Stays"}
