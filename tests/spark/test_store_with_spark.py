"""The store reader in a real local Spark: on the store of a broker at work, and on a damaged one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.spark.store_options import STORE_OPTIONS
from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.docs_code import ROOT, python_blocks
from tests.spark.stores import make_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

PAGE = ROOT / "docs" / "spark-store.md"
COUNT = 200


@pytest.fixture(scope="module")
def cluster(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BlockingCluster, Path]]:
    """A broker at work, and its store."""
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory=directory) as running, Producer("fill", namesrv=running.namesrv) as producer:
        running.create_topic("Orders", queues=4)
        for number in range(COUNT):
            producer.send(Message("Orders", b"order %d" % number, tags="new", keys=[f"k{number}"]))
        yield running, directory / "broker-a"


def test_a_store_at_work_is_a_table_that_filters_narrow(
    spark: SparkSession, cluster: tuple[BlockingCluster, Path]
) -> None:
    orders = spark.read.format("rocketmq-store").load(str(cluster[1])).where("topic = 'Orders'")
    rows = orders.collect()
    assert sorted(row.body for row in rows) == sorted(b"order %d" % number for number in range(COUNT))
    assert {row.tags for row in rows} == {"new"}
    assert orders.where("queue_id = 2 and queue_offset between 10 and 19").count() == 10
    [last] = orders.selectExpr("max(store_timestamp) as at").collect()
    assert orders.where(f"store_timestamp > timestamp'{last['at']}'").count() == 0
    source = spark.read.format("rocketmq").options(namesrv=cluster[0].namesrv, subscribe="Orders").load()
    columns = ["msg_id", "offset_msg_id", "queue_id", "queue_offset", "log_offset", "store_timestamp", "body"]
    assert orders.select(columns).exceptAll(source.select(columns)).count() == 0, "what the broker gives, row for row"


def test_damage_fails_the_query_and_names_the_record(spark: SparkSession, tmp_path: Path) -> None:
    records = make_store(tmp_path / "store")
    record = next(one for one in records if len(one.body) > 100 and not one.sys_flag)
    with (tmp_path / "store" / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(record.log_offset + 95)
        file.write(b"\xff\xff\xff")
    reading = spark.read.format("rocketmq-store")
    with pytest.raises(Exception, match=rf"at log offset {record.log_offset} of .*: its body has another checksum"):
        reading.load(str(tmp_path / "store")).write.format("noop").mode("overwrite").save()
    assert reading.option("failOnDataLoss", False).load(str(tmp_path / "store")).count() == len(records) - 1
    [row] = reading.option("table", "damage").load(str(tmp_path / "store")).collect()
    assert row.begin_offset == record.log_offset
    with pytest.raises(Exception, match="is no directory: give the one that storePathRootDir names"):
        reading.load(str(tmp_path / "nothing")).count()


def test_the_code_of_the_page_runs(
    spark: SparkSession, cluster: tuple[BlockingCluster, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    for block in python_blocks(PAGE):
        exec(compile(block.replace("/data/broker-a", str(cluster[1])), PAGE.name, "exec"), names)
    printed = capfd.readouterr().out
    assert f"|Orders|{COUNT:>5}|" in printed
    assert "order 1" in printed


def test_the_page_has_every_option() -> None:
    text = PAGE.read_text()
    for option in STORE_OPTIONS:
        assert f"| `{option}` |" in text
