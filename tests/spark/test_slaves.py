"""A slave that stands in for its master: what it has is read, and what it lacks is waited for, not lost."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.broker import Broker
from skyrocketmq.config import EMBEDDED_DEFAULTS, load_broker_config
from skyrocketmq.errors import NetError
from skyrocketmq.model import MessageQueue
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.jobs.following import Following
from skyrocketmq.spark.options import SourceOptions
from skyrocketmq.spark.source import RocketMQDataSource
from skyrocketmq.spark.stream import RocketMQStreamReader
from skyrocketmq.testing import BlockingCluster, Direction, FaultyLink, LocalCluster

REPLICATED, WRITTEN = 10, 15


@contextmanager
def open_slave(cluster: BlockingCluster, directory: Path, link: FaultyLink) -> Iterator[Broker]:
    overrides = {
        "brokerName": "broker-a",
        "brokerId": "1",
        "brokerRole": "SLAVE",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": "0",
        "namesrvAddr": cluster.namesrv,
        "storePathRootDir": str(directory),
        **EMBEDDED_DEFAULTS,
    }
    opened = AsyncExitStack()
    opening = Broker.open(load_broker_config(None, environ={}, overrides=overrides), link=link)
    try:
        yield cluster._run(opened.enter_async_context(opening))
    finally:
        cluster._run(opened.aclose())


async def stop_replicating(link: FaultyLink, master: Broker) -> None:
    """The slave hears nothing more of its master, and does not know."""
    port = int(master.identity.ha_address.rpartition(":")[2])
    [replication] = [one for one in link.connections if one.transport.get_extra_info("peername")[1] == port]
    replication.stall(Direction.IN)


def fill(cluster: BlockingCluster, numbers: range) -> None:
    with Producer("fill", namesrv=cluster.namesrv) as producer:
        for number in numbers:
            producer.send(Message("Orders", b"%d" % number))


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[BlockingCluster]:
    """A cluster whose master is away, and whose slave lacks the newest messages."""
    link = FaultyLink()
    with LocalCluster() as cluster, ExitStack() as opened:
        cluster.create_topic("Orders", queues=1)
        fill(cluster, range(REPLICATED))
        slave = opened.enter_context(open_slave(cluster, tmp_path, link))
        until(lambda: int(slave.store.max_offset("Orders", 0)) == REPLICATED)
        until(lambda: slave.tables.topics.find("Orders") is not None)
        cluster._run(stop_replicating(link, cluster.awaitable.brokers["broker-a"]))
        fill(cluster, range(REPLICATED, WRITTEN))
        cluster.stop_broker("broker-a")
        yield cluster


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the slave does not keep up"
        time.sleep(0.05)


def options(cluster: BlockingCluster, **more: str) -> dict[str, str]:
    return {"namesrv": cluster.namesrv, "subscribe": "Orders", "timeout": "5s", **more}


def stream(cluster: BlockingCluster, **more: str) -> RocketMQStreamReader:
    made = RocketMQDataSource(options(cluster, **more)).streamReader(StructType().add("queue_offset", "long"))
    assert isinstance(made, RocketMQStreamReader)
    return made


def place(offset: int) -> dict[str, Any]:
    return {"Orders": {"broker-a:0": offset}}


def offsets(reader: RocketMQStreamReader, start: int, end: int) -> list[int]:
    parts = reader.partitions(place(start), place(end))
    task = pickle.loads(pickle.dumps(reader))
    return [number for part in parts for batch in task.read(part) for number in batch.column(0).to_pylist()]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_slave_that_is_behind_loses_and_repeats_nothing(behind: BlockingCluster, fails: str) -> None:
    reader = stream(behind, failOnDataLoss=fails, retries="0")
    assert reader.latestOffset(place(3), ReadAllAvailable()) == place(REPLICATED)
    assert offsets(reader, 3, REPLICATED) == list(range(3, REPLICATED))
    assert reader.latestOffset(place(WRITTEN), ReadAllAvailable()) == place(WRITTEN), "the query is further than it"
    with pytest.raises(NetError, match=r"the master of broker-a is away, and its slave .* has \[0, 10\)"):
        offsets(reader, 0, WRITTEN)  # planned when the master was there
    reader.stop()


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_batch_that_was_planned_at_the_master_is_not_cut_short(behind: BlockingCluster, fails: str) -> None:
    places = {"startingOffsets": json.dumps(place(3)), "endingOffsets": json.dumps(place(WRITTEN))}
    chosen = options(behind, failOnDataLoss=fails, retries="0", **places)
    reader = RocketMQDataSource(chosen).reader(StructType().add("queue_offset", "long"))
    with pytest.raises(NetError, match="the master of broker-a is away"):
        [*(batch for part in reader.partitions() for batch in reader.read(part))]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_job_that_is_further_than_the_slave_waits_for_the_master(behind: BlockingCluster, fails: str) -> None:
    parsed = SourceOptions.parse(options(behind, failOnDataLoss=fails), is_stream=True)
    queue = MessageQueue("Orders", "broker-a", 0)
    with Cluster(parsed.name_servers, parsed.link) as cluster:
        following = Following(cluster, parsed)
        bounds = following.bounds()
        assert following.next({queue: WRITTEN}, bounds, 100).ends == {}
        assert following.next({queue: 3}, bounds, 100).ends == {queue: REPLICATED}


def test_a_task_goes_on_when_the_master_is_back(behind: BlockingCluster) -> None:
    reader = stream(behind, failOnDataLoss="false")
    returning = Timer(1, behind.start_broker)
    returning.start()
    try:
        assert offsets(reader, 0, WRITTEN) == list(range(WRITTEN))
    finally:
        returning.join()


def test_rows_are_not_read_back_from_a_slave(behind: BlockingCluster) -> None:
    rows = pa.RecordBatch.from_pydict({"body": ["x"]})
    sink = {"namesrv": behind.namesrv, "topic": "Orders", "mode": "effectively-once", "sinkId": "s", "timeout": "5s"}
    with pytest.raises(NetError, match="the master of broker-a is away, and its slave need not have all"):
        RocketMQDataSource(sink).writer(from_arrow_schema(rows.schema), overwrite=False)
