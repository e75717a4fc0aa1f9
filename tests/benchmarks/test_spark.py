"""The benchmark of the Spark source, sink and store reader runs from end to end, in its quick form."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.peer_servers import Unavailable
from benchmarks.spark_kafka import KafkaForSpark

from tests.benchmarks.quick import run_quick

BESIDE_KAFKA = (
    "read by the source, beside Kafka's",
    "read by the source, all columns, beside Kafka's",
    "written by the sink, beside Kafka's",
)
BESIDE_LARGE_KAFKA = "written by the sink, beside Kafka's with batches as large"
BESIDE_PARQUET = ("read by the store reader, beside Parquet", "read by the store reader, all columns, beside Parquet")


@pytest.mark.benchmark
@pytest.mark.system
@pytest.mark.timeout(600)
def test_source_sink_and_store_reader_are_measured_beside_kafka_and_parquet(tmp_path: Path) -> None:
    try:
        KafkaForSpark(8).prepare()
        kafka = ["kafka"]
    except Unavailable:
        kafka = []
    rows = run_quick(tmp_path, "spark")

    for name, others in {
        **dict.fromkeys(BESIDE_KAFKA, kafka),
        **{name: ["parquet"] for name in BESIDE_PARQUET},
        BESIDE_LARGE_KAFKA: [f"{name}, large batches" for name in kafka],
        "read by the store reader, beside the source": ["source"],
    }.items():
        assert sorted(rows[name]["values"]) == sorted(["ours", *others])
        assert all(min(values) > 0 for values in rows[name]["values"].values())
    goals = {name: row["goal"] for name, row in rows.items() if row["goal"] is not None}
    assert sorted(goals.values()) == [0.5, 1.0, 1.0, 1.0, 3.0]
