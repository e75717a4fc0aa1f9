"""The job `audit`: a store directory checked in parallel, against itself.

The log is the truth: every record's place, lengths and checksum are looked at, and from the good ones it is known what
queues and index have to hold; what they do hold is compared with that, in both directions. `audit_tasks` says how that
stays parallel and small, `audit_findings` what counts as damage. Nothing is written, and a broker may be at work.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skyrocketmq.spark.jobs.audit_findings import AuditedFile, AuditedTopic, AuditResult, Finding, Judging
from skyrocketmq.spark.jobs.control import Control
from skyrocketmq.spark.jobs.outputs import Parquet, refuse_used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["AuditResult", "AuditedFile", "AuditedTopic", "Finding", "add_arguments", "audit", "run"]

PARTITION_BYTES: Final = 64 << 20
BAD_STRETCHES_MAX: Final = 100  # whose lost messages are told apart in the index


def audit(
    spark: SparkSession,
    *,
    store: str | Path,
    parquet: str | Path | None = None,
    report: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    control: Control | None = None,
) -> AuditResult:
    """Check a store directory that the driver and all tasks can read.

    `options` are those of the store reader that say how the store was written (`config`, `mappedFileSizeCommitLog`,
    ...). `parquet` is a directory for the tables, `report` a file for the page. Raises `StoreError` for what is none.
    """
    from skyrocketmq.spark.jobs import audit_compare as comparing
    from skyrocketmq.spark.jobs.audit_plan import plan_audit
    from skyrocketmq.spark.store_options import StoreOptions

    control = control or Control()
    refuse_used(parquet=parquet, report=report)
    settings = {"partitionBytes": str(PARTITION_BYTES), **(options or {}), "path": str(store)}
    control.begin("looking at the files")
    plan = plan_audit(StoreOptions.parse(settings))
    control.begin("reading log, queues and index")
    rows = comparing.summary(spark, plan.groups, plan.starts, plan.rules)
    judging = Judging(plan, rows)
    wanted = comparing.differing(rows)
    if wanted:
        control.begin("comparing what differs")
        differences = comparing.rows_of(spark, plan.groups, plan.starts, wanted, plan.rules).persist()
        try:
            if any(kind == "cells" for kind, _ in wanted):
                judging.judge_cells(comparing.runs_of_cells(differences))
            if any(kind == "entries" for kind, _ in wanted):
                bad = judging.bad[:BAD_STRETCHES_MAX]
                judging.judge_entries(comparing.runs_of_entries(differences, index_end=judging.index_end, bad=bad))
        finally:
            differences.unpersist()
    result = judging.result(str(store))
    _write(spark, result, parquet, report)
    return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="DIR", type=Path, help="the store's directory: storePathRootDir of its broker")
    parser.add_argument("--config", metavar="FILE", help="the broker's configuration, for what the files do not tell")
    parser.add_argument("--parquet", metavar="DIR", help="write findings, files and topics there, as Parquet")
    parser.add_argument("--report", metavar="FILE.html", help="write a page with plots")


def run(spark: SparkSession, arguments: argparse.Namespace) -> AuditResult:
    return audit(
        spark,
        store=arguments.store,
        parquet=arguments.parquet,
        report=arguments.report,
        options={"config": arguments.config} if arguments.config else None,
        control=arguments.control,
    )


def _write(spark: SparkSession, result: AuditResult, parquet: str | Path | None, report: str | Path | None) -> None:
    if parquet is not None:
        tables: dict[str, tuple[type[Any], Sequence[Any]]] = {
            "findings": (Finding, result.findings),
            "files": (AuditedFile, result.files),
            "topics": (AuditedTopic, result.topics),
        }
        writing = Parquet(spark, parquet)
        for name, (kind, rows) in tables.items():
            writing.write(name, kind, [asdict(row) for row in rows])
    if report is not None:
        from skyrocketmq.spark.jobs.audit_report import audit_page
        from skyrocketmq.spark.reports import write_report

        write_report(Path(report), audit_page(result))
