"""Sends the rows of Parquet files to a topic, each file's to a queue of its own.

    python -m benchmarks.spark_filler NAMESRV PARQUET TOPIC

Messages go to the queues in turn, one by one, as ordinary producers send them: those of a queue do not lie together in
the log. Each has a unique id and a tag. They are sent without asking for answers, and then waited for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from skyrocketmq.client.outgoing import SendRequests, pack_message
from skyrocketmq.model import Message, MessageQueue
from skyrocketmq.model.names import AUTO_CREATE_TOPIC
from skyrocketmq.spark.cluster import Cluster
from skyrocketmq.spark.link import LinkSettings
from skyrocketmq.wire.frames import ONEWAY_BIT
from skyrocketmq.wire.ids import UniqueIdGenerator

__all__ = ["parquet_files"]

ROWS_AT_ONCE = 64  # of each queue
WAIT_S = 60.0


def parquet_files(directory: Path) -> list[Path]:
    """In the order of the partitions that they were written from."""
    return sorted(directory.glob("part-*.parquet"))


def _fill(namesrv: str, parquet: Path, topic: str) -> None:
    with Cluster((namesrv,), LinkSettings()) as cluster:
        queues = sorted(cluster.writable_queues(topic), key=lambda queue: queue.queue_id)
        columns = [_bodies(path) for path in parquet_files(parquet)]
        sends = SendRequests("filler", template=AUTO_CREATE_TOPIC, template_queue_nums=4, unit_mode=False)
        ids = UniqueIdGenerator(ip=bytes([127, 0, 0, 1]), process_id=1, constant=1)
        count = 0
        with cluster.connect(queues[0].broker_name, topic) as link:
            for bodies in zip(*columns, strict=True):
                now_ms = int(time.time() * 1000)
                requests = []
                for row in zip(*bodies, strict=True):
                    for queue, body in zip(queues, row, strict=True):
                        outgoing = pack_message(Message(topic, body, tags="TagA"), ids=ids, now_ms=now_ms)
                        request = sends.request(outgoing, queue, born_ms=now_ms).frame()
                        request.flag |= ONEWAY_BIT
                        requests.append(request)
                link.send(*requests)
                count += len(requests)
            _wait(cluster, queues, count)


def _wait(cluster: Cluster, queues: list[MessageQueue], count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while (stored := sum(cluster.max_offset(queue) for queue in queues)) < count:
        assert time.monotonic() < deadline, f"{stored} of {count} messages are stored"
        time.sleep(0.05)


def _bodies(path: Path) -> Iterator[list[bytes]]:
    for batch in pq.ParquetFile(path).iter_batches(ROWS_AT_ONCE, columns=["body"]):
        yield batch.column(0).to_pylist()


if __name__ == "__main__":
    _fill(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
