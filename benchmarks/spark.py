"""Our Spark source, sink and store reader beside Spark's own Kafka source and sink, and beside Parquet.

One session of two threads, one query for everything that reads (`spark_work` says which), 2 million messages of 1 KB:
our source from our broker, the store reader from that broker's directory, Kafka's source from one Kafka broker with as
many partitions, and Spark from Parquet files with the same rows. A source in Python that gives one batch again and
again shows what handing rows to Spark costs, whoever has read them. Then 1 million rows are read from Parquet and
written, by our sink and by Kafka's. Spark, its Python workers and the broker share the machine.

Everything is read once before it is measured, and some rows are written; then all have their turn in each round.
Servers, source and sink are left at their defaults: ours sends batches of 256 KiB and Kafka's producer such of 16 KiB,
both uncompressed. Kafka's sink is measured with batches of 256 KiB as well.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker_servers import Servers, create_topics
from benchmarks.load import BadAnswer
from benchmarks.peer_servers import ROOT, Unavailable
from benchmarks.report import OURS, Better, Report
from benchmarks.spark_filler import parquet_files
from benchmarks.spark_kafka import KafkaForSpark
from benchmarks.spark_work import Reads, make_rows, rows_per_second, write_kafka, write_ours

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["NAME", "add_arguments", "run"]

NAME = "spark"
QUEUES = 8
READ_TOPIC = "Read"
WRITTEN_TOPIC = "Written"
KAFKA, SOURCE, STORE, PARQUET = "kafka", "source", "store", "parquet"
REPEATED = "one batch again and again"
LARGE_KAFKA = "kafka, large batches"
BATCH_BYTES = 256 * 1024  # those of our sink
WHOLE_SOURCE, WHOLE_STORE = "source, all columns", "store, all columns"
SESSION = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}
FILL_TIMEOUT_S = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("spark")
    group.add_argument("--spark-read", type=int, default=2_000_000, help="rows that are read (2,000,000)")
    group.add_argument("--spark-written", type=int, default=1_000_000, help="rows that are written (1,000,000)")
    group.add_argument("--no-kafka", action="store_true", help="leave out what is beside Kafka")


def run(arguments: argparse.Namespace) -> Report:
    """Measure and report."""
    quick = arguments.quick
    rounds = 1 if quick else arguments.rounds
    read_count = 16_000 if quick else arguments.spark_read
    written_count = 8_000 if quick else arguments.spark_written
    shown = {"rounds": str(rounds), "read": f"{read_count:,}", "written": f"{written_count:,}", "queues": str(QUEUES)}
    report = Report(NAME, shown, others="theirs")
    with ExitStack() as opened:
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory("", "benchmark-", arguments.directory)))
        kafka = None if arguments.no_kafka else _kafka(report)
        spark = opened.enter_context(_session(directory, kafka))
        benchmark = SparkBenchmark(report, spark, directory, read_count=read_count, written_count=written_count)
        benchmark.open(opened, kafka)
        for measure in (benchmark.read, benchmark.write):
            measure(is_measured=False)
            for number in range(rounds):
                print(f"  round {number + 1} of {rounds}", flush=True)
                measure(is_measured=True)
    return report


def _kafka(report: Report) -> KafkaForSpark | None:
    kafka = KafkaForSpark(QUEUES)
    try:
        kafka.prepare()
    except Unavailable as reason:
        print(f"  Kafka is left out: {reason}", flush=True)
        report.settings["without Kafka"] = str(reason).partition("\n")[0]
        return None
    return kafka


@contextmanager
def _session(directory: Path, kafka: KafkaForSpark | None) -> Iterator[SparkSession]:
    """Two threads, and Spark's defaults: the driver, which does all the work here, has 1 GiB."""
    from skyrocketmq.spark import session

    config = SESSION | {"spark.local.dir": str(directory), "spark.sql.warehouse.dir": str(directory / "warehouse")}
    if kafka is not None:
        config["spark.jars"] = kafka.jars
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # for its workers
    spark = session(NAME, master="local[2]", config=config)
    try:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()


class SparkBenchmark:
    """Servers that stay up, and one round after the other."""

    def __init__(
        self, report: Report, spark: SparkSession, directory: Path, *, read_count: int, written_count: int
    ) -> None:
        self._report = report
        self._spark = spark
        self._directory = directory
        self._read_count = read_count
        self._written_count = written_count
        self._kafka_address: str | None = None

    def open(self, opened: ExitStack, kafka: KafkaForSpark | None) -> None:
        """Make the rows, and start servers that have them."""
        parquet = self._directory / "parquet"
        print("  rows are made", flush=True)
        make_rows(self._spark, parquet, count=self._read_count, file_count=QUEUES)
        print("  brokers are filled", flush=True)
        target = opened.enter_context(Servers(self._directory, None).started(OURS))
        create_topics(target, dict.fromkeys((READ_TOPIC, WRITTEN_TOPIC), QUEUES))
        _fill(target.namesrv, parquet)
        self._namesrv = target.namesrv
        self._reads = Reads(self._spark, READ_TOPIC, namesrv=target.namesrv, store=target.store, parquet=parquet)
        self._parquet_files = [str(path) for path in parquet_files(parquet)]
        if kafka is not None:
            self._kafka_address = opened.enter_context(kafka.started(self._directory / "kafka"))
            write_kafka(self._reads.parquet(), address=self._kafka_address, topic=READ_TOPIC, batch_bytes=BATCH_BYTES)
        os.sync()  # what was filled in is on the disk, and does not get there while something is measured

    def read(self, *, is_measured: bool) -> None:
        count = self._read_count
        frames: dict[str, Callable[[], DataFrame]] = {
            SOURCE: self._reads.source,
            STORE: self._reads.store,
            PARQUET: self._reads.parquet,
            REPEATED: lambda: self._reads.repeated(count, QUEUES),
            WHOLE_SOURCE: lambda: self._reads.source(is_whole=True),
            WHOLE_STORE: lambda: self._reads.store(is_whole=True),
        }
        if (address := self._kafka_address) is not None:
            frames = {KAFKA: lambda: self._reads.kafka(address), **frames}
        rates: dict[str, float] = {}
        if not is_measured:  # what makes all columns is warm then, too
            frames = {name: frame for name, frame in frames.items() if name not in (WHOLE_SOURCE, WHOLE_STORE)}
        for name, frame in frames.items():
            rates[name] = rows_per_second(frame(), count=count)
            print(f"    {name}: {rates[name]:,.0f} rows/s{'' if is_measured else ' (warm-up)'}", flush=True)
        if is_measured:
            self._compare("read by the source, beside Kafka's", SOURCE, KAFKA, rates, goal=1.0)
            self._compare("read by the store reader, beside Parquet", STORE, PARQUET, rates, goal=0.5)
            self._compare("read by the store reader, beside the source", STORE, SOURCE, rates, goal=3.0)
            self._compare("read by the store reader, beside one batch again and again", STORE, REPEATED, rates)
            self._compare("read by the source, all columns, beside Kafka's", WHOLE_SOURCE, KAFKA, rates)
            self._compare("read by the store reader, all columns, beside Parquet", WHOLE_STORE, PARQUET, rates)

    def _compare(self, name: str, ours: str, other: str, rates: dict[str, float], *, goal: float | None = None) -> None:
        row = self._report.row(name, "rows/s", Better.MORE, goal, beside=other)
        row.add(OURS, rates[ours])
        if other in rates:
            row.add(other, rates[other])

    def write(self, *, is_measured: bool) -> None:
        count = self._written_count if is_measured else self._written_count // 8
        rows = self._spark.read.parquet(*self._parquet_files).where(f"offset < {count // QUEUES}")
        rates: dict[str, float] = {}
        if (address := self._kafka_address) is not None:
            rates[KAFKA] = count / write_kafka(rows, address=address, topic=WRITTEN_TOPIC)
            took_s = write_kafka(rows, address=address, topic=WRITTEN_TOPIC, batch_bytes=BATCH_BYTES)
            rates[LARGE_KAFKA] = count / took_s
        rates[OURS] = count / write_ours(rows, namesrv=self._namesrv, topic=WRITTEN_TOPIC)
        for name, rate in rates.items():
            print(f"    {name}: {rate:,.0f} rows/s written{'' if is_measured else ' (warm-up)'}", flush=True)
        if is_measured:
            self._compare("written by the sink, beside Kafka's", OURS, KAFKA, rates, goal=1.0)
            self._compare(
                "written by the sink, beside Kafka's with batches as large", OURS, LARGE_KAFKA, rates, goal=1.0
            )


def _fill(namesrv: str, parquet: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.spark_filler", namesrv, str(parquet), READ_TOPIC]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=FILL_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise BadAnswer(f"the topic could not be filled:\n{done.stderr[-2000:]}")
