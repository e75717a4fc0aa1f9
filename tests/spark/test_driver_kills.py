"""Drivers of a real Spark that are killed while their queries run: started again, they repeat and lose nothing.

In every run one driver is killed, of a stream that writes effectively once; `jobs/test_commands.py` kills those of a
mirror and of an archive. `make chaos` kills many, at many points, of streams of every kind: SPARK_KILLS.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

import pyarrow.parquet as pq

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.errors import ConfigError
from skyrocketmq.spark.java import find_java
from skyrocketmq.testing import BlockingCluster, LocalCluster
from tests.spark.children import wait_for_end_of_session
from tests.spark.conftest import give_up
from tests.spark.test_kills import numbers, stored_count
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SPARK_KILLS", "1"))
SEED = int(os.environ.get("CHAOS_SEED", "11"))
STREAMS = ("once", "parquet", "batches", "least") if KILLS > 1 else ("once",)  # each takes its time
ROWS = 1800
BATCH = 600
CHUNK = 300  # sent at once, to one queue
DRIVER_TIMEOUT_S = 300.0  # its start takes seconds, and a minute or two where others keep the machine busy

pytestmark = [pytest.mark.system, pytest.mark.timeout(2 * DRIVER_TIMEOUT_S + 60 * KILLS)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    try:
        find_java()
    except ConfigError as reason:
        give_up(str(reason))
    with LocalCluster() as running:
        for topic in ("Once", "Least", "In"):
            running.create_topic(topic, queues=2)
        yield running


class Driver:
    """The program `copying` as a process, with everything that it starts."""

    def __init__(self, namesrv: str, directory: Path, number: int) -> None:
        self.log = directory / f"driver-{number}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.copying", namesrv, str(directory), str(BATCH), *STREAMS],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,
            )

    def wait(self) -> int:
        return self._process.wait(DRIVER_TIMEOUT_S)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """The driver and its JVM, at once. Python workers notice it when they next look, and have to be gone too before
        the query is started again, as docs/spark.md says."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        wait_for_end_of_session(self._process.pid)


def kill_points(cluster: BlockingCluster, directory: Path) -> list[tuple[str, Callable[[], bool]]]:
    """When drivers are killed, one after the other: in an epoch, right after its beginning, right after its end."""
    chance = random.Random(SEED)
    points: list[tuple[str, Callable[[], bool]]] = [
        ("in the middle of an epoch", lambda: stored_count(cluster, "Once") >= BATCH // 2),
        ("an epoch was just written down", lambda: (directory / "once" / "offsets" / "1").exists()),
        ("an epoch has just ended", lambda: (directory / "once" / "commits" / "1").exists()),
    ]
    while len(points) < KILLS:
        count = chance.randrange(BATCH, ROWS)
        points.append((f"{count} rows", lambda count=count: stored_count(cluster, "Once") >= count))  # type: ignore[misc]
    return points[:KILLS]


def test_a_driver_that_is_killed_anywhere_goes_on_from_its_checkpoint(cluster: BlockingCluster, tmp_path: Path) -> None:
    with Producer("fill", namesrv=cluster.namesrv) as producer:
        for first in range(0, ROWS, CHUNK):
            some = [Message("In", b"%d" % number) for number in range(first, first + CHUNK)]
            producer.send_batch(some, queue=MessageQueue("In", "broker-a", first // CHUNK % 2))
    for number, (what, is_reached) in enumerate(kill_points(cluster, tmp_path)):
        driver = Driver(cluster.namesrv, tmp_path, number)
        try:
            wait_until(lambda: is_reached() or driver.has_ended, what=what, timeout_s=DRIVER_TIMEOUT_S)  # noqa: B023
            assert not driver.has_ended, driver.log.read_text()[-3000:]
        finally:
            driver.kill()
    last = Driver(cluster.namesrv, tmp_path, KILLS)
    try:
        assert last.wait() == 0, last.log.read_text()[-3000:]
    finally:
        last.kill()

    once = numbers(cluster, "Once")
    assert sorted(once) == list(range(ROWS))
    assert set(once.values()) == {1}, "effectively once"
    if "parquet" in STREAMS:
        written = pq.read_table(_committed_files(tmp_path / "parquet")).column("body").to_pylist()
        assert sorted(map(int, written)) == list(range(ROWS))
    if "batches" in STREAMS:
        _check_batches(tmp_path / "batches.jsonl")
    if "least" in STREAMS:
        assert sorted(numbers(cluster, "Least")) == list(range(ROWS)), "at least once"


def _committed_files(directory: Path) -> list[Path]:
    """The files that count, by Spark's log of them: a task that was killed may have left another one."""
    names: set[str] = set()
    for log in (directory / "_spark_metadata").iterdir():
        if not log.name.startswith("."):
            names |= {json.loads(line)["path"] for line in log.read_text().splitlines()[1:] if line}
    return [Path(name.removeprefix("file://")) for name in sorted(names)]


def _check_batches(path: Path) -> None:
    """A batch that was repeated had the same messages, and all batches together have every message once."""
    batches: dict[int, list[list[int]]] = {}
    for line in path.read_text().splitlines():
        number, places = json.loads(line)
        assert batches.setdefault(number, places) == places
    places = [tuple(place) for some in batches.values() for place in some]
    assert sorted(places) == [(queue, offset) for queue in range(2) for offset in range(ROWS // 2)]
