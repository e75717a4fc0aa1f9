"""What a reading task holds in memory is bounded, whatever its range: measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="the pipeline needs pyspark: pip install skyrocketmq[spark]")

from skyrocketmq import Message, MessageQueue
from skyrocketmq.blocking import Producer
from skyrocketmq.testing import BlockingCluster, LocalCluster

MIB = 1 << 20
COUNT = 40_000
SHORT = 10_000  # more than a batch, so that everything that a task ever holds is held
BODY_BYTES = 1000
SEND_COUNT = 1000

TASK = """
import json
import resource
import sys

from skyrocketmq.spark.source import RocketMQDataSource


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read(end):
    places = json.dumps({"Numbers": {"broker-a:0": end}})
    source = RocketMQDataSource({"namesrv": sys.argv[1], "subscribe": "Numbers", "endingOffsets": places})
    reader = source.reader(source.schema())
    (task,) = reader.partitions()
    return sum(batch.num_rows for batch in reader.read(task))


before = peak()
counts = [read(int(sys.argv[2]))]
peaks = [peak()]
counts.append(read(int(sys.argv[3])))
peaks.append(peak())
print(json.dumps([before, peaks, counts]))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with LocalCluster(settings={"mappedFileSizeCommitLog": str(128 * MIB)}) as running:
        running.create_topic("Numbers", queues=1)
        with Producer("fill", namesrv=running.namesrv) as producer:
            some = [Message("Numbers", bytes(BODY_BYTES), properties={"n": "1"}) for _ in range(SEND_COUNT)]
            for _ in range(COUNT // SEND_COUNT):
                producer.send_batch(some, queue=MessageQueue("Numbers", "broker-a", 0))
        yield running


@pytest.mark.slow
def test_the_memory_of_a_task_does_not_grow_with_its_range(cluster: BlockingCluster) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TASK, cluster.namesrv, str(SHORT), str(COUNT)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    before, (short, long), counts = json.loads(done.stdout)
    assert counts == [SHORT, COUNT]
    assert long - before < 96 * MIB, "docs/spark.md says some 40"
    assert long - short < 16 * MIB, f"six times the range took {(long - short) / MIB:.0f} MiB more"
