"""A driver to be killed: streams from one topic, each with its checkpoint, until all that is there is copied.

    python -m tests.spark.copying NAMESRV DIRECTORY BATCH_COUNT STREAM...

| stream | to |
|---|---|
| once | topic Once, effectively once |
| least | topic Least, at least once |
| parquet | Parquet files |
| batches | for each batch a line with its number and the places of its messages |
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from skyrocketmq.spark import session
from tests.spark.conftest import SETTINGS


def main(namesrv: str, directory: Path, batch_count: int, streams: Sequence[str]) -> None:
    spark = session("copying", master="local[2,4]", config=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    source = spark.readStream.format("rocketmq").options(
        namesrv=namesrv, subscribe="In", startingOffsets="earliest", maxOffsetsPerTrigger=batch_count
    )
    rows = source.schema("body binary, queue_id int, queue_offset long").load()
    # One message in each request: an epoch takes so long that it can be killed in the middle.
    sink = {"namesrv": namesrv, "batchBytes": "1", "window": "1"}

    def note(batch: DataFrame, number: int) -> None:
        places = sorted((row.queue_id, row.queue_offset) for row in batch.select("queue_id", "queue_offset").collect())
        with (directory / "batches.jsonl").open("a") as file:
            file.write(json.dumps([number, places]) + "\n")

    bodies = rows.select("body")
    to_topic = bodies.writeStream.format("rocketmq").options(**sink)
    writers = {
        "once": to_topic.options(topic="Once", mode="effectively-once"),
        "least": bodies.writeStream.format("rocketmq").options(**sink, topic="Least"),
        "parquet": bodies.writeStream.format("parquet").option("path", str(directory / "parquet")),
        "batches": rows.writeStream.foreachBatch(note),
    }
    queries = []
    for name in streams:
        writer = writers[name].option("checkpointLocation", str(directory / name))
        queries.append(writer.trigger(availableNow=True).start())
        # One after the other: each starts processes of its own, and Spark does not wait for them long.
        while queries[-1].isActive and "Initializing" in queries[-1].status["message"]:
            time.sleep(0.05)
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
