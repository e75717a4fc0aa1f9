"""Where a session runs. That it runs is shown by all tests with Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq.spark.sessions import settings_of

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
SUBMITTED = {"PYSPARK_GATEWAY_PORT": "4711"}


def test_a_session_runs_here_unless_it_is_told_otherwise() -> None:
    assert settings_of(None, {}) == {"spark.master": "local[*]", **LOOPBACK}
    assert settings_of("local[2]", SUBMITTED) == {"spark.master": "local[2]", **LOOPBACK}
    assert settings_of("spark://host:7077", {}) == {"spark.master": "spark://host:7077"}


def test_what_spark_submit_was_told_is_left_alone() -> None:
    assert settings_of(None, SUBMITTED) == {}
