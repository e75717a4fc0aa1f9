"""`python -m benchmarks [names...]`: run benchmarks, print their tables, write a JSON file if asked to."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks import (
    backlog,
    broker,
    client,
    delayed,
    flush,
    hot,
    namesrv,
    peers,
    recovery,
    replication,
    scaling,
    spark,
    sql_filter,
    tls,
    transactions,
)
from benchmarks.report import APACHE, OURS, write_json

SERVERS = (
    namesrv,
    broker,
    client,
    peers,
    flush,
    replication,
    recovery,
    backlog,
    delayed,
    sql_filter,
    tls,
    transactions,
)
PARTS = (*SERVERS, spark, scaling, hot)
BENCHMARKS = {part.NAME: part for part in PARTS}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Our servers beside Apache's.")
    parser.add_argument("names", nargs="*", help=f"which (all): {', '.join(BENCHMARKS)}")
    parser.add_argument("--rounds", type=int, default=3, help="how often each server has its turn (3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each load is measured (2)")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds of load before that (1)")
    parser.add_argument("--servers", nargs="+", choices=[APACHE, OURS], default=[APACHE, OURS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement to FILE")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    for benchmark in BENCHMARKS.values():
        benchmark.add_arguments(parser)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there is {', '.join(BENCHMARKS)}")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped, what was stored deleted
    reports = []
    for name in arguments.names or BENCHMARKS:
        print(f"{name}:", flush=True)
        reports.append(BENCHMARKS[name].run(arguments))
    for report in reports:
        print(f"\n{report.table()}")
    if arguments.json:
        write_json(reports, arguments.json)
    missed = [row.name for report in reports for row in report.rows if not row.is_met]
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
