"""One real Spark for all tests that need it: its start takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark that begins a failed task again, as a cluster does.

    Without Java or PySpark the test is skipped, and says so; in CI that is a failure.
    """
    try:
        from skyrocketmq.errors import ConfigError
        from skyrocketmq.spark import session
    except ImportError as reason:
        give_up(f"the pipeline needs its extra, pip install skyrocketmq[spark]: {reason}")
    try:
        running = session("tests", master="local[2,4]", config=SETTINGS)
    except ConfigError as reason:
        give_up(str(reason))
    running.sparkContext.setLogLevel("ERROR")
    yield running
    running.stop()


SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).with_name("workers")),  # they start in less time
    # Java that compiles quickly rather than well: tests have few rows, and much code that runs once.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
FOR_SPEED = ("spark.executorEnv.PYTHONPATH", "spark.driver.extraJavaOptions")


def give_up(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
