"""Kafka as Spark's own source and sink have it: one broker, and the connector's jars; both through Maven, by name."""

from __future__ import annotations

import os
from pathlib import Path

from tests.interop import toolchain

from benchmarks.peer_servers import Kafka

__all__ = ["KafkaForSpark"]

CONNECTOR_DIR = Path(__file__).parent / "kafka_spark"


class KafkaForSpark(Kafka):
    """The broker of the benchmark `peers`, whose topics have so many partitions, and what a session needs for it."""

    title = "Kafka"
    package = "pyspark"

    def __init__(self, partition_count: int) -> None:
        super().__init__({"num.partitions": str(partition_count)})

    def _prepare(self) -> None:
        super()._prepare()
        self._connector = toolchain.prepare(CONNECTOR_DIR)

    @property
    def jars(self) -> str:
        """The connector and what it needs, as `spark.jars` wants them."""
        library = Path(self._connector.classpath.rpartition(os.pathsep)[2]).parent
        return ",".join(str(path) for path in sorted(library.glob("*.jar")))
