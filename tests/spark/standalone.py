"""A Spark cluster of its own on this machine: a standalone master and workers, from the jars that PySpark brings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from skyrocketmq.spark.java import find_java
from tests.interop.processes import Process
from tests.ports import free_port

SPARK_HOME = Path(pyspark.__file__).parent
READY_TIMEOUT_S = 90.0
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # quick to start
PROGRAM_TIMEOUT_S = 150.0


@dataclass(frozen=True)
class Standalone:
    """A running cluster."""

    master: str
    directory: Path

    def submit(self, program: Path) -> str:
        """Run a program with `spark-submit`; what it printed. Raises `AssertionError` if it fails."""
        settings = [word for pair in DRIVER.items() for word in ("--conf", "=".join(pair))]
        return self._run([str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, *settings], program)

    def run(self, program: Path) -> str:
        """Run a program with this interpreter. It finds the master in the environment."""
        return self._run([sys.executable], program)

    def _run(self, command: Sequence[str], program: Path) -> str:
        done = subprocess.run(
            [*command, str(program)],
            env={**environment(), "MASTER": self.master},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
            cwd=self.directory,
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout


# All on this machine, and little of it.
DRIVER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.executor.extraJavaOptions": JVM,
    "spark.sql.shuffle.partitions": "2",
}


def environment() -> Mapping[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JVM,
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(find_java()),
    }


@contextmanager
def standalone(directory: Path, *, workers: int = 2) -> Iterator[Standalone]:
    """A master and workers with one core each, stopped at the end."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as opened:
        _start(
            opened,
            directory / "master",
            ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
            "New state: ALIVE",
        )
        for number in range(workers):
            home = directory / f"worker-{number}"
            resources = ["--cores", "1", "--memory", "700m", "--work-dir", str(home / "work")]
            place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            command = ["org.apache.spark.deploy.worker.Worker", *place, *resources, master]
            _start(opened, home, command, "Successfully registered with master")
        yield Standalone(master, directory)


def _start(opened: ExitStack, home: Path, command: Sequence[str], ready: str) -> None:
    home.mkdir()
    process = Process(
        [str(SPARK_HOME / "bin" / "spark-class"), *command],
        name=command[0],
        log=home / "console.log",
        environ=environment(),
    )
    opened.callback(process.stop)
    process.wait_until(lambda: ready in process.said(), timeout_s=READY_TIMEOUT_S)
