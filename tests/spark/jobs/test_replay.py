"""`replay` in a real local Spark, with a real broker: what is chosen, in order, at a pace, and once if asked."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.errors import IllegalArgument, NoRoute, NotFound
from skyrocketmq.spark.jobs import archive, replay
from skyrocketmq.spark.jobs.replay import Replayed
from skyrocketmq.testing import BlockingCluster
from tests.spark.jobs.house import Died, by_queue, dying_folders, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

COUNT = 80
TOPIC = "Replayed"


@pytest.fixture(scope="module")
def archived(spark: SparkSession, cluster: BlockingCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the topic is archived."""
    path = str(tmp_path_factory.mktemp("archive"))
    cluster.create_topic(TOPIC, queues=4)
    fill(cluster, TOPIC, COUNT)
    archive(spark, namesrv=cluster.namesrv, topics=[TOPIC], path=path, batch_rows=30, merge_count=0)
    return path


@pytest.fixture
def to(cluster: BlockingCluster, request: pytest.FixtureRequest) -> str:
    name = f"to-{abs(hash(request.node.name))}"
    cluster.create_topic(name, queues=3)
    return name


def run(spark: SparkSession, cluster: BlockingCluster, to: str, **options: Any) -> Replayed:
    return replay(spark, namesrv=cluster.namesrv, to=to, **{"topics": [TOPIC]} | options)


def is_in_order(original: dict[str, list[int]], copies: dict[str, list[int]]) -> bool:
    """Whether the messages of each queue of the original are in one queue of the copy, one after the other."""
    for numbers in original.values():
        homes = [queue for queue, copied in copies.items() if set(numbers) & set(copied)]
        if len(homes) != 1 or [one for one in copies[homes[0]] if one in set(numbers)] != numbers:
            return False
    return True


@pytest.mark.parametrize("from_archive", [True, False], ids=["archive", "topic"])
def test_messages_are_sent_again_in_the_order_of_their_queues(
    spark: SparkSession, cluster: BlockingCluster, archived: str, to: str, from_archive: bool
) -> None:
    done = run(spark, cluster, to, path=archived if from_archive else None, origin=from_archive)
    assert done == Replayed(to=to, row_count=COUNT, step_count=1, is_whole=True)
    original = {message.body: message for message in cluster.messages(TOPIC, count=COUNT)}
    copies = cluster.messages(to, count=COUNT)
    assert is_in_order(by_queue(list(original.values())), by_queue(copies))
    assert len(by_queue(copies)) == 3
    for copy in copies:
        one = original[copy.body]
        assert (copy.tags, copy.keys, copy.user_properties["n"]) == (one.tags, one.keys, one.user_properties["n"])
        if from_archive:
            assert copy.user_properties["ORIGIN_MSG_ID"] == one.msg_id
            assert copy.user_properties["ORIGIN_QUEUE"] == f"{TOPIC} broker-a:{one.queue.queue_id}"
            assert copy.user_properties["ORIGIN_OFFSET"] == str(one.queue_offset)
            assert copy.user_properties["ORIGIN_BORN_MS"] == str(one.born_timestamp)
            assert copy.user_properties["ORIGIN_STORE_MS"] == str(one.store_timestamp)


@pytest.mark.parametrize("from_archive", [True, False], ids=["archive", "topic"])
def test_only_what_is_chosen_is_sent(
    spark: SparkSession, cluster: BlockingCluster, archived: str, to: str, from_archive: bool
) -> None:
    messages = sorted(cluster.messages(TOPIC, count=COUNT), key=lambda message: int(message.body))
    since, until = messages[20].store_timestamp, messages[60].store_timestamp
    chosen = [
        message
        for message in messages
        if since <= message.store_timestamp < until and message.tags == "odd" and int(message.body) < 50
    ]
    run(
        spark,
        cluster,
        to,
        path=archived if from_archive else None,
        since_ms=since,
        until_ms=until,
        tags=["odd", "none"],
        keys=[f"k{number}" for number in range(50)],
    )
    copies = cluster.messages(to, count=len(chosen))
    assert sorted(message.body for message in copies) == sorted(message.body for message in chosen)


def test_a_rate_is_kept(spark: SparkSession, cluster: BlockingCluster, archived: str, to: str) -> None:
    run(spark, cluster, to, path=archived, rate=40)
    stored = sorted(message.store_timestamp for message in cluster.messages(to, count=COUNT))
    assert stored[-1] - stored[0] >= 1000 * (COUNT / 40) * 0.9, "80 messages at 40 a second"
    for first, last in zip(stored, stored[30:], strict=False):
        assert last - first >= 500, "nowhere more than that"


def test_with_a_checkpoint_a_run_that_died_is_finished_and_nothing_is_sent_twice(
    spark: SparkSession,
    cluster: BlockingCluster,
    archived: str,
    to: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {"path": archived, "checkpoint": str(tmp_path), "step_rows": 40}
    # Before the plan is kept; with the first step sent and not noted, twice; with the second one sent and not noted.
    for at in (1, 2, 1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules["skyrocketmq.spark.jobs.replay"], "open_folder", dying_folders(at))
            with pytest.raises(Died):
                run(spark, cluster, to, **options)
    assert run(spark, cluster, to, **options) == Replayed(to=to, row_count=40, step_count=1, is_whole=True)
    again = run(spark, cluster, to, **options)
    assert (again.row_count, again.step_count, again.is_whole) == (0, 0, True)
    copies = cluster.messages(to, count=COUNT)
    assert sorted(int(message.body) for message in copies) == list(range(COUNT))
    assert is_in_order(by_queue(cluster.messages(TOPIC, count=COUNT)), by_queue(copies))
    with pytest.raises(IllegalArgument, match="belongs to another replay: tags changed"):
        run(spark, cluster, to, **options, tags=["odd"])
    shutil.rmtree(tmp_path)
    run(spark, cluster, to, **options, keys=["k1"])
    assert len(cluster.messages(to, count=COUNT + 1)) == COUNT + 1, "without its checkpoint it is another replay"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"topics": []}, IllegalArgument, "no topic is given"),
        ({"topics": ["Nobody"]}, NoRoute, "no route for topic Nobody"),
        ({"since_ms": 2, "until_ms": 1}, IllegalArgument, "ends before it begins"),
        ({"rate": 0.0}, IllegalArgument, "rate above 0"),
        ({"path": "/nowhere"}, NotFound, "there is no archive at /nowhere"),
    ],
)
def test_what_cannot_be_is_refused(
    spark: SparkSession, cluster: BlockingCluster, to: str, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        run(spark, cluster, to, **options)


def test_topics_that_are_not_there_are_named(
    spark: SparkSession, cluster: BlockingCluster, archived: str, to: str
) -> None:
    with pytest.raises(NotFound, match="has no topic Nobody"):
        run(spark, cluster, to, path=archived, topics=[TOPIC, "Nobody"])
    with pytest.raises(NoRoute, match="no route for topic Nowhere"):
        run(spark, cluster, "Nowhere", path=archived)
    with pytest.raises(IllegalArgument, match="SCHEDULE_TOPIC_XXXX"):
        run(spark, cluster, "SCHEDULE_TOPIC_XXXX", path=archived)
