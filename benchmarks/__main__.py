"""`python -m benchmarks [names...]`: run benchmarks, print their tables, write a JSON file if asked to."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks import (
    backlog,
    before,
    broker,
    brokers,
    client,
    delayed,
    floor,
    flush,
    hot,
    java_producer,
    latency,
    memory,
    namesrv,
    peers,
    plain,
    pulls,
    recovery,
    replication,
    scaling,
    sends,
    spark,
    sql_filter,
    stage,
    tls,
    transactions,
    wakeups,
)
from benchmarks.c_programs import NoCompiler
from benchmarks.report import APACHE, OURS, Report, write_json
from benchmarks.stage import Stage

# What is measured with Apache's broker warmed up once for all of them.
SHARED = (memory, sends, wakeups, latency, java_producer, pulls, tls, transactions, broker)
# With brokers of their own.
OWN = (floor, brokers, before, plain, sql_filter, delayed, replication, flush, recovery, backlog, client)
# With the generator of old: what they measure is slower than it.
ALONE = (namesrv, peers, spark, scaling, hot)
BENCHMARKS = {part.NAME: part for part in (*SHARED, *OWN, *ALONE)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Our servers beside Apache's.")
    parser.add_argument("names", nargs="*", help=f"which (all): {', '.join(BENCHMARKS)}")
    parser.add_argument("--servers", nargs="+", choices=[APACHE, OURS], default=[APACHE, OURS])
    parser.add_argument("--rounds", type=int, default=3, help="how often parts with servers of their own are run (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement to FILE")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    stage.add_arguments(parser)
    for benchmark in BENCHMARKS.values():
        benchmark.add_arguments(parser)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; there is {', '.join(BENCHMARKS)}")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped, what was stored deleted
    try:
        reports = run(arguments)
    except NoCompiler as error:
        parser.exit(1, f"{error}\n")
    for report in reports:
        print(f"\n{report.table()}")
    if arguments.json:
        write_json(reports, arguments.json)
    missed = [row.name for report in reports for row in report.rows if not row.is_met]
    return 1 if arguments.check and missed else 0


def run(arguments: argparse.Namespace) -> list[Report]:
    """The benchmarks that were asked for, in our order: those that share brokers one after the other."""
    wanted = set(arguments.names or BENCHMARKS)
    reports = []
    if any(part.NAME in wanted for part in (*SHARED, *OWN)):
        with Stage(arguments) as opened:
            for part in (*SHARED, *OWN):
                if part.NAME in wanted:
                    print(f"{part.NAME}:", flush=True)
                    if part in OWN:
                        opened.clear()
                    reports.append(part.run(arguments, opened))
    for part in ALONE:
        if part.NAME in wanted:
            print(f"{part.NAME}:", flush=True)
            reports.append(part.run(arguments))
    return reports


if __name__ == "__main__":
    sys.exit(main())
