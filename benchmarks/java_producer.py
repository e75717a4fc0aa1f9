"""Apache's Java producer as the load: one client with 64 threads, each waiting for the result of its message.

On two cores it is itself the limit. Promised is at least Apache's rate, for at most a third of the broker's CPU time.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from tests.interop.toolchain import Toolchain

from benchmarks.broker_servers import Target
from benchmarks.load import BadAnswer
from benchmarks.meter import Meter, Slice
from benchmarks.report import Better, Report
from benchmarks.send_shapes import SIZES, size_name
from benchmarks.stage import Stage

NAME = "java"
THREADS = 64
GOAL, GOAL_CPU = 1.0, 1 / 3
JVM = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC")
WARM_UP_S = 4.0  # until the producer's own code is compiled
EXIT_TIMEOUT_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(arguments: argparse.Namespace, stage: Stage) -> Report:
    """Measure and report."""
    report = stage.report(NAME, threads=str(THREADS))
    home = stage.directory / "java-producer"
    home.mkdir(exist_ok=True)
    for size in SIZES:
        row = f"Java producer, {size_name(size)}"
        print(f"  {row}", flush=True)
        with stage.targets() as targets:
            for target in stage.turns(targets):
                measured = run_producer(
                    stage.toolchain,
                    target,
                    stage.traffic.topics,
                    body_bytes=size,
                    seconds=stage.timing.seconds,
                    warm_up_s=0.5 if arguments.quick else WARM_UP_S,
                    home=home,
                )
                cpu_us = measured.server_cpu_s / measured.count * 1e6
                report.row(row, "1/s", Better.MORE, GOAL).add(target.name, measured.count / measured.seconds)
                report.row(f"broker's CPU time, {row}", "us", Better.LESS, GOAL_CPU).add(target.name, cpu_us)
                print(f"    {target.name}: {measured.count / measured.seconds:,.0f} /s, {cpu_us:.2f} us", flush=True)
    return report


def run_producer(
    toolchain: Toolchain,
    target: Target,
    topics: list[str],
    *,
    body_bytes: int,
    seconds: float,
    warm_up_s: float,
    home: Path,
) -> Slice:
    """Messages acknowledged to the producer; "generator" is the producer's JVM."""
    arguments = [target.namesrv, ",".join(topics), str(THREADS), str(body_bytes), str(warm_up_s), str(seconds)]
    command = toolchain.command("skyrocketmq.interop.ProducerLoad", *arguments, jvm=[*JVM, f"-Duser.home={home}"])
    with (
        (home / "producer.log").open("ab") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=home) as producer,
    ):
        assert producer.stdout is not None
        try:
            if producer.stdout.readline() != "measuring\n":
                raise BadAnswer(f"the Java producer did not start:\n{(home / 'producer.log').read_text()[-2000:]}")
            meter = Meter(target.pid, generator_pid=producer.pid)
            meter.start()
            sent, failed, _ = (int(word) for word in producer.stdout.readline().split())
            if failed:
                raise BadAnswer(f"{failed} of {sent + failed} sends of the Java producer failed")
            measured = meter.cut(sent)
            producer.wait(EXIT_TIMEOUT_S)
        finally:
            producer.kill()
    return measured
