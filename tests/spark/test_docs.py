"""The page about Spark: its code runs, in one session and in order, and its tables have every option."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow", reason="the pipeline needs pyarrow: pip install skyrocketmq[spark]")

from skyrocketmq import Message
from skyrocketmq.blocking import Producer
from skyrocketmq.spark import options
from skyrocketmq.testing import LocalCluster
from tests.docs_code import ROOT, python_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / "docs" / "spark.md"


def table_after(heading: str) -> set[str]:
    """The options that the first column of a table names."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


def test_the_table_has_every_option_of_the_source() -> None:
    assert table_after("Options of the source") == set(options._SOURCE)


def test_the_table_has_every_option_of_the_sink() -> None:
    assert table_after("Options of the sink") == set(options._SINK)


@pytest.mark.system
@pytest.mark.timeout(240)
def test_the_code_of_the_page_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with LocalCluster() as cluster, Producer("fill", namesrv=cluster.namesrv) as producer:
        for topic in ("Orders", "Bills"):
            for number in range(4):
                producer.send(Message(topic, f"{topic} {number}".encode(), tags="new", keys=[str(number)]))
        cluster.create_topic("Copies")
        names: dict[str, Any] = {}
        for block in python_blocks(PAGE):
            code = block.replace("localhost:9876", cluster.namesrv)
            code = code.replace('"orders-', f'"{tmp_path}/orders-')  # Spark's own directory is another one
            exec(compile(code, PAGE.name, "exec"), names)
        assert len(cluster.messages("Copies")) == 16, "written back by two batches and by two streams"
    printed = capfd.readouterr().out
    assert "| new|    4|" in printed, "the first DataFrame"
    assert printed.count("Orders 3") == 2, "in Parquet, and joined"
