"""Recovery: how long a broker that was killed takes until it answers again.

A broker of ours takes messages until its log has so many bytes, and is killed; each broker gets a copy of its files.
Measured is from the start of its name server and itself until a message is acknowledged, less the same on an empty
store: what is left is recovery. Our store writes a checkpoint after 512 MiB of log: ours begins there, Apache's broker
at the log file that the checkpoint's times lead to.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.broker_servers import Servers
from benchmarks.report import Better, Report
from benchmarks.send_shapes import Encoding, SendShape, size_name
from benchmarks.stage import Stage
from benchmarks.store_filler import fill_store

__all__ = ["NAME", "add_arguments", "run"]

NAME = "recovery"
BODIES = (1024, 128)
MIB = 1 << 20
RECORD_BYTES = 190  # what a record has besides its body


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("recovery")
    group.add_argument("--log-mib", type=int, default=2048, help="size of the log that is recovered (2048)")
    group.add_argument("--bodies", type=int, nargs="+", default=BODIES, help="sizes of messages (1024 128)")


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    log_mib = 16 if arguments.quick else arguments.log_mib
    rounds = 1 if arguments.quick else arguments.rounds
    report = Report(NAME, {"rounds": str(rounds), "log": f"{log_mib} MiB"})
    servers = stage.starter()
    for body_bytes in arguments.bodies:
        messages = log_mib * MIB // (body_bytes + RECORD_BYTES)
        killed = stage.directory / "killed"
        started = time.perf_counter()
        fill_store(stage, killed, SendShape(body_bytes, Encoding.BINARY), messages, is_killed=True)
        print(f"  {messages:,} messages of {body_bytes} B in {time.perf_counter() - started:.1f} s", flush=True)
        for number in range(rounds):
            for server in stage.servers:
                _measure(report, servers, server, killed, stage.directory, body_bytes)
                print(f"  round {number + 1} of {rounds}: {server}, {_said(report, server)}", flush=True)
        shutil.rmtree(killed)
    return report


def _measure(report: Report, servers: Servers, server: str, killed: Path, directory: Path, body_bytes: int) -> None:
    empty_s = _ready_s(servers, server, None)
    copy = directory / "copy"
    subprocess.run(["cp", "-a", "--sparse=always", str(killed), str(copy)], check=True)
    try:
        recovered_s = _ready_s(servers, server, copy)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    size = size_name(body_bytes)
    report.row(f"recovery, messages of {size}", "s", Better.LESS, 1.0).add(server, max(recovered_s - empty_s, 0.001))
    report.row(f"ready after a kill, messages of {size}", "s", Better.LESS).add(server, recovered_s)
    report.row("ready on an empty store", "s", Better.LESS).add(server, empty_s)


def _ready_s(servers: Servers, server: str, store: Path | None) -> float:
    started = time.perf_counter()
    with servers.started(server, store=store):
        return time.perf_counter() - started


def _said(report: Report, server: str) -> str:
    return ", ".join(f"{row.name} {row.values[server][-1]:.1f} s" for row in report.rows if row.values.get(server))
