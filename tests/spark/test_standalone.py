"""Source and sink on a Spark cluster: a master and two workers on this machine, each a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.docs_code import ROOT, python_blocks
from tests.spark.conftest import FOR_SPEED, SETTINGS, give_up
from tests.spark.standalone import DRIVER, Standalone, standalone

pytestmark = [pytest.mark.system, pytest.mark.alone, pytest.mark.timeout(300)]

COUNT = 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster() as running:
        for topic in ("Orders", "Copies"):
            running.create_topic(topic, queues=2)
        with Producer("fill", namesrv=running.namesrv) as producer:
            for number in range(COUNT):
                queue = MessageQueue("Orders", "broker-a", number % 2)
                producer.send(Message("Orders", b"%d" % number, tags="new"), queue=queue)
        yield running


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    from skyrocketmq.errors import ConfigError

    try:
        with standalone(tmp_path_factory.mktemp("standalone")) as running:
            yield running
    except ConfigError as reason:
        give_up(str(reason))


def numbers(cluster: BlockingCluster, topic: str) -> list[int]:
    return sorted(int(message.body) for message in cluster.messages(topic))


def submitted_program(cluster: BlockingCluster, directory: Path) -> Path:
    """The program that the page about Spark submits."""
    (code,) = (block for block in python_blocks(ROOT / "docs" / "spark.md") if "register(spark)" in block)
    program = directory / "copy_orders.py"
    code = code.replace("localhost:9876", cluster.namesrv).replace('"orders-', f'"{directory}/orders-')
    program.write_text(code)
    return program


def test_the_program_of_the_page_is_submitted_and_reads_and_writes(
    spark_cluster: Standalone, cluster: BlockingCluster, tmp_path: Path
) -> None:
    spark_cluster.submit(submitted_program(cluster, tmp_path))
    assert numbers(cluster, "Copies") == sorted([*range(COUNT), *range(COUNT)]), "by a batch, and by a stream"


SESSION = """
import json
import os
import time

from skyrocketmq.spark import session

spark = session("on a cluster", master=os.environ["MASTER"], config={settings})
rows = spark.read.format("rocketmq").options(namesrv="{namesrv}", subscribe="Orders").load().select("body")


def count(rows):
    time.sleep(2)  # one worker alone must not be done with all of it
    yield os.getcwd(), len(list(rows))


print(json.dumps(rows.rdd.mapPartitions(count).collect()))
spark.stop()
"""


def test_a_session_on_a_cluster_has_its_tasks_run_by_all_workers(
    spark_cluster: Standalone, cluster: BlockingCluster, tmp_path: Path
) -> None:
    program = tmp_path / "on_a_cluster.py"
    settings = {
        **DRIVER,
        **{name: SETTINGS[name] for name in FOR_SPEED},
        "spark.scheduler.minRegisteredResourcesRatio": "1",
    }
    program.write_text(SESSION.format(settings=settings, namesrv=cluster.namesrv))
    printed = json.loads(spark_cluster.run(program).splitlines()[-1])
    assert sum(count for _, count in printed) == COUNT
    assert len({directory for directory, _ in printed}) == 2, "each executor has a directory of its own"
