"""Apache's Java producer as the load: one client with many threads, each waiting for the result of its message."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from tests.interop.toolchain import Toolchain

from benchmarks.broker_servers import Target
from benchmarks.load import BadAnswer
from benchmarks.meter import Meter, Outcome

THREADS = 64
JVM = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC")
FAILED = -1  # the program does not tell which code it was
EXIT_TIMEOUT_S = 30.0


def run_java_producer(
    toolchain: Toolchain,
    target: Target,
    topics: list[str],
    *,
    body_bytes: int,
    seconds: float,
    warm_up_s: float,
    home: Path,
) -> Outcome:
    """Messages acknowledged to the producer; "generator" is the producer's JVM."""
    home.mkdir(exist_ok=True)
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
            line = producer.stdout.readline()
            sent, failed, _ = (int(word) for word in line.split())
            outcome = Outcome([meter.cut(sent, refused=Counter({FAILED: failed} if failed else {}))])
            producer.wait(EXIT_TIMEOUT_S)
        finally:
            producer.kill()
    return outcome
