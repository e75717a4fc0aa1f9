"""The jobs there are. One more is a line here, one in the package, and a module of its name with

    NAME(spark, *, ...) -> a `JobResult`         the job, for programs
    add_arguments(parser)                        its options on the command line
    run(spark, arguments) -> a `JobResult`       the call that those options ask for

`arguments` has besides the job's own options what all jobs share: `namesrv`, `connection` (options of the formats for
access and TLS) and `control`.

Rule: modules of jobs load Spark, Arrow and numpy inside of functions, so that help is shown at once and without them.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from skyrocketmq.spark.jobs.control import JobResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JOBS", "Job", "get_job"]

JOBS: Final[dict[str, str]] = {
    "archive": "topics to Parquet, by topic and day, each message once",
    "replay": "messages of an archive, or of a time of a topic, once more into a topic",
    "mirror": "topics of one cluster copied to another",
    "stats": "figures of topics: throughput, sizes, latencies, tags and keys",
    "trace": "journeys of messages, from the traces of producers and consumers",
    "deadletters": "dead letters by cause, to be exported or sent again",
    "audit": "a store directory checked in parallel",
}


class Job(Protocol):
    """What the command line needs of a job's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, spark: SparkSession, arguments: argparse.Namespace) -> JobResult: ...


def get_job(name: str) -> Job:
    """The module of a job."""
    return cast(Job, import_module(f"skyrocketmq.spark.jobs.{name}"))
