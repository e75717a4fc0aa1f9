"""What the sink does for copies of whole queues: queues that are named, a pace, and writes in a series."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from skyrocketmq.errors import IllegalArgument
from skyrocketmq.ports import SystemClock
from skyrocketmq.spark import sink
from skyrocketmq.spark.once import TaskPlace
from skyrocketmq.spark.sending import WriteFailed
from skyrocketmq.spark.sink import RocketMQWriter, Written
from skyrocketmq.spark.source import RocketMQDataSource
from skyrocketmq.testing import BlockingCluster, LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster(brokers=2) as running:
        yield running


def writer(cluster: BlockingCluster, rows: pa.RecordBatch, **options: str) -> RocketMQWriter:
    source = RocketMQDataSource({"namesrv": cluster.namesrv, "timeout": "5s"} | options)
    made = source.writer(from_arrow_schema(rows.schema), overwrite=False)
    assert isinstance(made, RocketMQWriter)
    copy = pickle.loads(pickle.dumps(made))
    assert isinstance(copy, RocketMQWriter)
    return copy


def table(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_rows_go_to_the_queues_they_name_in_their_order(cluster: BlockingCluster) -> None:
    cluster.create_topic("Named", queues=2)
    names = ["broker-a:1", "broker-b:0", "broker-b:1"]
    rows = table(body=[str(number) for number in range(90)], target_queue=[names[n % 3] for n in range(90)])
    assert writer(cluster, rows, topic="Named", batchBytes="700").write(iter([rows])) == Written(90)
    messages = sorted(cluster.messages("Named", count=90), key=lambda message: message.queue_offset)
    for place, name in enumerate(names):
        here = [m for m in messages if f"{m.queue.broker_name}:{m.queue.queue_id}" == name]
        assert [int(message.body) for message in here] == list(range(place, 90, 3))


def test_a_queue_that_is_not_there_is_named(cluster: BlockingCluster) -> None:
    cluster.create_topic("Few", queues=1)
    rows = table(body=["x"], target_queue=["broker-a:7"])
    with pytest.raises(WriteFailed, match="no queue broker-a:7 that can be written to now: there are broker-a:0"):
        writer(cluster, rows, topic="Few").write(iter([rows]))


def test_a_task_keeps_its_pace(cluster: BlockingCluster) -> None:
    cluster.create_topic("Paced", queues=1)
    rows = table(body=[str(number) for number in range(41)])
    begun = SystemClock().monotonic()
    writer(cluster, rows, topic="Paced", ratePerTask="40").write(iter([rows]))
    assert SystemClock().monotonic() - begun >= 0.9
    assert len(cluster.messages("Paced", count=41)) == 41
    for wrong in ("0", "fast", "-1"):
        with pytest.raises(IllegalArgument, match="messages a second are expected"):
            writer(cluster, rows, topic="Paced", ratePerTask=wrong)


def test_each_write_of_a_series_is_done_once(cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create_topic("Series", queues=2)
    monkeypatch.setattr(sink, "task_place", lambda: TaskPlace(None, 0, 0))
    rows = table(body=["a", "b"], queue_offset=[1, 2])
    options = {"topic": "Series", "mode": "effectively-once", "sinkId": "series", "idColumns": "queue_offset"}

    def write(epoch: int, *, is_committed: bool = True) -> Written:
        one = writer(cluster, rows, **options, sinkEpoch=str(epoch))
        written = one.write(iter([rows]))
        if is_committed:
            one.commit([written])
        assert isinstance(written, Written)
        return written

    assert write(0, is_committed=False) == Written(2)
    assert write(0) == Written(0, 2), "it died before it was committed"
    assert write(0) == Written(0, 2), "it died before anybody knew that it was committed"
    assert write(1) == Written(2), "the same rows again are other messages"
    assert write(1) == Written(0, 2)
    assert write(2) == Written(2)
    assert len(cluster.messages("Series", count=6)) == 6
    with pytest.raises(IllegalArgument, match="they belong to mode=effectively-once"):
        writer(cluster, rows, topic="Series", sinkEpoch="1")
