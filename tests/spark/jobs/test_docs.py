"""The page `spark-jobs.md`: its code runs, in one session and in order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.spark.jobs.table import JOBS
from skyrocketmq.testing import BlockingCluster
from tests.docs_code import ROOT, python_blocks
from tests.spark.jobs.house import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / "docs" / "spark-jobs.md"


def test_the_page_has_every_job() -> None:
    text = PAGE.read_text()
    assert [job for job in JOBS if f"\n## {job}\n" not in text] == []


@pytest.mark.system
@pytest.mark.timeout(240)
def test_the_code_of_the_page_runs(
    spark: SparkSession,
    cluster: BlockingCluster,
    other_cluster: BlockingCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster.create_topic("Orders", queues=2)
    cluster.create_topic("Again", queues=2)
    fill(cluster, "Orders", 6)
    names: dict[str, Any] = {}
    for block in python_blocks(PAGE):
        code = block.replace("localhost:9876", cluster.namesrv).replace("localhost:9877", other_cluster.namesrv)
        code = code.replace('"jobs-', f'"{tmp_path}/jobs-')  # Spark's own directory is another one
        exec(compile(code, PAGE.name, "exec"), names)
    assert "6 rows in" in capfd.readouterr().out
    for there, topic in ((cluster, "Again"), (other_cluster, "Orders")):
        assert sorted(int(message.body) for message in there.messages(topic, count=6)) == list(range(6))
