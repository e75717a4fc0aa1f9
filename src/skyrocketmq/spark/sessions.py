"""A Spark session that knows our formats, on one machine or on a cluster.

    from skyrocketmq.spark import session

    spark = session()
    spark.read.format("rocketmq").option("namesrv", "localhost:9876").option("subscribe", "Orders").load().show()

`register` is for sessions that were made elsewhere, as by `spark-submit` or a notebook.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from skyrocketmq.spark.java import find_java
from skyrocketmq.spark.source import RocketMQDataSource
from skyrocketmq.spark.store_source import RocketMQStoreDataSource

__all__ = ["register", "session", "settings_of"]

_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"  # `spark-submit` has started this process, and its Java


def session(
    app: str = "skyrocketmq", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of this process, made if there is none yet. Its workers run this interpreter.

    Without a `master` it runs on this machine, or where `spark-submit` was told to. On one machine it listens on the
    loopback address only. `config` has Spark's own settings, and the last word.
    """
    os.environ["JAVA_HOME"] = str(find_java())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    settings = settings_of(master, os.environ) | dict(config or {})
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def settings_of(master: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Where a session runs, as Spark's settings. What a program sets wins over what `spark-submit` was told."""
    if master is None:
        if _GATEWAY in environment:
            return {}
        master = "local[*]"
    on_loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return {"spark.master": master, **(on_loopback if master.startswith("local") else {})}


def register(spark: SparkSession) -> None:
    """Make our formats known to a session, and let filters reach them."""
    spark.dataSource.register(RocketMQDataSource)
    spark.dataSource.register(RocketMQStoreDataSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
